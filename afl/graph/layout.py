"""Lay a graph out on a plane: nested boxes, and the ways of the arrows."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from afl.graph.layering import LANE, Layers, Size, place
from afl.graph.picture import Edge, Graph, Item, Vertex

Point: TypeAlias = tuple[float, float]

#: The width of a title's character in pixels, at size 13. The viewer chooses the font, so this is rather wide.
CHARACTER = 7.6
SMALL_CHARACTER = 6.6

_PAD, _PAD_TOP = 16.0, 34.0
_EMPTY: Size = (60.0, 20.0)
_PORT_GAP = 14.0

#: The largest ratio of width to height; a wider picture is laid out downwards, because pages scroll downwards.
_SHAPE = 1.2


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle by its upper left corner."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Way:
    """An arrow with the points it passes, both ends included. `is_back`: it leads against the direction of the others.

    An arrow back leaves its box where others arrive, and arrives where others leave.
    """

    edge: Edge
    points: tuple[Point, ...]
    is_back: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of all boxes and arrows. With `is_down` arrows lead downwards, else to the right."""

    boxes: dict[str, Box]
    ways: tuple[Way, ...]
    width: float
    height: float
    is_down: bool


#: What says how wide and high a box is, in a picture that leads downwards or, if not, to the right.
SizeOf: TypeAlias = Callable[[Vertex, bool], Size]


def box_size(vertex: Vertex, _is_down: bool = True) -> Size:
    """Return the width and height of a box with a title, and perhaps a detail below it."""
    title = text_width(vertex.title, CHARACTER)
    width = max(title, text_width(vertex.detail, SMALL_CHARACTER) + (14 if vertex.kind == "event" else 0)) + 28
    return max(width, 76.0), 44.0 if vertex.detail else 32.0


def layout(graph: Graph, size_of: SizeOf = box_size) -> Layout:
    """Lay the graph out downwards or to the right, whichever comes nearer to the shape of a screen.

    Items stand in reading order: an arrow that leads to an earlier one leads back.
    """
    candidates = [_Layouter(graph, size_of, is_down=is_down).lay_out() for is_down in (True, False)]
    return min(candidates, key=lambda found: max(found.width / _SHAPE, found.height))


def text_width(text: str, character: float) -> float:
    """Return the approximate width of a text."""
    cells = sum(1.7 if unicodedata.east_asian_width(char) in "WF" else 1.0 for char in text)
    return cells * character


