"""Format AFL text, and prove for every result that it is the same program with the same comments."""

from __future__ import annotations

from afl.errors import AFLError
from afl.formatting.arranger import Arranger
from afl.formatting.layout import render
from afl.formatting.reader import UnknownConstruct
from afl.formatting.tokens import tokens_of
from afl.grammar.script_bodies import script_code
from afl.syntax.comments import Piece, PieceKind, pieces

#: A comment that moves to another line may let its neighbours move too, so the layout repeats until nothing changes.
MAX_PASSES = 12


class FormatRefused(AFLError):
    """A text that the formatter leaves unchanged because its meaning is at risk."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        place = "" if line is None else f" (line {line})"
        super().__init__(f"cannot be formatted: {reason}{place}")
        self.reason = reason
        self.line = line


def format_text(text: str) -> str:
    """Return the text in the one layout of the language.

    The text has to be valid. Raises FormatRefused where it is not, or is nested too deeply.
    """
    before = pieces(text)
    formatted = _arranged(before)
    if formatted == text:
        return text
    for _ in range(MAX_PASSES):
        after = pieces(formatted)
        if _program_of(before) != _program_of(after) or _comments_of(before) != _comments_of(after):
            raise FormatRefused("the result would not be the same program")
        again = _arranged(after)
        if again == formatted:
            return formatted
        formatted, before = again, after
    raise FormatRefused("its comments find no place to rest")


def _arranged(text: list[Piece]) -> str:
    try:
        return render(Arranger(tokens_of(text)).program())
    except UnknownConstruct as unknown:
        raise FormatRefused(str(unknown), unknown.line) from None
    except RecursionError:
        raise FormatRefused("it is nested too deeply") from None


def _program_of(text: list[Piece]) -> list[tuple[PieceKind, str]]:
    """Return the tokens that the parser sees, without separators."""
    return [
        (piece.kind, script_code(piece.text) if piece.kind is PieceKind.RAW_BODY else piece.text)
        for piece in text
        if not piece.is_comment and piece.text not in (";", ",")
    ]


def _comments_of(text: list[Piece]) -> list[str]:
    """Return the comments in order; blanks at both ends of their lines are layout."""
    return ["\n".join(line.strip() for line in piece.text.split("\n")) for piece in text if piece.is_comment]
