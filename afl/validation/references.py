"""References of expressions and statements, and cycles between the steps of a block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass

from afl import ast


def references_in(node: object) -> Iterator[ast.Reference]:
    """Yield every reference in a node, a list of nodes or their children, in the order of the text."""
    # An own stack instead of recursion: a chain of operators may be longer than Python's stack is deep.
    pending: list[object] = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, ast.Reference):
            yield current
        elif isinstance(current, list | tuple):
            pending.extend(reversed(current))
        elif is_dataclass(current):
            pending.extend(getattr(current, item.name) for item in reversed(fields(current)) if item.compare)


def cycle_from(statement: str, first: str, statements: Iterable[ast.StepStmt]) -> list[str]:
    """Return the names on the way from a step over the one that it refers to and back; empty without a way back.

    `statement` is the step that refers to `first`, both of one block.
    """
    waits_for = {step.name: step for step in statements}
    came_from: dict[str, str] = {}
    pending = [first]
    while pending:
        name = pending.pop()
        if name == statement:
            return [statement, *_way_back(statement, first, came_from)]
        for reference in references_in(waits_for[name]):
            target = reference.path[0] if reference.path and not reference.is_input else ""
            if target in waits_for and target != first and target not in came_from:
                came_from[target] = name
                pending.append(target)
    return []


def _way_back(statement: str, first: str, came_from: Mapping[str, str]) -> list[str]:
    way = [statement]
    while way[-1] != first:
        way.append(came_from[way[-1]])
    return way[::-1]