class _Layouter:
    def __init__(self, graph: Graph, size_of: SizeOf, *, is_down: bool) -> None:
        self._graph = graph
        self._size_of_vertex = size_of
        self._is_down = is_down
        self._parents: dict[str, tuple[str, ...]] = {}
        self._inner: dict[str, Layers] = {}
        self._sizes: dict[str, Size] = {}
        self._boxes: dict[str, Box] = {}
        self._find_parents(graph.items, ())

    def lay_out(self) -> Layout:
        width, height = self._measure("", self._graph.items)
        self._put("", self._graph.items, 0.0, 0.0)
        return Layout(self._boxes, tuple(self._ways()), width, height, self._is_down)

    def _find_parents(self, items: tuple[Item, ...], parents: tuple[str, ...]) -> None:
        for item in items:
            self._parents[item.id] = (*parents, item.id)
            if not isinstance(item, Vertex):
                self._find_parents(item.items, (*parents, item.id))

    def _measure(self, frame: str, items: tuple[Item, ...]) -> Size:
        """Place the content of a frame, and return its width and height."""
        for item in items:
            self._sizes[item.id] = self._size_of(item)
        inside = {item.id: number for number, item in enumerate(items)}
        sizes = {item.id: self._turned(self._sizes[item.id]) for item in items}
        arrows: list[tuple[str, str]] = []
        entries: dict[str, Size] = {}
        exits: dict[str, Size] = {}
        for number, edge in enumerate(self._graph.edges):
            source, target = self._in(inside, edge.source), self._in(inside, edge.target)
            if source is not None and target is not None:
                # Of the arrows back, those between the boxes themselves: from and into frames they have no way.
                is_direct = (source, target) == (edge.source, edge.target)
                if inside[source] < inside[target] or (inside[source] > inside[target] and is_direct):
                    arrows.append((source, target))
            elif target is not None and edge.target != frame:
                entries[f"in {number}"] = (LANE, 0.0)
                arrows.append((f"in {number}", target))
            elif source is not None and edge.source != frame:
                exits[f"out {number}"] = (LANE, 0.0)
                arrows.append((source, f"out {number}"))
        # The ends stand before and behind all boxes.
        self._inner[frame] = place({**entries, **sizes, **exits}, arrows, first=entries, last=exits)
        return self._turned(self._inner[frame].size)

    def _in(self, inside: Container[str], end: str) -> str | None:
        """Return the box of a frame that contains the end of an arrow, or None when the end is elsewhere."""
        return next((key for key in self._parents[end] if key in inside), None)

    def _size_of(self, item: Item) -> Size:
        if isinstance(item, Vertex):
            return self._size_of_vertex(item, self._is_down)
        title = text_width(item.title, CHARACTER)
        width, height = self._measure(item.id, item.items) if item.items else _EMPTY
        return max(width + 2 * _PAD, title + 2 * _PAD), height + _PAD + _PAD_TOP

    def _put(self, frame: str, items: tuple[Item, ...], x: float, y: float) -> None:
        for item in items:
            dx, dy = self._turned(self._inner[frame].places[item.id])
            width, height = self._sizes[item.id]
            self._boxes[item.id] = Box(x + dx, y + dy, width, height)
            if not isinstance(item, Vertex) and item.items:
                inner_width = self._turned(self._inner[item.id].size)[0]
                # A title may be wider than the content below it.
                self._put(item.id, item.items, x + dx + (width - inner_width) / 2, y + dy + _PAD_TOP)

    def _ways(self) -> list[Way]:
        passed = {edge: self._on_the_way(number, edge) for number, edge in enumerate(self._graph.edges)}
        upper, lower = self._ports(passed)
        ways: list[Way] = []
        for edge, points in passed.items():
            frame, ends = self._common_frame(edge)
            is_back = self._is_back(edge)
            beside = self._beside(frame, ends[is_back], upper[edge]) if ends[is_back] == self._ends(edge)[0] else []
            way = (upper[edge], *beside, *points, lower[edge])
            ways.append(Way(edge, way[::-1] if is_back else way, is_back))
        return ways

    def _is_back(self, edge: Edge) -> bool:
        frame, ends = self._common_frame(edge)
        return ends in self._inner[frame].backward

    def _ends(self, edge: Edge) -> tuple[str, str]:
        """Return the two boxes of an arrow: the one in the earlier layer first."""
        return (edge.target, edge.source) if self._is_back(edge) else (edge.source, edge.target)

    def _on_the_way(self, number: int, edge: Edge) -> list[Point]:
        """Return the points that an arrow passes: out of frames, innermost first, then into others, outermost first.

        Those of an arrow back stand in the order of the layers as well.
        """
        frame, (source, target) = self._common_frame(edge)
        leaving, entering = self._parents[edge.source], self._parents[edge.target]
        points = self._passed(frame, (source, target))
        for at in range(leaving.index(source), len(leaving) - 1):
            points = self._border(leaving[at], (leaving[at + 1], f"out {number}")) + points
        for at in range(entering.index(target), len(entering) - 1):
            points = points + self._border(entering[at], (f"in {number}", entering[at + 1]))
        return points

    def _beside(self, frame: str, source: str, port: Point) -> list[Point]:
        """Return where an arrow leaves the layer of its box: up to there it goes straight, past deeper boxes."""
        inner = self._inner[frame]
        corner, along = self._turned(self._corner(frame)), inner.ends[inner.layer_of[source]]
        across, begin = self._turned(port)
        return [self._turned((across, corner[1] + along))] if corner[1] + along - begin > _PAD else []

    def _passed(self, frame: str, ends: tuple[str, str]) -> list[Point]:
        """Return the points of an arrow between two boxes of a frame."""
        x, y = self._corner(frame)
        return [(x + dx, y + dy) for dx, dy in map(self._turned, self._inner[frame].routes.get(ends, []))]

    def _border(self, frame: str, ends: tuple[str, str]) -> list[Point]:
        """Return the points of an arrow between a frame's border and a box in the frame."""
        inner = self._inner[frame]
        is_in = ends[0].startswith("in ")
        end = ends[0] if is_in else ends[1]
        if ends not in inner.routes and not inner.is_apart(ends):
            # The box that it leads to stands at the border itself.
            return []
        across, along = inner.places[end]
        depth = inner.depths[0 if is_in else -1]
        x, y = self._corner(frame)
        lane = [(across + LANE / 2, along - depth / 2), (across + LANE / 2, along + depth / 2)]
        points = [(x + dx, y + dy) for dx, dy in map(self._turned, lane)]
        passed = self._passed(frame, ends)
        return [*points, *passed] if is_in else [*passed, *points]

    def _common_frame(self, edge: Edge) -> tuple[str, tuple[str, str]]:
        """Return the innermost frame around both ends of an arrow, and the two boxes of it that the arrow connects."""
        source, target = self._parents[edge.source], self._parents[edge.target]
        depth = 0
        while depth < min(len(source), len(target)) - 1 and source[depth] == target[depth]:
            depth += 1
        return (source[depth - 1] if depth else ""), (source[depth], target[depth])

    def _corner(self, frame: str) -> Point:
        if not frame:
            return 0.0, 0.0
        box = self._boxes[frame]
        return box.x + (box.width - self._turned(self._inner[frame].size)[0]) / 2, box.y + _PAD_TOP

    def _ports(self, passed: Mapping[Edge, Sequence[Point]]) -> tuple[dict[Edge, Point], dict[Edge, Point]]:
        """Return where each arrow meets its box in the earlier layer and in the later one.

        They stand side by side, in the order of the boxes at their other ends.
        """
        ends = {edge: self._ends(edge) for edge in self._graph.edges}
        below: dict[str, list[Edge]] = defaultdict(list)
        above: dict[str, list[Edge]] = defaultdict(list)
        for edge in self._graph.edges:
            below[ends[edge][0]].append(edge)
            above[ends[edge][1]].append(edge)
        upper: dict[Edge, Point] = {}
        lower: dict[Edge, Point] = {}
        for key, edges in below.items():
            edges.sort(key=lambda edge: self._across(passed[edge][0]) if passed[edge] else self._middle(ends[edge][1]))
            upper.update((edge, self._port(key, n, len(edges), is_out=True)) for n, edge in enumerate(edges))
        for key, edges in above.items():
            edges.sort(key=lambda edge: self._across(passed[edge][-1]) if passed[edge] else self._middle(ends[edge][0]))
            lower.update((edge, self._port(key, n, len(edges), is_out=False)) for n, edge in enumerate(edges))
        return upper, lower

    def _across(self, point: Point) -> float:
        return self._turned(point)[0]

    def _middle(self, key: str) -> float:
        box = self._boxes[key]
        return box.x + box.width / 2 if self._is_down else box.y + box.height / 2

    def _port(self, key: str, number: int, count: int, *, is_out: bool) -> Point:
        box = self._boxes[key]
        room = (box.width if self._is_down else box.height) * 0.7
        gap = min(_PORT_GAP, room / max(count - 1, 1))
        across = self._middle(key) + (number - (count - 1) / 2) * gap
        if self._is_down:
            return across, box.y + (box.height if is_out else 0.0)
        return box.x + (box.width if is_out else 0.0), across

    def _turned(self, pair: tuple[float, float]) -> tuple[float, float]:
        """Return (x, y) for (across, along), and the other way round."""
        return pair if self._is_down else (pair[1], pair[0])
