"""Chains of operators in the tree: `a && b[0] + c` hangs to its left, one node inside the other, as deep as it is long.

A chain is no nesting: who walks through expressions goes along it in a loop, and into its operands only.
"""

from __future__ import annotations

from typing import TypeAlias

from afl import ast
from afl.compiled.chains import INDEX

#: One operator of a chain with what stands on its right: all before it is its left.
Link: TypeAlias = ast.BinaryExpr | ast.IndexExpr


def links_of(expression: ast.Expression) -> tuple[ast.Expression, list[Link]]:
    """Return what an expression begins with, and the links behind that from left to right; none for what is no
    operator between two.
    """
    links: list[Link] = []
    while True:
        if isinstance(expression, ast.BinaryExpr):
            links.append(expression)
            expression = expression.left
        elif isinstance(expression, ast.IndexExpr):
            links.append(expression)
            expression = expression.target
        else:
            links.reverse()
            return expression, links


def right_of(link: Link) -> ast.Expression:
    """Return what stands on the right of an operator."""
    return link.right if isinstance(link, ast.BinaryExpr) else link.index


def operator_of(link: Link) -> str:
    """Return the operator of a link as flat chains have it."""
    return link.operator if isinstance(link, ast.BinaryExpr) else INDEX
