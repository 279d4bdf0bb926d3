"""The findings of the checks about a text, for tests."""

from collections.abc import Sequence
from dataclasses import dataclass

from afl.compiler import CheckedInput, check_input
from afl.core.strictness import Strictness
from afl.diagnostics import Diagnostic
from afl.source import CompilerInput, SourceEntry


@dataclass(frozen=True)
class _Given:
    """The origin of a text that is nowhere: its source id is what the test says, if anything."""

    source_id: str | None

    def to_source_id(self) -> str | None:
        return self.source_id


def check_texts(
    texts: Sequence[tuple[str, str | None]], *, strictness: Strictness = Strictness.LENIENT
) -> CheckedInput:
    """Check texts, each with its source id, as one program."""
    entries = [SourceEntry(text, _Given(source_id)) for text, source_id in texts]  # type: ignore[arg-type]  # not one of the kinds that commands know
    return check_input(CompilerInput(entries), strictness=strictness)


def findings(*texts: str) -> list[Diagnostic]:
    """All findings of texts that are checked as one program; their source ids are their numbers."""
    return list(check_texts([(text, str(number)) for number, text in enumerate(texts)]).diagnostics)


def codes(*texts: str) -> list[str]:
    """Return the codes of all findings, in the order of the texts."""
    return [item.code for item in findings(*texts)]


def marked(text: str) -> list[tuple[str, str]]:
    """Return the codes of all findings, each with the piece of the (single) text that it is about."""
    lines = text.split("\n")
    found = []
    for item in findings(text):
        assert item.line is not None and item.column is not None and item.end_line is not None  # noqa: PT018
        piece = lines[item.line - 1 : item.end_line]
        piece[-1] = piece[-1][: (item.end_column or 0) - 1]
        piece[0] = piece[0][item.column - 1 :]
        found.append((item.code, "\n".join(piece)))
    return found
