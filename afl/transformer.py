"""Builds the syntax tree while the parser runs: one method per production of grammar.lark."""

from afl.syntax.tree_builder import (
    MAX_BLOCK_DEPTH,
    MAX_EXPRESSION_DEPTH,
    MAX_TYPE_DEPTH,
    TreeBuilder,
)

__all__ = [
    "MAX_BLOCK_DEPTH",
    "MAX_EXPRESSION_DEPTH",
    "MAX_TYPE_DEPTH",
    "TreeBuilder",
]
