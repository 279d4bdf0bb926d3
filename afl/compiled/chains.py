"""Chains of operators in compiled programs: `a + b - c` hangs to its left, as deep as it is long, or is written flat.

A flat chain is applied strictly from left to right, whatever its operators:

    {"type": "ChainExpr", "operators": ["+", "-"], "operands": [a, b, c]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

#: The operator of an index, `a[b]`, where it is a link of a flat chain.
INDEX: Final = "[]"

#: How many nodes deep chains may make an expression; one that would make it deeper is written flat. Readers of JSON and
#: who walks through it by recursion have limits of their own, some of them near: with this one no expression is deeper
#: than those that brackets nest as far as the language lets them.
MAX_CHAIN_DEPTH: Final = 128


def hung(operators: Sequence[str], operands: Sequence[object]) -> Any:
    """Return a flat chain as the nodes that it stands for, one inside the other. ValueError where operators and
    operands do not match.
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
