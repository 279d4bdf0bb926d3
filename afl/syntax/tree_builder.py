"""Build the syntax tree while the parser runs: one method per production of grammar.lark.

Each method gets the values of the production's symbols (tokens for terminals) and the first and the last token of the
production. The methods for expressions and for blocks are in the base classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from afl import ast
from afl.grammar.lexer import Token
from afl.syntax.doc_comments import read_doc
from afl.syntax.tree_base import MAX_BLOCK_DEPTH, MAX_EXPRESSION_DEPTH, MAX_TYPE_DEPTH, Values
from afl.syntax.tree_blocks import BlockBuilder, Tail

__all__ = ["MAX_BLOCK_DEPTH", "MAX_EXPRESSION_DEPTH", "MAX_TYPE_DEPTH", "TreeBuilder"]

_C = TypeVar("_C", ast.FacetDecl, ast.EventFacetDecl, ast.WorkflowDecl)


class TreeBuilder(BlockBuilder):
    """The callbacks of one parse."""

    def __init__(self, source_id: str | None, doc_comments: Mapping[tuple[int, int], Token] | None = None) -> None:
        """Take doc comments by the place of the token that follows; comments that precede no declaration are lost."""
        super().__init__(source_id)
        self._doc_comments = doc_comments or {}

    # -- program and namespaces ---------------------------------------------------------------------------------------

    def empty_program(self, values: Values, first: Token, last: Token) -> ast.Program:
        return ast.Program(location=ast.SourceLocation(1, 1, 1, 1, self._source_id))

    def program(self, values: Values, first: Token, last: Token) -> ast.Program:
        return self._program(values[1], None, first, last)

    def headed_program(self, values: Values, first: Token, last: Token) -> ast.Program:
        return self._program(values[2], values[1], first, last)

    def header(self, values: Values, first: Token, last: Token) -> ast.Namespace:
        return ast.Namespace(values[1], doc=self._doc(first), location=self._span(first, last))

    def module(self, values: Values, first: Token, last: Token) -> ast.Namespace:
        return self._namespace(
            ast.Namespace(values[1], doc=self._doc(first), location=self._span(first, last)), values[3]
        )

    def use_clause(self, values: Values, first: Token, last: Token) -> ast.UsesDecl:
        return ast.UsesDecl(values[1], location=self._span(first, last))

    def _program(
        self, items: list[ast.ASTNode], header: ast.Namespace | None, first: Token, last: Token
    ) -> ast.Program:
        place = self._span(first, last)
        namespaces = [item for item in items if isinstance(item, ast.Namespace)]
        if header is not None:
            rest = [item for item in items if not isinstance(item, ast.Namespace)]
            namespaces.insert(0, self._namespace(header, rest))
            return ast.Program(namespaces=namespaces, location=place)
        return ast.Program(
            namespaces=namespaces,
            facets=[item for item in items if isinstance(item, ast.FacetDecl)],
            event_facets=[item for item in items if isinstance(item, ast.EventFacetDecl)],
            workflows=[item for item in items if isinstance(item, ast.WorkflowDecl)],
            implicits=[item for item in items if isinstance(item, ast.ImplicitDecl)],
            schemas=[item for item in items if isinstance(item, ast.SchemaDecl)],
            location=place,
        )

    def _namespace(self, header: ast.Namespace, items: list[ast.ASTNode]) -> ast.Namespace:
        return ast.Namespace(
            header.name,
            uses=[item for item in items if isinstance(item, ast.UsesDecl)],
            facets=[item for item in items if isinstance(item, ast.FacetDecl)],
            event_facets=[item for item in items if isinstance(item, ast.EventFacetDecl)],
            workflows=[item for item in items if isinstance(item, ast.WorkflowDecl)],
            implicits=[item for item in items if isinstance(item, ast.ImplicitDecl)],
            schemas=[item for item in items if isinstance(item, ast.SchemaDecl)],
            doc=header.doc,
            location=header.location,
        )

    # -- declarations -------------------------------------------------------------------------------------------------

    def facet(self, values: Values, first: Token, last: Token) -> ast.FacetDecl:
        return self._callable(ast.FacetDecl, values[1], values[2], first, last)

    def event_facet(self, values: Values, first: Token, last: Token) -> ast.EventFacetDecl:
        return self._callable(ast.EventFacetDecl, values[2], values[3], first, last)

    def workflow(self, values: Values, first: Token, last: Token) -> ast.WorkflowDecl:
        return self._callable(ast.WorkflowDecl, values[1], values[2], first, last)

    def _callable(self, kind: type[_C], sig: ast.FacetSig, tail: Tail, first: Token, last: Token) -> _C:
        doc = self._doc(first)
        return kind(sig, tail.body, tail.pre_script, tail.catch, doc, location=self._span(first, last))

    def implicit(self, values: Values, first: Token, last: Token) -> ast.ImplicitDecl:
        return ast.ImplicitDecl(values[1].text, values[3], location=self._span(first, last))

    def head(self, values: Values, first: Token, last: Token) -> ast.FacetSig:
        return ast.FacetSig(values[0].text, values[2], location=self._span(first, last))

    def head_with_returns(self, values: Values, first: Token, last: Token) -> ast.FacetSig:
        returns = ast.ReturnClause(values[6], location=self._span(values[4], last))
        return ast.FacetSig(values[0].text, values[2], returns, location=self._span(first, last))

    def head_with_mixins(self, values: Values, first: Token, last: Token) -> ast.FacetSig:
        bare: ast.FacetSig = values[0]
        return ast.FacetSig(bare.name, bare.params, bare.returns, values[1], location=self._span(first, last))

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
        return ast.SchemaDecl(values[1].text, values[3], self._doc(first), location=self._span(first, last))

    def field(self, values: Values, first: Token, last: Token) -> ast.SchemaField:
        return ast.SchemaField(values[0].text, values[2], location=self._span(first, last))

    def _doc(self, first: Token) -> ast.Doc | None:
        comment = self._doc_comments.get((first.line, first.column)) if self._doc_comments else None
        return None if comment is None else read_doc(comment.text, comment.line, comment.column, self._source_id)
