"""What a picture of a graph is made of, whatever it shows: boxes, frames around them, and arrows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertex:
    """A box. Who draws it knows its `kind`; model.py has those of AFL."""

    id: str
    kind: str
    title: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A frame around items that belong together."""

    id: str
    kind: str
    title: str
    items: tuple[Item, ...] = ()


Item: TypeAlias = Vertex | Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An arrow, perhaps with a word on it."""

    source: str
    target: str
    kind: str = "needs"
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A workflow as a picture: its name, what it takes and gives, and its content."""

    name: str
    params: str
    returns: str
    items: tuple[Item, ...] = ()
    edges: tuple[Edge, ...] = ()

    def vertices(self) -> Iterator[Vertex]:
        return (item for item in everything(self.items) if isinstance(item, Vertex))


def everything(items: tuple[Item, ...]) -> Iterator[Item]:
    """Return items and everything in them, each item before its content."""
    for item in items:
        yield item
        if isinstance(item, Cluster):
            yield from everything(item.items)
