"""Find the namespaces that a program needs: by `use`, and by dotted names of facets and types."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import fields
from functools import cache

from afl import ast


def needed_namespaces(
    program: ast.Program, known: Collection[str] = frozenset()
) -> dict[str, ast.SourceLocation | None]:
    """Return each needed namespace, with the first place that names it; full names that are known need none."""
    found: dict[str, ast.SourceLocation | None] = {}
    for node in nodes(program):
        if isinstance(node, ast.UsesDecl):
            found.setdefault(node.name, node.location)
        elif isinstance(node, ast.CallExpr | ast.MixinSig | ast.MixinCall | ast.TypeRef):
            namespace = node.name.rpartition(".")[0]
            if namespace and node.name not in known:
                found.setdefault(namespace, node.location)
    return found


def nodes(root: ast.ASTNode) -> Iterator[ast.ASTNode]:
    """Return all nodes of a tree in the order of the text, each before its children."""
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
    # Fields outside of comparisons hold places and ids, not children.
    return tuple(item.name for item in fields(kind) if item.compare)
