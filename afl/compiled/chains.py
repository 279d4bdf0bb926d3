"""Chains of operators in compiled programs.

`a + b - c` is written as nested nodes, each the left operand of the next, or flat where that nests too deep. A flat
chain is applied strictly from left to right, whatever its operators:

  {"type": "ChainExpr", "operators": ["+", "-"], "operands": [a, b, c]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

#: The operator of an index, `a[b]`, as a link of a flat chain.
INDEX: Final = "[]"

#: The most nodes that chains may nest in an expression; a chain that would nest it deeper is written flat. JSON readers
#: and recursive code have limits of their own, some of them low. With this limit no expression is nested deeper than
#: the language's own limit for brackets allows.
MAX_CHAIN_DEPTH: Final = 128


def hung(operators: Sequence[str], operands: Sequence[object]) -> Any:
    """Return a flat chain as nested nodes.

    Raises ValueError where operators and operands do not match.
    """
    if len(operands) != len(operators) + 1:
        raise ValueError(f"a chain of {len(operators)} operators has {len(operands)} operands")
    node = operands[0]
    for operator, operand in zip(operators, operands[1:], strict=True):
        node = link(operator, node, operand)
    return node


def link(operator: str, left: object, right: object) -> Mapping[str, object]:
    """Return the node of one operator."""
    if operator == INDEX:
        return {"type": "IndexExpr", "target": left, "index": right}
    return {"type": "BinaryExpr", "operator": operator, "left": left, "right": right}
