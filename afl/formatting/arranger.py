"""Arranges the tokens of a program as a document: which belong together, and where lines may end.

It follows the grammar rule by rule but over tokens, not over the tree: parentheses, spellings and comments, which
leave no node, stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from afl.comments import PieceKind
from afl.formatting.layout import Code, CommentLines, Document, Group, IfBroken, Indent, Line, Text
from afl.formatting.tokens import Token

#: Binary operators by precedence, the loosest first. A new operator is one more word here.
OPERATORS: tuple[frozenset[str], ...] = (
    frozenset({"||"}),
    frozenset({"&&"}),
    frozenset({"==", "!=", "<", "<=", ">", ">=", "in", "not", "contains", "startsWith", "endsWith"}),
    frozenset({"++"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/", "%"}),
)
UNARY_OPERATORS = frozenset({"+", "-", "!"})

_SPACE = Text(" ")


class UnknownConstruct(Exception):
    """A token where the arranger knows no rule."""

    def __init__(self, token: Token) -> None:
        super().__init__(f"did not expect `{token.text}` here" if token.text else "the text ends too early")
        self.line = token.line


@dataclass(frozen=True, slots=True)
class _Item:
    """A declaration, statement or directive; a large one has empty lines around it."""

    document: Sequence[Document]
    first: Token
    large: bool = False
    kind: str = ""


class Arranger:
    """A pass over the tokens of one text."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    # -- program and declarations -------------------------------------------------------------------------------------

    def program(self) -> list[Document]:
        """Return the whole text as documents."""
        items: list[_Item] = []
        while self._now.kind is not PieceKind.END:
            items.append(self._declaration())
        parts = self._stacked(items)
        leading = self._now.leading
        if leading:
            if items:
                parts.append(Line(hard=True, blank=leading[0].blank_before))
            parts.append(CommentLines(tuple(leading)))
        return parts

    def _declaration(self) -> _Item:
        first = self._now
        word = first.text
        parts: list[Document] = [self._take(own_line=True)]
        if word in ("use", "uses"):
            return _Item([*parts, _SPACE, *self._dotted()], first, kind="use")
        if word == "namespace":
            parts += [_SPACE, *self._dotted()]
            if not self._sees("{"):
                return _Item(parts, first, large=True)
            return _Item([*parts, _SPACE, *self._braces(self._declaration)], first, large=True)
        if word == "implicit":
            parts += [_SPACE, self._name(), _SPACE, self._take("="), _SPACE, *self._call()]
            return _Item(parts, first)
        if word == "schema":
            parts += [_SPACE, self._name(), _SPACE, self._fields()]
            return _Item(parts, first)
        if word == "event":
            parts += [_SPACE, self._take("facet")]
        elif word not in ("facet", "workflow"):
            raise UnknownConstruct(first)
        head, body = self._signature()
        return _Item([*parts, _SPACE, *head, *body], first, large=bool(body))

    def _signature(self) -> tuple[list[Document], list[Document]]:
        head: list[Document] = [self._name(), self._list("(", ")", self._slot)]
        if self._sees("=>"):
            head += [_SPACE, self._take(), _SPACE, self._list("(", ")", self._slot)]
        mixins = self._mixins()
        body = self._tail()
        if mixins:
            # Mixins that do not fit stand on lines of their own, and then the body begins one too.
            gap: list[Document] = [Line()] if body else []
            head.append(Group([Indent(mixins), *gap]))
            body = body[1:]
        return head, body

    def _tail(self) -> list[Document]:
        """Return what may follow a head or a call, beginning with a blank if there is any."""
        parts: list[Document] = []
        while self._now.kind is PieceKind.WORD and self._now.text in ("script", "prompt", "andThen", "catch"):
            if self._now.text in ("script", "prompt") and self._next.text == "=":
                break  # a step of that name
            parts.append(_SPACE)
            word = self._now.text
            if word == "script":
                parts += self._script()
                continue
            parts += [self._take(), _SPACE]
            if word == "prompt":
                parts += self._braces(self._directive)
            elif self._now.text == "script" and self._now.kind is PieceKind.WORD:
                parts += self._script()
            elif self._now.text == "when":
                parts += [self._take(), _SPACE, *self._braces(self._case)]
            else:
                if self._sees("foreach"):
                    parts += [self._take(), _SPACE, self._name(), _SPACE, self._take("in"), _SPACE]
                    parts += [*self._reference(), _SPACE]
                parts += self._block()
        return parts

    def _script(self) -> list[Document]:
        parts: list[Document] = [self._take("script"), _SPACE]
        if self._now.kind is PieceKind.WORD:
            parts += [self._take(), _SPACE]
        if self._now.kind not in (PieceKind.STRING, PieceKind.RAW_BODY):
            raise UnknownConstruct(self._now)
        return [*parts, self._take()]

    def _fields(self) -> Document:
        opener = self._now
        first = self._tokens[self._at + 1]
        parts = [self._take("{")]
        fields: list[Document] = []
        while not self._sees("}"):
            field = [self._name(), *self._typed()]
            if self._sees(","):
                field += [self._comma(last=self._next.text == "}")]
            elif not self._sees("}"):
                field += [Text(",")]
            else:
                field += [IfBroken(",")]
            fields += [Line(), *field]
        return self._closed(parts, fields, broken=bool(fields) and first.starts_line, opener=opener, gap=" ")

    def _directive(self) -> _Item:
        first = self._now
        return _Item([self._take(own_line=True), _SPACE, self._take()], first)

    # -- blocks -------------------------------------------------------------------------------------------------------

    def _block(self) -> list[Document]:
        """Return a block; one statement that was written on one line may stay on it."""
        first = self._tokens[self._at + 1]
        opener = self._take("{")
        items = self._items(self._statement)
        closing = self._close("}")
        if not items:
            return [Group([opener, *_indented(closing[0]), Line(), *closing[1]])]
        if len(items) == 1 and not items[0].large and not first.starts_line and not closing[0]:
            return [Group([opener, Indent([Line(), *items[0].document]), Line(), *closing[1]])]
        inner = [Line(hard=True), *self._stacked(items), *closing[0]]
        return [Group([opener, Indent(inner), Line(hard=True), *closing[1]], broken=True)]

    def _braces(self, item: Callable[[], _Item]) -> list[Document]:
        opener = self._take("{")
        items = self._items(item)
        closing = self._close("}")
        if not items:
            return [Group([opener, *_indented(closing[0]), Line(), *closing[1]])]
        inner = [Line(hard=True), *self._stacked(items), *closing[0]]
        return [Group([opener, Indent(inner), Line(hard=True), *closing[1]], broken=True)]

    def _items(self, item: Callable[[], _Item]) -> list[_Item]:
        found: list[_Item] = []
        while not self._sees("}"):
            found.append(item())
        return found

    def _statement(self) -> _Item:
        first = self._now
        if first.text == "yield" and self._next.text != "=":
            return _Item([self._take(own_line=True), _SPACE, *self._call()], first)
        if first.text == "sys" and self._next.text == ".":
            parts: list[Document] = [self._take(own_line=True), self._take("."), self._name()]
            listed = self._argument if self._tokens[self._at + 2].text == "=" else self._expression
            return _Item([*parts, self._list("(", ")", listed)], first)
        parts = [self._name(own_line=True), _SPACE, self._take("="), _SPACE, *self._call()]
        body = self._tail()
        return _Item([*parts, *body], first, large=bool(body))

    def _case(self) -> _Item:
        first = self._now
        parts: list[Document] = [self._take("case", own_line=True), _SPACE]
        condition = [self._take()] if self._sees("_") else self._expression()
        return _Item([*parts, *condition, _SPACE, self._take("=>"), _SPACE, *self._block()], first)

    def _call(self) -> list[Document]:
        parts: list[Document] = [*self._dotted(), self._list("(", ")", self._argument)]
        mixins = self._mixins()
        return [*parts, Group([Indent(mixins)])] if mixins else parts

    def _mixins(self) -> list[Document]:
        parts: list[Document] = []
        while self._sees("with") and self._next.text != "=":
            parts += [Line(), self._take(), _SPACE, *self._dotted(), self._list("(", ")", self._argument)]
            if self._sees("as"):
                parts += [_SPACE, self._take(), _SPACE, self._name()]
        return parts

    # -- lists, types, names ------------------------------------------------------------------------------------------

    def _list(self, opening: str, closing: str, item: Callable[[], Sequence[Document]]) -> Document:
        """Return a bracketed list: on one line, or one item on each, then with a comma behind the last.

        A comma behind the last item in the source keeps the list broken.
        """
        opener = self._now
        parts = [self._take(opening)]
        items: list[Document] = []
        broken = False
        while not self._sees(closing):
            items += [Line(" " if items else ""), *item()]
            if self._sees(","):
                broken = self._next.text == closing
                items.append(self._comma(last=broken))
            else:
                items.append(IfBroken(","))
                if not self._sees(closing):
                    raise UnknownConstruct(self._now)
        return self._closed(parts, items, broken=broken, opener=opener, gap="")

    def _closed(
        self, parts: list[Document], items: list[Document], *, broken: bool, opener: Token, gap: str
    ) -> Document:
        comments, closer = self._close({"(": ")", "[": "]", "{": "}", "#{": "}"}[opener.text])
        if not items:
            gap = gap if not comments else ""
            return Group([*parts, *_indented(comments), Line(gap), *closer])
        return Group([*parts, Indent([*items, *comments]), Line(gap), *closer], broken=broken)

    def _close(self, mark: str) -> tuple[list[Document], list[Document]]:
        """Take a closing bracket: the comments in front of it, which belong inside, and the bracket itself."""
        token = self._now
        if token.text != mark:
            raise UnknownConstruct(token)
        comments: list[Document] = []
        if token.leading:
            blank = token.leading[0].blank_before and mark == "}"
            comments = [Line(hard=True, blank=blank), CommentLines(tuple(token.leading))]
            token.leading = []
        return comments, [self._take()]

    def _comma(self, *, last: bool) -> Document:
        """Take a comma. Comments in front of it go behind it, where a line can end."""
        token, following = self._now, self._next
        if token.leading:
            moved = [*token.leading, *token.trailing]
            for comment in moved:
                comment.starts_line = comment.ends_line = True
            following.leading = [*moved, *following.leading]
            token.leading, token.trailing = [], []
        return self._take()

    def _slot(self) -> list[Document]:
        parts: list[Document] = [self._name(), *self._typed()]
        if self._sees("="):
            parts += [_SPACE, self._take(), _SPACE, *self._expression()]
        return parts

    def _typed(self) -> list[Document]:
        return [self._take(":"), _SPACE, *self._type()]

    def _type(self) -> list[Document]:
        if self._sees("["):
            return [self._take(), *self._type(), self._take("]")]
        return self._dotted()

    def _argument(self) -> list[Document]:
        return [self._name(), _SPACE, self._take("="), _SPACE, *self._expression()]

    def _dotted(self) -> list[Document]:
        parts: list[Document] = [self._name()]
        while self._sees("."):
            parts += [self._take(), self._name()]
        return parts

    def _reference(self) -> list[Document]:
        if self._sees("$"):
            return [self._take(), self._take("."), *self._dotted()]
        return self._dotted()

    # -- expressions --------------------------------------------------------------------------------------------------

    def _expression(self, level: int = 0) -> list[Document]:
        """Return an expression; a line may end before the operators that bind it most loosely."""
        if level == len(OPERATORS):
            return self._operand()
        parts = self._expression(level + 1)
        rest: list[Document] = []
        while self._now.text in OPERATORS[level] and self._now.kind in (PieceKind.MARK, PieceKind.WORD):
            rest += [Line(), self._take(), _SPACE]
            if self._tokens[self._at - 1].text == "not":
                rest += [self._take("in"), _SPACE]
            rest += self._expression(level + 1)
        return [Group([*parts, Indent(rest)])] if rest else parts

    def _operand(self) -> list[Document]:
        if self._now.text in UNARY_OPERATORS and self._now.kind is PieceKind.MARK:
            return [self._take(), *self._operand()]
        parts = self._atom()
        while self._sees("["):
            parts += [self._take(), *self._expression(), self._take("]")]
        return parts

    def _atom(self) -> list[Document]:
        token = self._now
        if token.kind in (PieceKind.STRING, PieceKind.NUMBER):
            return [self._take()]
        if token.text == "(":
            opener = self._take()
            inner = self._expression()
            comments, closer = self._close(")")
            return [Group([opener, Indent([Line(""), *inner, *comments]), Line(""), *closer])]
        if token.text == "[":
            return [self._list("[", "]", self._expression)]
        if token.text == "#{":
            return [self._list("#{", "}", self._entry)]
        return self._reference()

    def _entry(self) -> list[Document]:
        key = self._take() if self._now.kind is PieceKind.STRING else self._name()
        return [key, self._take(":"), _SPACE, *self._expression()]

    # -- tokens -------------------------------------------------------------------------------------------------------

    @property
    def _now(self) -> Token:
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    @property
    def _next(self) -> Token:
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    def _sees(self, text: str) -> bool:
        return self._now.text == text and self._now.kind is not PieceKind.STRING

    def _name(self, *, own_line: bool = False) -> Document:
        if self._now.kind is not PieceKind.WORD:
            raise UnknownConstruct(self._now)
        return self._take(own_line=own_line)

    def _take(self, text: str | None = None, *, own_line: bool = False) -> Document:
        token = self._now
        if token.kind is PieceKind.END or (text is not None and token.text != text):
            raise UnknownConstruct(token)
        self._at += 1
        return Code(token, own_line)

    @staticmethod
    def _stacked(items: Sequence[_Item]) -> list[Document]:
        """Return items below each other; empty lines stay, one at a time, and set off what is large."""
        parts: list[Document] = []
        before: _Item | None = None
        for item in items:
            if before is not None:
                set_off = _is_declaration(item) and (before.large or item.large or before.kind != item.kind)
                parts.append(Line(hard=True, blank=item.first.blank_before or set_off))
            parts += item.document
            before = item
        return parts


def _is_declaration(item: _Item) -> bool:
    return item.kind != "" or item.first.text in ("namespace", "facet", "event", "workflow", "schema", "implicit")


def _indented(comments: Sequence[Document]) -> list[Document]:
    return [Indent(comments)] if comments else []
