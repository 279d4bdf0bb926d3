"""Writes a syntax tree as JSON, node by node, for people and tools that look at what the parser understood."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from afl.ast import ASTNode


def tree_json(node: object, *, locations: bool = True) -> Any:
    """Return a node, or a list or value inside one, in JSON's types.

    A node is an object: `node` names its class, then come its fields, and `location` as [line, column, end line, end
    column].
    """
    if isinstance(node, list | tuple):
        return [tree_json(item, locations=locations) for item in node]
    if not isinstance(node, ASTNode):
        return node
    members: dict[str, Any] = {"node": type(node).__name__}
    for item in fields(node):
        if item.compare:
            members[item.name] = tree_json(getattr(node, item.name), locations=locations)
    if locations and node.location is not None:
        members["location"] = list(node.location[:4])
    return members
