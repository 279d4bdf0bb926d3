"""Finds the namespaces that a program asks for: by `use`, and by dotted names of facets and types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cache

from afl import ast


def needed_namespaces(program: ast.Program) -> dict[str, ast.SourceLocation | None]:
    """Return each namespace that is asked for, with the first place that does."""
    found: dict[str, ast.SourceLocation | None] = {}
    for node in nodes(program):
        if isinstance(node, ast.UsesDecl):
            found.setdefault(node.name, node.location)
        elif isinstance(node, ast.CallExpr | ast.MixinSig | ast.MixinCall | ast.TypeRef):
            namespace = node.name.rpartition(".")[0]
            if namespace:
                found.setdefault(namespace, node.location)
    return found


def nodes(root: ast.ASTNode) -> Iterator[ast.ASTNode]:
    """Return all nodes of a tree, each before what is in it, in the order of the text."""
    waiting: list[object] = [root]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list | tuple):
            waiting.extend(reversed(item))
        elif isinstance(item, ast.ASTNode):
            yield item
            kind: type = type(item)
            waiting.extend(getattr(item, name) for name in reversed(_parts(kind)))


@cache
def _parts(kind: type) -> tuple[str, ...]:
    # What is not compared tells where a node stands, not what it holds.
    return tuple(item.name for item in fields(kind) if item.compare)
