"""Arrange lists, types and expressions: where their lines may end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from afl.formatting.layout import Code, CommentLines, Document, Group, IfBroken, Indent, Line, Text
from afl.formatting.reader import GAP, SPACE, TokenReader, UnknownConstruct
from afl.syntax.comments import PieceKind

#: Binary operators by precedence, the loosest first. A new operator is one more word here.
OPERATORS: tuple[frozenset[str], ...] = (
    frozenset({"||"}),
    frozenset({"&&"}),
    frozenset({"==", "!=", "<", "<=", ">", ">=", "in", "not", "contains", "startsWith", "endsWith"}),
    frozenset({"++"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/", "%"}),
)
_LEVELS = {operator: level for level, operators in enumerate(OPERATORS) for operator in operators}
_EDGE = Line("")
_LAST_COMMA = IfBroken(",")
UNARY_OPERATORS = frozenset({"+", "-", "!"})


class ExpressionArranger(TokenReader):
    """The part of the grammar that has no blocks in it."""

    # -- lists ---------------------------------------------------------------------------------------------------------

    def _list(self, opening: str, closing: str, item: Callable[[], Sequence[Document]]) -> Group:
        """Return a bracketed list on one line, or with one item on each line and a comma behind the last.

        A comma behind the last item in the source keeps the list broken.
        """
        opener = self._take(opening)
        items: list[Document] = []
        broken = False
        while not self._sees(closing):
            items += [GAP if items else _EDGE, *item()]
            if self._sees(","):
                broken = self._next.text == closing
                items.append(self._comma())
            else:
                items.append(_LAST_COMMA)
                if not self._sees(closing):
                    raise UnknownConstruct(self._now)
        return self._closed(opener, items, closing, broken=broken, gap="")

    def _alone(self) -> Group:
        """Return an expression in parentheses; a comma may not follow it, broken or not."""
        opener = self._take("(")
        return self._closed(opener, [_EDGE, *self._expression()], ")", broken=False, gap="")

    def _closed(self, opener: Code, items: list[Document], closing: str, *, broken: bool, gap: str) -> Group:
        comments, closer = self._close(closing)
        if not items:
            return self._empty(opener, comments, closer, gap=gap)
        return Group([opener, Indent([*items, *comments]), Line(gap), closer], broken=broken)

    @staticmethod
    def _empty(opener: Code, comments: Sequence[Document], closer: Code, *, gap: str) -> Group:
        """Return brackets with only commas and comments between them; a line can end there only after a comment."""
        if comments:
            return Group([opener, Indent(comments), GAP, closer])
        if opener.token.trailing:
            return Group([opener, Line(gap), closer])
        return Group([opener, *([Text(gap)] if gap else []), closer])

    def _close(self, mark: str) -> tuple[list[Document], Code]:
        """Take a closing bracket: the comments in front of it, which belong inside, and the bracket itself."""
        token = self._now
        if not self._sees(mark):
            raise UnknownConstruct(token)
        comments: list[Document] = []
        if token.leading:
            blank = token.leading[0].blank_before and mark == "}"
            comments = [Line(hard=True, blank=blank), CommentLines(token.leading)]
            token.leading = ()
        return comments, self._take()

    def _comma(self) -> Document:
        """Take a comma. Comments in front of it move behind it, where a line can end."""
        token, following = self._now, self._next
        if token.leading:
            moved = (*token.leading, *token.trailing)
            for comment in moved:
                comment.starts_line = comment.ends_line = True
            following.leading = (*moved, *following.leading)
            token.leading = token.trailing = ()
        return self._take()

    def _slot(self) -> list[Document]:
        parts: list[Document] = [self._name(), *self._typed()]
        if self._sees("="):
            parts += [SPACE, self._take(), SPACE, *self._expression()]
        return parts

    def _typed(self) -> list[Document]:
        return [self._take(":"), SPACE, *self._type()]

    def _argument(self) -> list[Document]:
        return [self._name(), SPACE, self._take("="), SPACE, *self._expression()]

    def _entry(self) -> list[Document]:
        key = self._take() if self._now.kind is PieceKind.STRING else self._name()
        return [key, self._take(":"), SPACE, *self._expression()]

    # -- types and names -----------------------------------------------------------------------------------------------

    def _type(self) -> list[Document]:
        if self._sees("["):
            return [self._take(), *self._type(), self._take("]")]
        return self._dotted()

    def _dotted(self) -> list[Document]:
        parts: list[Document] = [self._name()]
        while self._sees("."):
            parts += [self._take(), self._name()]
        return parts

    def _reference(self) -> list[Document]:
        if self._sees("$"):
            return [self._take(), self._take("."), *self._dotted()]
        return self._dotted()

    # -- expressions ---------------------------------------------------------------------------------------------------

    def _expression(self, loosest: int = 0) -> list[Document]:
        """Return an expression of operators that bind as `loosest` or tighter.

        A line may end before the loosest-binding operators.
        """
        parts = self._operand()
        while (level := _LEVELS.get(self._now.text, -1)) >= loosest:
            rest: list[Document] = []
            while (operator := self._now.text) in OPERATORS[level]:
                rest += [GAP, self._take(), SPACE]
                if operator == "not":
                    rest += [self._take("in"), SPACE]
                rest += self._expression(level + 1)
            parts = [Group([*parts, Indent(rest)])]
        return parts

    def _operand(self) -> list[Document]:
        signs: list[Document] = []
        while self._now.text in UNARY_OPERATORS:
            # The lexer would read two pluses in a row as the concatenation operator.
            close = self._now.text == "+" and self._next.text == "+"
            signs += [self._take(), *([SPACE] if close else [])]
        parts = self._atom()
        while self._sees("["):
            parts += [self._take(), *self._expression(), self._take("]")]
        return [*signs, *parts] if signs else parts

    def _atom(self) -> list[Document]:
        token = self._now
        if token.kind in (PieceKind.STRING, PieceKind.NUMBER):
            return [self._take()]
        if token.text == "(":
            return [self._alone()]
        if token.text == "[":
            return [self._list("[", "]", self._expression)]
        if token.text == "#{":
            return [self._list("#{", "}", self._entry)]
        return self._reference()
