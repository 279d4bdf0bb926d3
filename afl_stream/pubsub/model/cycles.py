"""The cycles of a directed graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

V = TypeVar("V", bound=Hashable)


def strong_components(successors: Mapping[V, Iterable[V]]) -> list[list[V]]:
    """Return the strong components, each in the order of the mapping, a component before those that lead to it.

    Two vertices are in one component when each can be reached from the other. Tarjan's algorithm, without recursion.
    """
    order = {vertex: number for number, vertex in enumerate(successors)}
    found: dict[V, int] = {}
    lowest: dict[V, int] = {}
    open_vertices: dict[V, None] = {}
    components: list[list[V]] = []
    for root in successors:
        if root in found:
            continue
        path: list[tuple[V, Iterator[V]]] = []
        following: V | None = root
        while following is not None or path:
            if following is not None:
                found[following] = lowest[following] = len(found)
                open_vertices[following] = None
                path.append((following, iter(successors[following])))
                following = None
            vertex, left = path[-1]
            for target in left:
                if target not in found:
                    following = target
                    break
                if target in open_vertices:
                    lowest[vertex] = min(lowest[vertex], found[target])
            else:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[vertex])
                if lowest[vertex] == found[vertex]:
                    members: list[V] = []
                    while not members or members[-1] != vertex:
                        members.append(open_vertices.popitem()[0])
                    components.append(sorted(members, key=order.__getitem__))
    return components


def reached_from(starts: Iterable[V], successors: Mapping[V, Iterable[V]]) -> set[V]:
    """Return the starts and everything that can be reached from them."""
    reached: set[V] = set()
    pending = list(starts)
    while pending:
        vertex = pending.pop()
        if vertex not in reached:
            reached.add(vertex)
            pending.extend(successors.get(vertex, ()))
    return reached
