"""What the checks say about a text, for tests."""

from afl.compiler import check_texts
from afl.diagnostics import Diagnostic


def findings(*texts: str) -> list[Diagnostic]:
    """All findings of texts that are checked as one program; their source ids are their numbers."""
    return list(check_texts([(text, str(number)) for number, text in enumerate(texts)]).diagnostics)


def codes(*texts: str) -> list[str]:
    """The codes of all findings, in the order of the texts."""
    return [item.code for item in findings(*texts)]


def marked(text: str) -> list[tuple[str, str]]:
    """The codes of all findings, each with the piece of the (single) text that it is about."""
    lines = text.split("\n")
    found = []
    for item in findings(text):
        assert item.line is not None and item.column is not None and item.end_line is not None  # noqa: PT018
        piece = lines[item.line - 1 : item.end_line]
        piece[-1] = piece[-1][: (item.end_column or 0) - 1]
        piece[0] = piece[0][item.column - 1 :]
        found.append((item.code, "\n".join(piece)))
    return found
