"""Write a syntax tree as JSON, node by node, for people and tools that inspect the parser's result."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from afl.ast import ASTNode, BinaryExpr, IndexExpr
from afl.compiled.chains import MAX_CHAIN_DEPTH
from afl.syntax.operator_chains import links_of, operator_of, right_of


def tree_json(node: object, *, locations: bool = True) -> Any:
    """Return a node, or a list or value inside one, in JSON's types.

    A node is an object: `node` names its class, then its fields follow, and `location` as [line, column, end line, end
    column]. A chain of operators that would nest too deep is a `ChainExpr` of all its `operators` and `operands`.
    """
    return _written(node, locations, 0)


def _written(node: object, locations: bool, links_around: int) -> Any:
    if isinstance(node, list | tuple):
        return [_written(item, locations, links_around) for item in node]
    if isinstance(node, BinaryExpr | IndexExpr):
        return _chain(node, locations, links_around)
    if not isinstance(node, ASTNode):
        return node
    members: dict[str, Any] = {"node": type(node).__name__}
    for item in fields(node):
        if item.compare:
            members[item.name] = _written(getattr(node, item.name), locations, links_around)
    return _located(members, node, locations)


def _chain(node: BinaryExpr | IndexExpr, locations: bool, links_around: int) -> dict[str, Any]:
    first, links = links_of(node)
    depth = links_around + len(links)
    if depth > MAX_CHAIN_DEPTH:
        operands = [_written(operand, locations, links_around + 1) for operand in (first, *map(right_of, links))]
        flat = {"node": "ChainExpr", "operators": [operator_of(link) for link in links], "operands": operands}
        return _located(flat, node, locations)
    written = _written(first, locations, depth)
    for number, link in enumerate(links):
        right = _written(right_of(link), locations, depth - number)
        if isinstance(link, BinaryExpr):
            members = {"node": "BinaryExpr", "operator": link.operator, "left": written, "right": right}
        else:
            members = {"node": "IndexExpr", "target": written, "index": right}
        written = _located(members, link, locations)
    found: dict[str, Any] = written
    return found


def _located(members: dict[str, Any], node: ASTNode, locations: bool) -> dict[str, Any]:
    if locations and node.location is not None:
        members["location"] = list(node.location[:4])
    return members
