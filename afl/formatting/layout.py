"""A small pretty printer: each group of documents goes on one line where it fits, else every gap of it breaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from afl.formatting.tokens import Comment, Token
from afl.grammar.script_bodies import script_code
from afl.syntax.comments import PieceKind

#: The columns of a line, and the blanks of one level.
WIDTH = 100
INDENT = 4

#: Kinds of tokens that may hold line ends.
_MULTILINE = (PieceKind.STRING, PieceKind.RAW_BODY)


@dataclass(frozen=True, slots=True)
class Text:
    """Characters without a line end that are not in the source, or differ from it."""

    text: str


@dataclass(slots=True)  # not frozen: there is one for every token, and that would cost three times as much
class Code:
    """A token of the source with its comments; with `own_line` the layout puts it first on its line."""

    token: Token
    own_line: bool = False


@dataclass(frozen=True, slots=True)
class CommentLines:
    """Comments on lines of their own, for example before a closing bracket."""

    comments: tuple[Comment, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A gap: `flat` in a group on one line, a line end in a broken group or if `hard`.

    `blank` adds an empty line.
    """

    flat: str = " "
    hard: bool = False
    blank: bool = False


@dataclass(frozen=True, slots=True)
class IfBroken:
    """Text that appears only in a broken group."""

    text: str


class Indent:
    """Lines one level deeper."""

    __slots__ = ("parts", "shape")
    __match_args__ = ("parts",)

    def __init__(self, parts: Sequence[Document]) -> None:
        self.parts = parts
        self.shape = _shape(parts)


class Group:
    """Documents that go on one line if they fit and contain no forced line end; `broken` forces line ends itself.

    A group that `gives_way` is broken before a group in front of it.
    """

    __slots__ = ("broken", "gives_way", "parts", "shape")
    __match_args__ = ("parts",)

    def __init__(self, parts: Sequence[Document], *, broken: bool = False, gives_way: bool = False) -> None:
        self.parts = parts
        self.gives_way = gives_way
        self.shape = _shape(parts)
        self.broken = broken or self.shape.broken


Document: TypeAlias = "Text | Code | CommentLines | Line | IfBroken | Indent | Group"


class _Shape(NamedTuple):
    """The facts that decide whether documents in a row fit on one line; computed once, when they are made."""

    #: Whether a comment or a hard line end inside prevents that.
    broken: bool
    #: Whether at least one of them is not a gap.
    solid: bool
    #: Whether a comment behind their last token takes the rest of its line.
    open: bool
    #: The columns of the documents on one line; None if a text inside has several lines.
    width: int | None


def _shape(parts: Sequence[Document]) -> _Shape:
    broken = solid = pending = manifold = False
    width = 0
    for part in parts:
        if isinstance(part, Code):
            token = part.token
            broken = broken or pending
            solid, pending = True, False
            if not token.leading and not token.trailing and token.kind not in _MULTILINE:
                width += len(token.text)
                continue
            broken = broken or any(comment.starts_line or comment.takes_the_line for comment in token.leading)
            pending = any(comment.takes_the_line for comment in token.trailing)
            texts = list(_inline_texts(token))
            width += sum(map(len, texts))
            manifold = manifold or any("\n" in text for text in texts)
        elif isinstance(part, Group | Indent):
            inner = part.shape
            broken = broken or inner.broken or (isinstance(part, Group) and part.broken) or (pending and inner.solid)
            if inner.solid:
                solid, pending = True, inner.open
            manifold = manifold or inner.width is None
            width += inner.width or 0
        elif isinstance(part, Text):
            width += len(part.text)
        elif isinstance(part, Line):
            width += len(part.flat)
            broken, solid = broken or part.hard, solid or part.hard
        elif isinstance(part, CommentLines):
            broken = solid = True
    return _Shape(broken, solid, pending, None if manifold else width)


_Task = tuple[int, bool, Document]


def render(parts: Sequence[Document]) -> str:
    """Return the lines of documents; no line ends in blanks, and the last one ends with a line end."""
    return _Renderer().run(parts)


