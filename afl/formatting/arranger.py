"""Arrange the tokens of a program as a document: which of them belong together, and where lines may end.

The arranger follows the grammar rule by rule, but over tokens and not over the tree: parentheses, spellings and
comments, which leave no node, stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from afl.formatting.expressions import ExpressionArranger
from afl.formatting.layout import CommentLines, Document, Group, IfBroken, Indent, Line, Text
from afl.formatting.reader import GAP, SPACE, UnknownConstruct
from afl.formatting.tokens import Token
from afl.syntax.comments import PieceKind


@dataclass(frozen=True, slots=True)
class _Item:
    """A declaration, statement, case or directive; a large one has empty lines around it."""

    document: Sequence[Document]
    first: Token
    large: bool = False
    #: Declarations of these kinds need no empty line between them; empty for other items.
    kind: str = ""


class Arranger(ExpressionArranger):
    """A pass over the tokens of one text."""

    def program(self) -> list[Document]:
        """Return the whole text as documents; raises UnknownConstruct where it is not valid."""
        items: list[_Item] = []
        while self._now.kind is not PieceKind.END:
            items.append(self._declaration())
        parts = _stacked(items)
        leading = self._now.leading
        if leading:
            if items:
                parts.append(Line(hard=True, blank=leading[0].blank_before))
            parts.append(CommentLines(leading))
        return parts

    # -- declarations --------------------------------------------------------------------------------------------------

    def _declaration(self) -> _Item:
        first = self._now
        word = first.text
        parts: list[Document] = [self._take(own_line=True), SPACE]
        if word in ("use", "uses"):
            return _Item([*parts, *self._dotted()], first, kind="use")
        if word == "namespace":
            parts += self._dotted()
            if self._sees("{"):
                parts += [SPACE, self._braces(self._declaration)]
            return _Item(parts, first, large=True, kind="declaration")
        if word == "implicit":
            parts += [self._name(), SPACE, self._take("="), SPACE, *_joined(*self._call())]
            return _Item(parts, first, kind="declaration")
        if word == "schema":
            return _Item([*parts, self._name(), SPACE, self._fields()], first, kind="declaration")
        if word == "event":
            parts += [self._take("facet"), SPACE]
        elif word not in ("facet", "workflow"):
            raise UnknownConstruct(first)
        head, mixins = self._signature()
        body = self._tail(of_a_declaration=True)
        return _Item([*parts, *_joined(head, mixins, body)], first, large=bool(body), kind="declaration")

    def _signature(self) -> tuple[list[Document], list[Document]]:
        """Return a head and its mixins."""
        name, start = self._name(), self._at
        params = self._list("(", ")", self._slot)
        head: list[Document] = [name, params]
        if self._sees("=>"):
            middle = self._at
            head += [SPACE, self._take(), SPACE]
            returns = self._list("(", ")", self._slot)
            # When two lists do not fit on one line, the longer one is broken first.
            returns.gives_way = self._length(middle, self._at) > self._length(start, middle)
            head.append(returns)
        return head, self._mixins()

    def _length(self, start: int, stop: int) -> int:
        """Return the number of characters of some tokens, without the commas, which depend on the layout."""
        return sum(len(token.text) for token in self._tokens[start:stop] if token.text != ",")

    def _fields(self) -> Document:
        opener = self._take("{")
        broken = self._now.starts_line
        fields: list[Document] = []
        while not self._sees("}"):
            fields += [GAP, self._name(), *self._typed()]
            if self._sees(","):
                fields.append(self._comma())
            else:
                fields.append(IfBroken(",") if self._sees("}") else Text(","))
        return self._closed(opener, fields, "}", broken=broken and bool(fields), gap=" ")

    # -- what follows a head or a call ---------------------------------------------------------------------------------

    def _tail(self, *, of_a_declaration: bool) -> list[Document]:
        """Return the part that may follow a head or a call, with a blank in front if there is one."""
        parts: list[Document] = []
        if of_a_declaration and self._sees("script"):
            parts += [SPACE, *self._script()]
        elif of_a_declaration and self._sees("prompt"):
            parts += [SPACE, self._take(), SPACE, self._braces(self._directive)]
        # A step cannot have one of these names, so one look is enough.
        while self._sees("andThen") or self._sees("catch"):
            # A clause that does not fit on the line begins a new line together with its keyword.
            parts += [Group([GAP], gives_way=True) if parts else SPACE, self._take(), SPACE]
            if self._sees("script"):
                parts += self._script()
                continue
            if self._sees("when"):
                parts += [self._take(), SPACE, self._braces(self._case)]
                continue
            if self._sees("foreach"):
                parts += [self._take(), SPACE, self._name(), SPACE, self._take("in"), SPACE, *self._reference(), SPACE]
            parts.append(self._block())
        return parts

    def _script(self) -> list[Document]:
        parts: list[Document] = [self._take("script"), SPACE]
        if self._now.kind is PieceKind.WORD:
            parts += [self._take(), SPACE]
        if self._now.kind not in (PieceKind.STRING, PieceKind.RAW_BODY):
            raise UnknownConstruct(self._now)
        return [*parts, self._take()]

    def _directive(self) -> _Item:
        first = self._now
        parts: list[Document] = [self._name(own_line=True), SPACE]
        if self._now.kind is not PieceKind.STRING:
            raise UnknownConstruct(self._now)
        return _Item([*parts, self._take()], first)

    def _case(self) -> _Item:
        first = self._now
        parts: list[Document] = [self._take("case", own_line=True), SPACE]
        condition = [self._take()] if self._sees("_") else self._expression()
        return _Item([*parts, *condition, SPACE, self._take("=>"), SPACE, self._block()], first)

    # -- blocks --------------------------------------------------------------------------------------------------------

    def _block(self) -> Document:
        """Return a block; a single statement that was written on one line may stay on it."""
        first = self._next
        return self._braces(self._statement, may_be_flat=not first.starts_line)

    def _braces(self, item: Callable[[], _Item], *, may_be_flat: bool = False) -> Document:
        opener = self._take("{")
        items: list[_Item] = []
        while not self._sees("}"):
            items.append(item())
        comments, closing = self._close("}")
        if not items:
            return self._empty(opener, comments, closing, gap=" ")
        if may_be_flat and len(items) == 1 and not items[0].large and not comments:
            return Group([opener, Indent([GAP, *items[0].document]), GAP, closing])
        inner = [Line(hard=True), *_stacked(items), *comments]
        return Group([opener, Indent(inner), Line(hard=True), closing], broken=True)

    def _statement(self) -> _Item:
        first = self._now
        if first.text == "yield":
            return _Item([self._take(own_line=True), SPACE, *_joined(*self._call())], first)
        if first.text == "sys" and self._next.text == ".":
            parts: list[Document] = [self._take(own_line=True), self._take(".")]
            kind = self._now.text
            parts.append(self._name())
            return _Item([*parts, self._alone() if kind == "assert" else self._list("(", ")", self._argument)], first)
        parts = [self._name(own_line=True), SPACE, self._take("="), SPACE]
        call, mixins = self._call()
        body = self._tail(of_a_declaration=False)
        return _Item([*parts, *_joined(call, mixins, body)], first, large=bool(body))

    def _call(self) -> tuple[list[Document], list[Document]]:
        """Return a call and its mixins."""
        return [*self._dotted(), self._list("(", ")", self._argument)], self._mixins()

    def _mixins(self) -> list[Document]:
        parts: list[Document] = []
        while self._sees("with"):
            parts += [GAP, self._take(), SPACE, *self._dotted(), self._list("(", ")", self._argument)]
            if self._sees("as"):
                parts += [SPACE, self._take(), SPACE, self._name()]
        return parts


def _joined(head: Sequence[Document], mixins: Sequence[Document], body: Sequence[Document] = ()) -> list[Document]:
    """Return a head or call with the parts that follow it."""
    if not mixins:
        return [*head, *body]
    gap: list[Document] = [GAP] if body else []
    return [*head, Group([Indent(mixins), *gap], gives_way=True), *body[1:]]


def _stacked(items: Sequence[_Item]) -> list[Document]:
    """Return items below each other. Single empty lines stay, and large items get empty lines around them."""
    parts: list[Document] = []
    before: _Item | None = None
    for item in items:
        if before is not None:
            set_off = item.kind != "" and (before.large or item.large or before.kind != item.kind)
            parts.append(Line(hard=True, blank=item.first.blank_before or set_off))
        parts += item.document
        before = item
    return parts
