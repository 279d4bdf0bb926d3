"""Attach every comment to the token that it moves with: the one before it or the one behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from afl.syntax.comments import Piece, PieceKind

_CLOSERS = frozenset({")", "]", "}", ",", ""})

#: Words that begin a declaration, which may have a doc comment.
_DOCUMENTED = frozenset({"namespace", "facet", "event", "workflow", "schema"})


@dataclass(slots=True)
class Comment:
    """A comment, with its position relative to lines in the source."""

    text: str
    kind: PieceKind
    #: True if an empty line stands before it.
    blank_before: bool
    #: True if a line end stands before it, and behind it.
    starts_line: bool
    ends_line: bool

    @property
    def takes_the_line(self) -> bool:
        """Say whether it must be the last text on its line."""
        return self.kind is not PieceKind.BLOCK_COMMENT


@dataclass(slots=True)
class Token:
    """A token and its comments. `;` is dropped: line ends replace it."""

    kind: PieceKind
    text: str
    line: int
    #: True if an empty line, or a line end, stands before the token and its leading comments.
    blank_before: bool
    starts_line: bool
    leading: tuple[Comment, ...] = ()
    trailing: tuple[Comment, ...] = ()
    #: True if an empty line stands between the leading comments and the token.
    blank_inside: bool = False


def tokens_of(pieces: Sequence[Piece]) -> list[Token]:
    """Return the tokens among the pieces of a text with their comments attached; the last token is the end."""
    found: list[Token] = []
    waiting: list[Piece] = []
    lost_line_ends = cut_off = 0
    for piece in pieces:
        if piece.text == ";":
            lost_line_ends += piece.line_ends_before
            cut_off = len(waiting)
            continue
        if lost_line_ends:
            piece = piece._replace(line_ends_before=piece.line_ends_before + lost_line_ends)
            lost_line_ends = 0
        if piece.is_comment:
            waiting.append(piece)
        elif waiting:
            if cut_off and piece.text in _DOCUMENTED:
                _keep_apart(waiting, cut_off)
            _attach(found, waiting, piece)
            waiting = []
        else:
            gap = piece.line_ends_before
            found.append(Token(piece.kind, piece.text, piece.line, gap > 1, gap > 0))
        if not waiting:
            cut_off = 0
    return found


def _keep_apart(comments: list[Piece], cut_off: int) -> None:
    """Keep a `;` that separates a doc comment among the first `cut_off` comments from the next declaration."""
    docs = [number for number, comment in enumerate(comments) if comment.kind is PieceKind.DOC_COMMENT]
    if docs and docs[-1] < cut_off:
        last = comments[docs[-1]]
        comments[docs[-1]] = last._replace(text=last.text + " ;")


def _attach(found: list[Token], waiting: Sequence[Piece], piece: Piece) -> None:
    behind = _how_many_trail(waiting, piece) if found else 0
    attached = [
        Comment(
            comment.text,
            comment.kind,
            blank_before=comment.line_ends_before > 1,
            starts_line=comment.line_ends_before > 0,
            ends_line=after.line_ends_before > 0,
        )
        for comment, after in zip(waiting, [*waiting[1:], piece], strict=True)
    ]
    if behind:
        found[-1].trailing = tuple(attached[:behind])
    leading = tuple(attached[behind:])
    opener = leading[0] if leading else None
    own_gap = piece.line_ends_before
    found.append(
        Token(
            piece.kind,
            piece.text,
            piece.line,
            blank_before=opener.blank_before if opener else own_gap > 1,
            starts_line=opener.starts_line if opener else own_gap > 0,
            leading=leading,
            blank_inside=opener is not None and own_gap > 1 and leading[-1].kind is not PieceKind.DOC_COMMENT,
        )
    )


def _how_many_trail(waiting: Sequence[Piece], token: Piece) -> int:
    """Return how many of the comments before a token belong to the previous token: those that end its line."""
    on_the_line = 0
    for comment in waiting:
        if comment.line_ends_before or comment.kind is PieceKind.DOC_COMMENT:
            break
        on_the_line += 1
        if comment.kind is PieceKind.LINE_COMMENT:
            return on_the_line
    if not on_the_line:
        return 0
    after = waiting[on_the_line] if on_the_line < len(waiting) else token
    ends_line = after.line_ends_before > 0
    return on_the_line if ends_line or (after is token and token.text in _CLOSERS) else 0
