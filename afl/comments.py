"""Cuts AFL text into pieces, comments included, for tools that must not lose what the parser drops.

The text is taken to be valid: what is no piece of the language is left to the parser to report.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple


class PieceKind(StrEnum):
    """What a piece of source text is."""

    WORD = "word"
    NUMBER = "number"
    STRING = "string"
    MARK = "mark"
    #: A script in braces, the braces included.
    RAW_BODY = "raw body"
    LINE_COMMENT = "line comment"
    BLOCK_COMMENT = "block comment"
    DOC_COMMENT = "doc comment"
    #: The end of the text; its own text is empty.
    END = "end"


COMMENT_KINDS = frozenset({PieceKind.LINE_COMMENT, PieceKind.BLOCK_COMMENT, PieceKind.DOC_COMMENT})


class Piece(NamedTuple):
    """A token or a comment with its place: 1-based line and column, in characters."""

    kind: PieceKind
    text: str
    line: int
    column: int
    #: Line ends between the piece before and this one.
    line_ends_before: int

    @property
    def is_comment(self) -> bool:
        return self.kind in COMMENT_KINDS


_PIECE = re.compile(
    r"""(?s)
      (?P<blank>[ \t\f\r\n]+)
    | (?P<line_comment>//[^\n]*)
    | (?P<doc_comment>/\*\*(?!/).*?\*/)
    | (?P<block_comment>/\*.*?\*/)
    | (?P<string>"(?:[^"\\]++|\\.)*+")
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?)?)
    | (?P<mark>\#\{|\+\+|=>|==|!=|<=|>=|&&|\|\||.)
    """,
    re.VERBOSE,
)
_KINDS = {kind.name.lower(): kind for kind in PieceKind}

#: What may stand in a raw body besides code that has no braces: Python strings and comments, where braces are text.
_RAW_PIECE = re.compile(
    r"""(?s)
      \#[^\n]*
    | \"\"\"(?:[^\\]|\\.)*?\"\"\" | '''(?:[^\\]|\\.)*?'''
    | "(?:[^"\\\n]|\\.)*"? | '(?:[^'\\\n]|\\.)*'?
    | (?P<open>\{) | (?P<close>\})
    | [^\#"'{}]+
    """,
    re.VERBOSE,
)
#: Words after which `script` is a name and not the start of a script.
_BEFORE_A_NAME = frozenset({"namespace", "schema", "use", "uses", "in", "as", ".", "with", "facet", "workflow"})


def pieces(text: str) -> list[Piece]:
    """Return the tokens and comments of a text in order; the last piece is the end."""
    found: list[Piece] = []
    position = 1 if text.startswith("\ufeff") else 0
    line, line_start, line_ends = 1, position, 0
    while position < len(text):
        match = _PIECE.match(text, position)
        assert match is not None  # the last alternative takes any character
        kind, stop = str(match.lastgroup), match.end()
        if kind == "mark" and match.group() == "{" and _opens_raw_body(found):
            kind, stop = "raw_body", _end_of_raw_body(text, position)
        piece = text[position:stop]
        breaks = piece.count("\n")
        if kind == "blank":
            line_ends += breaks
        else:
            kept = piece.rstrip() if kind == "line_comment" else piece
            found.append(Piece(_KINDS[kind], kept, line, position - line_start + 1, line_ends))
            line_ends = 0
        if breaks:
            line += breaks
            line_start = position + piece.rfind("\n") + 1
        position = stop
    found.append(Piece(PieceKind.END, "", line, position - line_start + 1, line_ends))
    return found


def doc_comments(text: str) -> dict[tuple[int, int], str]:
    """Return the doc comments that belong to declarations, by line and column of the declaration's first word.

    A doc comment belongs to the namespace, facet, event facet, workflow or schema that follows it with nothing but
    ordinary comments between; of several, the last one does. One in another place is an ordinary comment.
    """
    attached: dict[tuple[int, int], str] = {}
    latest: str | None = None
    everything = pieces(text)
    tokens = [piece for piece in everything if not piece.is_comment]
    after = iter(range(1, len(tokens) + 1))
    for piece in everything:
        if piece.kind is PieceKind.DOC_COMMENT:
            latest = piece.text
        elif not piece.is_comment:
            following = next(after)
            if latest is not None and starts_declaration(tokens[following - 1 : following + 2]):
                attached[piece.line, piece.column] = latest
            latest = None
    return attached


def starts_declaration(tokens: Sequence[Piece]) -> bool:
    """Whether these tokens can open a declaration that a doc comment may belong to."""
    if len(tokens) < 3:
        return False
    first, second, third = (token.text for token in tokens[:3])
    if first == "event":
        return second == "facet" and tokens[2].kind is PieceKind.WORD
    if tokens[1].kind is not PieceKind.WORD:
        return False
    if first == "namespace":
        return third != "="
    return (first in ("facet", "workflow") and third == "(") or (first == "schema" and third == "{")


def comments(text: str) -> Iterator[Piece]:
    """Return the comments of a text, in order."""
    return (piece for piece in pieces(text) if piece.is_comment)


def _opens_raw_body(before: Sequence[Piece]) -> bool:
    """Whether a brace here opens a script: it follows the keyword, perhaps with a dialect's name between."""
    words = [piece for piece in before[-12:] if not piece.is_comment]
    for behind in (1, 2):
        if len(words) < behind or words[-behind].kind is not PieceKind.WORD:
            return False
        if words[-behind].text == "script":
            return len(words) == behind or words[-behind - 1].text not in _BEFORE_A_NAME
    return False


def _end_of_raw_body(text: str, start: int) -> int:
    """Return the position behind the closing brace, or the end of the text where there is none."""
    depth = 0
    for match in _RAW_PIECE.finditer(text, start):
        if match.lastgroup == "open":
            depth += 1
        elif match.lastgroup == "close":
            depth -= 1
            if depth == 0:
                return match.end()
    return len(text)
