"""Build expressions and references while the parser runs."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from afl import ast
from afl.core.text.patterns import lazy_pattern
from afl.grammar.lexer import Token
from afl.syntax.tree_base import MAX_EXPRESSION_DEPTH, NodeBuilder, Values

#: Python converts no longer integers by default, and the JSON readers built on it do not either.
MAX_INTEGER_DIGITS = 4300

_ESCAPES = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "'": "'",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "b": "\b",
    "f": "\f",
    "a": "\a",
    "v": "\v",
    "0": "\0",
}
_LINKS = (ast.BinaryExpr, ast.IndexExpr)
_HEX_LENGTH = {"x": 2, "u": 4, "U": 8}
_ESCAPE = lazy_pattern(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.S)


class ExpressionBuilder(NodeBuilder):
    """The callbacks of expressions."""

    # -- expressions --------------------------------------------------------------------------------------------------

    def concat(self, values: Values, first: Token, last: Token) -> ast.ConcatExpr:
        node = ast.ConcatExpr([values[0], values[2]], location=self._span(first, last))
        self._deepen_expression(node, node.operands, values[1])
        return node

    def concat_more(self, values: Values, first: Token, last: Token) -> ast.ConcatExpr:
        shorter: ast.ConcatExpr = values[0]
        shorter.operands.append(values[2])
        node = ast.ConcatExpr(shorter.operands, location=self._span(first, last))
        # The shorter node is freed here, and another may get its identity: remove its entry.
        depth = self._depths.pop(id(shorter))
        self._deepen_expression(node, [values[2]], values[1])
        self._depths[id(node)] = max(depth, self._depths[id(node)])
        return node

    def binary(self, values: Values, first: Token, last: Token) -> ast.BinaryExpr:
        node = ast.BinaryExpr(values[1].text, values[0], values[2], location=self._span(first, last))
        self._deepen_link(node, values[0], values[2], values[1])
        return node

    def binary_not_in(self, values: Values, first: Token, last: Token) -> ast.BinaryExpr:
        node = ast.BinaryExpr("not in", values[0], values[3], location=self._span(first, last))
        self._deepen_link(node, values[0], values[3], values[1])
        return node

    def plus(self, values: Values, first: Token, last: Token) -> object:
        self._deepen_expression(values[1], [values[1]], first)
        return values[1]

    def unary(self, values: Values, first: Token, last: Token) -> ast.UnaryExpr:
        node = ast.UnaryExpr(first.text, values[1], location=self._span(first, last))
        self._deepen_expression(node, [values[1]], first)
        return node

    def index(self, values: Values, first: Token, last: Token) -> ast.IndexExpr:
        node = ast.IndexExpr(values[0], values[2], location=self._span(first, last))
        self._deepen_link(node, values[0], values[2], values[1])
        return node

    def group(self, values: Values, first: Token, last: Token) -> object:
        self._deepen_expression(values[1], [values[1]], first)
        return values[1]

    def string(self, values: Values, first: Token, last: Token) -> ast.Literal:
        return ast.Literal(self._text(values[0]), "string", location=self._span(first, last))

    def integer(self, values: Values, first: Token, last: Token) -> ast.Literal:
        digits = values[0].text.lstrip("0") or "0"
        if len(digits) > MAX_INTEGER_DIGITS:
            self._refuse(
                f"syntax: an integer of {len(digits)} digits is too long", first, f"the limit is {MAX_INTEGER_DIGITS}"
            )
        return ast.Literal(int(digits), "integer", location=self._span(first, last))

    def double(self, values: Values, first: Token, last: Token) -> ast.Literal:
        value = float(values[0].text)
        if value == float("inf"):
            self._refuse("syntax: the number is too large for a Double", first, "the largest is about 1.8e308")
        return ast.Literal(value, "double", location=self._span(first, last))

    def true(self, values: Values, first: Token, last: Token) -> ast.Literal:
        return ast.Literal(True, "boolean", location=self._span(first, last))

    def false(self, values: Values, first: Token, last: Token) -> ast.Literal:
        return ast.Literal(False, "boolean", location=self._span(first, last))

    def null(self, values: Values, first: Token, last: Token) -> ast.Literal:
        return ast.Literal(None, "null", location=self._span(first, last))

    def array(self, values: Values, first: Token, last: Token) -> ast.ArrayLiteral:
        node = ast.ArrayLiteral(values[1], location=self._span(first, last))
        self._deepen_expression(node, values[1], first)
        return node

    def map(self, values: Values, first: Token, last: Token) -> ast.MapLiteral:
        node = ast.MapLiteral(values[1], location=self._span(first, last))
        self._deepen_expression(node, [entry.value for entry in node.entries], first)
        return node

    def string_pair(self, values: Values, first: Token, last: Token) -> ast.MapEntry:
        return ast.MapEntry(self._text(values[0]), values[2], location=self._span(first, last))

    def name_pair(self, values: Values, first: Token, last: Token) -> ast.MapEntry:
        return ast.MapEntry(values[0].text, values[2], location=self._span(first, last))

    # -- references ---------------------------------------------------------------------------------------------------

    def input(self, values: Values, first: Token, last: Token) -> ast.Reference:
        return ast.Reference(values[0], True, location=self._span(first, last))

    def step(self, values: Values, first: Token, last: Token) -> ast.Reference:
        return ast.Reference(values[0], False, location=self._span(first, last))

    def input_ref(self, values: Values, first: Token, last: Token) -> list[str]:
        return [values[2].text]

    def step_ref(self, values: Values, first: Token, last: Token) -> list[str]:
        return [values[0].text]

    def longer_ref(self, values: Values, first: Token, last: Token) -> list[str]:
        path: list[str] = values[0]
        path.append(values[2].text)
        return path

    def dotted(self, values: Values, first: Token, last: Token) -> str:
        name: str = values[0].text
        return name

    def longer_dotted(self, values: Values, first: Token, last: Token) -> str:
        return f"{values[0]}.{values[2].text}"

    # -- texts and depths ---------------------------------------------------------------------------------------------

    def _deepen_expression(self, node: object, children: list[Any], at: Token) -> None:
        self._deepen(node, children, MAX_EXPRESSION_DEPTH, "expressions", at)

    def _deepen_link(self, node: object, left: object, right: object, at: Token) -> None:
        """Note the depth of a binary operator.

        An operator whose left operand is a chain is one more link of that chain. Only brackets nest deeper, and those
        were counted where they closed.
        """
        if type(left) in _LINKS:
            self._deepen(node, [right], MAX_EXPRESSION_DEPTH, "expressions", at, beside=left)
        else:
            self._deepen(node, [left, right], MAX_EXPRESSION_DEPTH, "expressions", at)

    def _text(self, token: Token) -> str:
        """Return the text that a string literal means."""
        body = token.text[1:-1]
        if "\\" not in body and body.isascii():
            return body
        decoded = _ESCAPE.sub(lambda match: self._unescape(match, token), body)
        # Two \u escapes may spell one character outside the basic plane, as JSON writes it.
        try:
            return decoded.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            self._refuse("syntax: the string has half of a surrogate pair", token, "write the character as \\U000XXXXX")

    def _check_characters(self, token: Token) -> None:
        """Refuse a text without escapes that UTF-8 cannot encode."""
        try:
            token.text.encode()
        except UnicodeEncodeError:
            self._refuse("syntax: the script has half of a surrogate pair", token, "write the character itself")

    def _unescape(self, match: re.Match[str], token: Token) -> str:
        escape = match.group()
        kind = escape[1]
        if kind in _HEX_LENGTH:
            wanted = _HEX_LENGTH[kind]
            if len(escape) != wanted + 2:
                self._refuse_escape(f"\\{kind} wants {wanted} hexadecimal digits", match, token)
            code = int(escape[2:], 16)
            if code > 0x10FFFF:
                self._refuse_escape(f"{escape} is beyond the last character, \\U0010FFFF", match, token)
            return chr(code)
        return _ESCAPES.get(kind, escape)

    def _refuse_escape(self, message: str, match: re.Match[str], token: Token) -> NoReturn:
        before = token.text[: match.start() + 1]
        line = token.line + before.count("\n")
        column = len(before) - before.rfind("\n") if "\n" in before else token.column + len(before)
        place = Token("STRING", match.group(), line, column)
        self._refuse(f"syntax: {message}", place, "a backslash itself is written \\\\")
