"""Builds the syntax tree while the parser runs: one method per production of grammar.lark.

Each method gets the values of the production's symbols (tokens for terminals) and the first and the last token that
the production covers.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from afl import ast
from afl.diagnostics import Diagnostic, Severity
from afl.errors import ParseError
from afl.grammar.lexer import Token

#: How deep expressions, and andThen bodies, may nest. The tree is walked by recursive code here and in every
#: consumer of the compiled JSON, so the limit is far below what Python's stack takes.
MAX_EXPRESSION_DEPTH = 128
MAX_BLOCK_DEPTH = 32
MAX_TYPE_DEPTH = 32

#: Python converts no longer ones by default, and neither do the JSON readers built on it.
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
_HEX_LENGTH = {"x": 2, "u": 4, "U": 8}
_ESCAPE = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.S)

Values = list[Any]


class TreeBuilder:
    """The callbacks of one parse."""

    def __init__(self, source_id: str | None) -> None:
        self._source_id = source_id
        # Depth of compound nodes, by identity: every node stays alive until the parse is over.
        self._depths: dict[int, int] = {}

    # -- lists --------------------------------------------------------------------------------------------------------

    def empty_list(self, values: Values, first: Token, last: Token) -> list[Any]:
        return []

    def one(self, values: Values, first: Token, last: Token) -> list[Any]:
        return [values[0]]

    def append(self, values: Values, first: Token, last: Token) -> list[Any]:
        items: list[Any] = values[0]
        items.append(values[1])
        return items

    def append_after_comma(self, values: Values, first: Token, last: Token) -> list[Any]:
        items: list[Any] = values[0]
        items.append(values[2])
        return items

    def skip_separator(self, values: Values, first: Token, last: Token) -> object:
        return values[0]

    # -- program and namespaces ---------------------------------------------------------------------------------------

    def empty_program(self, values: Values, first: Token, last: Token) -> ast.Program:
        return ast.Program(location=ast.SourceLocation(1, 1, 1, 1, self._source_id))

    def program(self, values: Values, first: Token, last: Token) -> ast.Program:
        return self._program(values[1], None, first, last)

    def headed_program(self, values: Values, first: Token, last: Token) -> ast.Program:
        return self._program(values[2], values[1], first, last)

    def header(self, values: Values, first: Token, last: Token) -> ast.Namespace:
        return ast.Namespace(values[1], location=self._span(first, last))

    def module(self, values: Values, first: Token, last: Token) -> ast.Namespace:
        return self._namespace(values[1], values[3], self._span(first, last))

    def use_clause(self, values: Values, first: Token, last: Token) -> ast.UsesDecl:
        return ast.UsesDecl(values[1], location=self._span(first, last))

    def _program(
        self, items: list[ast.ASTNode], header: ast.Namespace | None, first: Token, last: Token
    ) -> ast.Program:
        place = self._span(first, last)
        namespaces = [item for item in items if isinstance(item, ast.Namespace)]
        if header is not None:
            rest = [item for item in items if not isinstance(item, ast.Namespace)]
            namespaces.insert(0, self._namespace(header.name, rest, header.location))
            return ast.Program(namespaces=namespaces, location=place)
        return ast.Program(
            namespaces=namespaces,
            facets=[item for item in items if isinstance(item, ast.FacetDecl)],
            event_facets=[item for item in items if isinstance(item, ast.EventFacetDecl)],
            workflows=[item for item in items if isinstance(item, ast.WorkflowDecl)],
            schemas=[item for item in items if isinstance(item, ast.SchemaDecl)],
            location=place,
        )

    def _namespace(self, name: str, items: list[ast.ASTNode], place: ast.SourceLocation | None) -> ast.Namespace:
        return ast.Namespace(
            name,
            uses=[item for item in items if isinstance(item, ast.UsesDecl)],
            facets=[item for item in items if isinstance(item, ast.FacetDecl)],
            event_facets=[item for item in items if isinstance(item, ast.EventFacetDecl)],
            workflows=[item for item in items if isinstance(item, ast.WorkflowDecl)],
            schemas=[item for item in items if isinstance(item, ast.SchemaDecl)],
            location=place,
        )

    # -- declarations -------------------------------------------------------------------------------------------------

    def facet(self, values: Values, first: Token, last: Token) -> ast.FacetDecl:
        return ast.FacetDecl(values[1], _body(values[2]), location=self._span(first, last))

    def event_facet(self, values: Values, first: Token, last: Token) -> ast.EventFacetDecl:
        return ast.EventFacetDecl(values[2], _body(values[3]), location=self._span(first, last))

    def workflow(self, values: Values, first: Token, last: Token) -> ast.WorkflowDecl:
        return ast.WorkflowDecl(values[1], _body(values[2]), location=self._span(first, last))

    def head(self, values: Values, first: Token, last: Token) -> ast.FacetSig:
        return ast.FacetSig(values[0].text, values[2], location=self._span(first, last))

    def head_with_returns(self, values: Values, first: Token, last: Token) -> ast.FacetSig:
        returns = ast.ReturnClause(values[6], location=self._span(values[4], last))
        return ast.FacetSig(values[0].text, values[2], returns, location=self._span(first, last))

    def slot(self, values: Values, first: Token, last: Token) -> ast.Parameter:
        return ast.Parameter(values[0].text, values[2], location=self._span(first, last))

    def slot_with_default(self, values: Values, first: Token, last: Token) -> ast.Parameter:
        return ast.Parameter(values[0].text, values[2], values[4], location=self._span(first, last))

    def type_name(self, values: Values, first: Token, last: Token) -> ast.TypeRef:
        return ast.TypeRef(values[0], location=self._span(first, last))

    def array_type(self, values: Values, first: Token, last: Token) -> ast.ArrayType:
        node = ast.ArrayType(values[1], location=self._span(first, last))
        self._deepen(node, [values[1]], MAX_TYPE_DEPTH, "types", first)
        return node

    def schema(self, values: Values, first: Token, last: Token) -> ast.SchemaDecl:
        return ast.SchemaDecl(values[1].text, values[3], location=self._span(first, last))

    def field(self, values: Values, first: Token, last: Token) -> ast.SchemaField:
        return ast.SchemaField(values[0].text, values[2], location=self._span(first, last))

    # -- blocks and statements ----------------------------------------------------------------------------------------

    def follow(self, values: Values, first: Token, last: Token) -> ast.AndThenBlock:
        return self._and_then(values[1], None, first, last)

    def follow_foreach(self, values: Values, first: Token, last: Token) -> ast.AndThenBlock:
        source: ast.Reference = values[4]
        clause = ast.ForeachClause(values[2].text, source, location=self._span(values[1], values[2]))
        return self._and_then(values[5], clause, first, last)

    def _and_then(
        self, block: ast.Block, clause: ast.ForeachClause | None, first: Token, last: Token
    ) -> ast.AndThenBlock:
        node = ast.AndThenBlock(block, clause, location=self._span(first, last))
        inner = [body for step in block.steps for body in ast.clauses(step.body)]
        self._deepen(node, inner, MAX_BLOCK_DEPTH, "andThen blocks", first)
        return node

    def block(self, values: Values, first: Token, last: Token) -> ast.Block:
        return ast.Block(values[1], location=self._span(first, last))

    def block_with_yields(self, values: Values, first: Token, last: Token) -> ast.Block:
        return ast.Block(values[1], values[2], location=self._span(first, last))

    def statement(self, values: Values, first: Token, last: Token) -> ast.StepStmt:
        return ast.StepStmt(values[0].text, values[2], _body(values[3]), location=self._span(first, last))

    def give(self, values: Values, first: Token, last: Token) -> ast.YieldStmt:
        return ast.YieldStmt(values[1], location=self._span(first, last))

    def call(self, values: Values, first: Token, last: Token) -> ast.CallExpr:
        return ast.CallExpr(values[0], values[2], location=self._span(first, last))

    def arg(self, values: Values, first: Token, last: Token) -> ast.NamedArg:
        return ast.NamedArg(values[0].text, values[2], location=self._span(first, last))

    # -- expressions --------------------------------------------------------------------------------------------------

    def concat(self, values: Values, first: Token, last: Token) -> ast.ConcatExpr:
        node = ast.ConcatExpr([values[0], values[2]], location=self._span(first, last))
        self._deepen_expression(node, node.operands, values[1])
        return node

    def concat_more(self, values: Values, first: Token, last: Token) -> ast.ConcatExpr:
        shorter: ast.ConcatExpr = values[0]
        shorter.operands.append(values[2])
        node = ast.ConcatExpr(shorter.operands, location=self._span(first, last))
        # The shorter node dies here, and its identity may be given to another: its entry must go.
        depth = self._depths.pop(id(shorter))
        self._deepen_expression(node, [values[2]], values[1])
        self._depths[id(node)] = max(depth, self._depths[id(node)])
        return node

    def binary(self, values: Values, first: Token, last: Token) -> ast.BinaryExpr:
        node = ast.BinaryExpr(values[1].text, values[0], values[2], location=self._span(first, last))
        self._deepen_expression(node, [values[0], values[2]], values[1])
        return node

    def binary_not_in(self, values: Values, first: Token, last: Token) -> ast.BinaryExpr:
        node = ast.BinaryExpr("not in", values[0], values[3], location=self._span(first, last))
        self._deepen_expression(node, [values[0], values[3]], values[1])
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
        self._deepen_expression(node, [values[0], values[2]], values[1])
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

    # -- places, depths, texts ----------------------------------------------------------------------------------------

    def _span(self, first: Token, last: Token) -> ast.SourceLocation:
        kind, text, line, column = last
        if kind == "STRING" and "\n" in text:
            line, column = last.end()
        else:
            column += len(text)
        # What SourceLocation(...) comes down to, at half its cost; one is made for every node.
        return tuple.__new__(ast.SourceLocation, (first[2], first[3], line, column, self._source_id))

    def _deepen_expression(self, node: object, children: list[Any], at: Token) -> None:
        self._deepen(node, children, MAX_EXPRESSION_DEPTH, "expressions", at)

    def _deepen(self, node: object, children: list[Any], limit: int, what: str, at: Token) -> None:
        """Note the depth of a node, and refuse the program where it gets too deep."""
        depths = self._depths
        depth = 1 + max([depths.get(id(child), 0) for child in children], default=0)
        if depth > limit:
            self._refuse(
                f"syntax: {what} are nested too deeply here",
                at,
                f"at most {limit} levels; give parts of it to steps of their own",
            )
        depths[id(node)] = depth

    def _text(self, token: Token) -> str:
        """Return what a string literal means."""
        body = token.text[1:-1]
        if "\\" not in body and body.isascii():
            return body
        decoded = _ESCAPE.sub(lambda match: self._unescape(match, token), body)
        # Two \u escapes may spell one character outside the basic plane, as JSON writes it.
        try:
            return decoded.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            self._refuse("syntax: the string has half of a surrogate pair", token, "write the character as \\U000XXXXX")

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


def _body(follows: list[ast.AndThenBlock]) -> ast.Body | None:
    if not follows:
        return None
    return follows[0] if len(follows) == 1 else follows
