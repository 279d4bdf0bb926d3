"""Split AFL text into pieces, comments included, for tools that must not lose what the parser drops.

The text is taken to be valid: the parser reports pieces that are not part of the language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from afl.core.row_maker import row_maker
from afl.core.text.line_ends import with_line_feeds
from afl.grammar.script_bodies import end_of_body, opens_script


class PieceKind(StrEnum):
    """The kinds of pieces in a source text."""

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
    #: The number of line ends between the piece before and this one.
    line_ends_before: int

    @property
    def is_comment(self) -> bool:
        return self.kind in COMMENT_KINDS


_piece = row_maker(Piece, "kind", "text", "line", "column", "line_ends_before")

_PIECE = re.compile(
    r"""(?s)[ \t\f\r]*(?:
      (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<line_end>\n[ \t\f\r\n]*)
    | (?P<line_comment>//[^\n]*)
    | (?P<doc_comment>/\*\*(?!/).*?\*/)
    | (?P<block_comment>/\*.*?\*/)
    | (?P<string>"(?:[^"\\]++|\\.)*+")
    | (?P<number>[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?)?)
    | (?P<brace>\{)
    | (?P<end>\Z)
    | (?P<mark>\#\{|\+\+|=>|==|!=|<=|>=|&&|\|\||.)
    )""",
    re.VERBOSE,
)
_KINDS = {kind.name.lower(): kind for kind in PieceKind} | {"brace": PieceKind.MARK}

#: The lexer's names for the pieces that decide whether a brace opens a script; every other word is a name.
_TOKEN_TYPES = {"script": "SCRIPT", "as": "AS", "andThen": "ANDTHEN", "catch": "CATCH", ")": "RPAR", "}": "RBRACE"}


def pieces(text: str) -> list[Piece]:
    """Return the tokens and comments of a text in order; the last piece is the end."""
    text = with_line_feeds(text)
    found: list[Piece] = []
    append = found.append
    make = _piece
    position = line_start = 1 if text.startswith("\ufeff") else 0
    line, line_ends = 1, 0
    while True:
        for match in _PIECE.finditer(text, position):
            name: str = match.lastgroup  # type: ignore[assignment]  # every alternative is a group
            start, position = match.span(name)
            piece = text[start:position]
            if name == "line_end":
                line_ends += piece.count("\n")
                line += piece.count("\n")
                line_start = start + piece.rfind("\n") + 1
                continue
            kind = _KINDS[name]
            if name == "end":
                append(Piece(kind, "", line, start - line_start + 1, line_ends))
                return found
            opens_script = name == "brace" and _opens_script(found)
            if opens_script:
                kind, position = PieceKind.RAW_BODY, end_of_body(text, start) or len(text)
                piece = text[start:position]
            elif name == "line_comment":
                piece = piece.rstrip()
            append(make((kind, piece, line, start - line_start + 1, line_ends)))
            line_ends = 0
            if "\n" in piece:
                line += piece.count("\n")
                line_start = start + piece.rfind("\n") + 1
            if opens_script:
                break  # continue behind the script


def comments(text: str) -> Iterator[Piece]:
    """Return the comments of a text, in order."""
    return (piece for piece in pieces(text) if piece.is_comment)


def _opens_script(before: Sequence[Piece]) -> bool:
    """Say whether a brace behind these pieces opens a script."""
    tokens = islice((piece for piece in reversed(before) if not piece.is_comment), 5)
    return opens_script([_token_type(piece) for piece in tokens][::-1])


def _token_type(piece: Piece) -> str:
    if piece.kind is PieceKind.STRING or piece.kind is PieceKind.RAW_BODY:
        return piece.kind.name
    return _TOKEN_TYPES.get(piece.text, "NAME" if piece.kind is PieceKind.WORD else piece.text)
