"""The base of all parts of the tree builder: lists, places, depths and refusals."""

from __future__ import annotations

from typing import Any, NoReturn

from afl.ast_node import SourceLocation
from afl.core.row_maker import row_maker
from afl.diagnostics import Diagnostic, Severity
from afl.errors import ParseError
from afl.grammar.lexer import MULTILINE, Token

#: The deepest nesting of expressions, blocks and types. Recursive code walks the tree, here and in every consumer of
#: the compiled JSON, so the limit is far below the depth of Python's stack.
MAX_EXPRESSION_DEPTH = 128
MAX_BLOCK_DEPTH = 32
MAX_TYPE_DEPTH = 32

Values = list[Any]

#: One is made for every node.
_location = row_maker(SourceLocation, "line", "column", "end_line", "end_column", "source_id")


class NodeBuilder:
    """The callbacks for lists, and the shared parts of other callbacks."""

    def __init__(self, source_id: str | None) -> None:
        self._source_id = source_id
        # Depth of compound nodes, by identity: every node stays alive until the parse is over.
        self._depths: dict[int, int] = {}

    # -- lists --------------------------------------------------------------------------------------------------------

    def empty_list(self, values: Values, first: Token, last: Token) -> list[Any]:
        return []

    def one(self, values: Values, first: Token, last: Token) -> list[Any]:
        return [values[0]]

    def one_after_word(self, values: Values, first: Token, last: Token) -> list[Any]:
        return [values[1]]

    def append(self, values: Values, first: Token, last: Token) -> list[Any]:
        items: list[Any] = values[0]
        items.append(values[1])
        return items

    def append_after_comma(self, values: Values, first: Token, last: Token) -> list[Any]:
        items: list[Any] = values[0]
        items.append(values[2])
        return items

    def extend(self, values: Values, first: Token, last: Token) -> list[Any]:
        items: list[Any] = values[0]
        items.extend(values[1])
        return items

    def skip_separator(self, values: Values, first: Token, last: Token) -> object:
        return values[0]

    # -- places, depths, refusals -------------------------------------------------------------------------------------

    def _span(self, first: Token, last: Token) -> SourceLocation:
        kind, text, line, column = last
        if kind in MULTILINE and "\n" in text:
            line, column = last.end()
        else:
            column += len(text)
        return _location((first[2], first[3], line, column, self._source_id))

    def _deepen(
        self, node: object, children: list[Any], limit: int, what: str, at: Token, beside: object = None
    ) -> None:
        """Note the depth of a node, and refuse the program where it gets too deep.

        Children in `beside` continue the node at its own level, and do not nest deeper.
        """
        depths = self._depths
        depth = 1 + max([depths.get(id(child), 0) for child in children], default=0)
        if beside is not None:
            depth = max(depth, depths.get(id(beside), 0))
        if depth > limit:
            self._refuse(
                f"syntax: {what} are nested too deeply here",
                at,
                f"at most {limit} levels; give parts of it to steps of their own",
            )
        depths[id(node)] = depth

    def _refuse(self, message: str, at: Token, hint: str) -> NoReturn:
        end_line, end_column = at.end()
        diagnostic = Diagnostic(
            code="PARSE_ERROR",
            severity=Severity.ERROR,
            message=message,
            line=at.line,
            column=at.column,
            end_line=end_line,
            end_column=end_column,
            source_id=self._source_id,
            hint=hint,
        )
        raise ParseError(message, at.line, at.column, self._source_id, diagnostic=diagnostic)
