"""Chains of operators in the tree.

`a && b[0] + c` is made of nested nodes, each the left operand of the next, as many levels deep as the chain is long. A
chain does not count as nesting: code that walks expressions follows it in a loop, and recurses into operands only.
"""

from __future__ import annotations

from typing import TypeAlias

from afl import ast
from afl.compiled.chains import INDEX

#: One operator of a chain with its right operand; everything before it is its left operand.
Link: TypeAlias = ast.BinaryExpr | ast.IndexExpr


def links_of(expression: ast.Expression) -> tuple[ast.Expression, list[Link]]:
    """Return the first operand of an expression, and its links from left to right.

    There are no links if the expression is not a binary operator.
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
    """Return the right operand of an operator."""
    return link.right if isinstance(link, ast.BinaryExpr) else link.index


def operator_of(link: Link) -> str:
    """Return the operator of a link as flat chains spell it."""
    return link.operator if isinstance(link, ast.BinaryExpr) else INDEX