class _Renderer:
    """The text so far. Indentation is written with the first character of a line, so blank lines stay empty."""

    def __init__(self) -> None:
        self._out: list[str] = []
        self._column = 0
        self._indent = 0
        #: A comment that takes the rest of its line is held back until the line ends, so that commas can go before it.
        self._suffix = ""
        self._at_line_start = True
        self._must_end_line = False
        self._wants_blank = False

    def run(self, parts: Sequence[Document]) -> str:
        stack: list[_Task] = [(0, True, part) for part in reversed(parts)]
        while stack:
            indent, broken, part = stack.pop()
            self._indent = indent * INDENT
            match part:
                case Code():
                    self._code(part)
                case Text(" "):
                    self._wants_blank = True
                case Text(text):
                    self._write(text)
                case CommentLines(comments):
                    for number, comment in enumerate(comments):
                        self._end_line(blank=comment.blank_before and number > 0)
                        self._write(_aligned(comment.text, self._indent))
                        self._must_end_line = True
                case IfBroken(text):
                    if broken:
                        self._write(text)
                case Line(flat, hard, blank):
                    if hard or broken:
                        self._end_line(blank=blank)
                    elif flat:
                        self._wants_blank = True
                case Indent(inner):
                    stack.extend((indent + 1, broken, item) for item in reversed(inner))
                case Group(inner):
                    # Inside a group on one line, everything is on that line.
                    split = broken and (part.broken or not self._fits(part, stack))
                    stack.extend((indent, split, item) for item in reversed(inner))
        self._end_line()
        return "".join(self._out)

    def _code(self, code: Code) -> None:
        token = code.token
        for comment in token.leading:
            if comment.starts_line or self._suffix:
                self._end_line(blank=code.own_line and comment.blank_before and comment is not token.leading[0])
            self._wants_blank = self._wants_blank or not self._ends_with_opener()
            self._write(_aligned(comment.text, self._indent))
            self._must_end_line = comment.takes_the_line or comment.ends_line
            self._wants_blank = True
        if token.blank_inside and code.own_line:
            self._end_line(blank=True)
        if token.kind is PieceKind.RAW_BODY:
            self._write(_moved_body(token.text, " " * self._indent, " " * (self._indent + INDENT)))
        else:
            self._write(token.text)
        for comment in token.trailing:
            if self._suffix:
                self._end_line()
            if comment.kind is PieceKind.LINE_COMMENT:
                self._suffix = comment.text
            else:
                self._wants_blank = not self._ends_with_opener()
                self._write(_aligned(comment.text, self._indent))
                self._wants_blank = True

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._must_end_line:
            self._end_line()
        if self._at_line_start:
            self._out.append(" " * self._indent)
            self._column = self._indent
        elif self._wants_blank and text[0] not in ")],":
            self._out.append(" ")
            self._column += 1
        self._out.append(text)
        last_break = text.rfind("\n")
        self._column = self._column + len(text) if last_break < 0 else len(text) - last_break - 1
        self._at_line_start = self._wants_blank = False

    def _end_line(self, *, blank: bool = False) -> None:
        """End the line unless it is empty; `blank` leaves an empty line behind it."""
        if self._suffix:
            suffix, self._suffix = self._suffix, ""
            self._must_end_line = False
            self._wants_blank = True
            self._write(suffix)
        self._must_end_line = self._wants_blank = False
        if not self._at_line_start:
            self._out.append("\n")
        if blank and self._out and self._out[-1] == "\n" and self._out[-2:] != ["\n", "\n"]:
            self._out.append("\n")
        self._at_line_start = True

    def _ends_with_opener(self) -> bool:
        return self._at_line_start or (self._out[-1][-1] in "([#{$." and self._out[-1] != "{")

    def _fits(self, group: Group, rest: Sequence[_Task]) -> bool:
        """Say whether the group fits flat, with the text that must follow it on the line."""
        left = WIDTH - (self._indent if self._at_line_start else self._column + self._wants_blank)
        pending: list[tuple[bool, Document]] = [(False, group)]
        behind = len(rest)
        while left >= 0:
            if not pending:
                if behind == 0:
                    return True
                behind -= 1
                pending.append((rest[behind][1], rest[behind][2]))
            broken, part = pending.pop()
            match part:
                case Code(token):
                    if not token.leading and not token.trailing and token.kind not in _MULTILINE:
                        left -= len(token.text)
                        continue
                    for text in _inline_texts(token):
                        left -= len(text.partition("\n")[0])
                        if "\n" in text:
                            return left >= 0
                case Text(text):
                    left -= len(text)
                case IfBroken(text):
                    left -= len(text) if broken else 0
                case Line(flat, hard):
                    if hard or broken:
                        return True
                    left -= len(flat)
                case Indent(inner):
                    pending.extend((broken, item) for item in reversed(inner))
                case Group(inner):
                    split = part is not group and (part.broken or (part.gives_way and broken))
                    if split or part.shape.width is None:
                        pending.extend((split, item) for item in reversed(inner))
                    else:
                        left -= part.shape.width
                case CommentLines():
                    return True
        return False


def _inline_texts(token: Token) -> Iterator[str]:
    yield from (comment.text + " " for comment in token.leading)
    yield "{\n" if token.kind is PieceKind.RAW_BODY and "\n" in token.text else token.text
    yield from (" " + comment.text for comment in token.trailing if comment.kind is not PieceKind.LINE_COMMENT)


def _aligned(comment: str, indent: int) -> str:
    """Return a comment `indent` blanks from the left: stars below each other, other lines unchanged."""
    first, *others = [line.rstrip() for line in comment.split("\n")]
    if others and all(line.lstrip().startswith("*") for line in others):
        others = [" " * indent + " " + line.lstrip() for line in others]
    return "\n".join([first, *others])


def _moved_body(body: str, outer: str, inner: str) -> str:
    """Return the body with its lines behind the margin `inner` and its brace behind `outer`.

    A body stays as it is where that would change the code, as a line of its own does to blanks beside a brace.
    """
    code = script_code(body)
    if "\n" not in body or not code:
        return f"{{ {code} }}" if code else "{ }"
    lines = "\n".join(inner + line if line else "" for line in code.split("\n"))
    moved = f"{{\n{lines}\n{outer}}}"
    return moved if script_code(moved) == code else body
