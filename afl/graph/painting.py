"""Paint a graph as SVG, without any program that must be installed. A look says what its kinds look like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from afl.graph.layout import SMALL_CHARACTER, Box, Layout, Point, SizeOf, Way, box_size, layout, text_width
from afl.graph.picture import Cluster, Graph, Vertex, everything

_MARGIN, _HEAD, _LEGEND = 24.0, 58.0, 40.0
#: The length of an arrow's head.
_HEAD_LENGTH: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowLook:
    """What an arrow of one kind looks like: its class in the style sheet, and its head, if it has one."""

    style: str = ""
    head: str | None = "head"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a graph's kinds look like.

    `heads`: the attributes that colour each arrow's head. `frames`: the kinds of frames with a class of their own.
    `legend`: the words for the kinds of boxes that need some.
    """

    style: str
    paper: str
    heads: Mapping[str, str]
    arrows: Mapping[str, ArrowLook]
    legend: Mapping[str, str]
    vertex: Callable[[Vertex, Box], str]
    frames: frozenset[str] = frozenset()
    size_of: SizeOf = box_size


def paint(graph: Graph, look: Look) -> str:
    """Return the picture as the text of an SVG file."""
    found = layout(graph, look.size_of)
    legend = _legend(graph, look)
    about = _about(graph)
    words = max(text_width(graph.name, 10.5), text_width(about, SMALL_CHARACTER), _legend_width(graph, look))
    width = max(found.width, words) + 2 * _MARGIN
    height = found.height + 2 * _MARGIN + _HEAD + (_LEGEND if legend else 0.0)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label={quoteattr(graph.name)}>',
        f"<title>{escape(graph.name)}</title>",
        f"<style>{look.style}</style>",
        "<defs>",
        *(line for name, colour in look.heads.items() for line in _head(name, colour)),
        "</defs>",
        f'<rect width="{width:.0f}" height="{height:.0f}" {look.paper}/>',
        f'<text class="name" x="{_MARGIN:.0f}" y="36">{escape(graph.name)}</text>',
        f'<text class="about" x="{_MARGIN:.0f}" y="56">{escape(about)}</text>',
        # A picture that its words make wider is centred.
        f'<g transform="translate({(width - found.width) / 2:.1f} {_MARGIN + _HEAD:.1f})">',
        *_frames(graph, found, look),
        *(_arrow(way, found, look.arrows.get(way.edge.kind, ArrowLook())) for way in found.ways),
        *(look.vertex(item, found.boxes[item.id]) for item in graph.vertices()),
        "</g>",
    ]
    if legend:
        lines += [
            f'<g class="legend" transform="translate({_MARGIN:.0f} {height - _MARGIN - 14:.1f})">',
            *legend,
            "</g>",
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def rectangle(box: Box) -> str:
    """Return a box as the attributes of a rectangle."""
    return f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'


def words_in(vertex: Vertex, box: Box, mark: str = "") -> list[str]:
    """Return the title of a box, and its detail below that, behind a mark."""
    x, y = box.x + box.width / 2, box.y + box.height / 2
    if not vertex.detail:
        return [f'<text class="title" x="{x:.1f}" y="{y + 4.5:.1f}" text-anchor="middle">{escape(vertex.title)}</text>']
    return [
        f'<text class="title" x="{x:.1f}" y="{y - 3:.1f}" text-anchor="middle">{escape(vertex.title)}</text>',
        f'<text class="detail" x="{x:.1f}" y="{y + 13:.1f}" text-anchor="middle">{mark}{escape(vertex.detail)}</text>',
    ]


def _about(graph: Graph) -> str:
    takes = f"takes {graph.params}" if graph.params else "takes nothing"
    return f"{takes}  ·  gives {graph.returns}" if graph.returns else takes


def _frames(graph: Graph, found: Layout, look: Look) -> list[str]:
    lines: list[str] = []
    for item in everything(graph.items):
        if isinstance(item, Cluster):
            box = found.boxes[item.id]
            style = item.kind if item.kind in look.frames else "frame"
            lines.append(f'<rect class="box {style}" {rectangle(box)} rx="8"/>')
            lines.append(
                f'<text class="frame-title" x="{box.x + 12:.1f}" y="{box.y + 21:.1f}">{escape(item.title)}</text>'
            )
            if not item.items:
                lines.append(
                    f'<text class="detail" x="{box.x + box.width / 2:.1f}" y="{box.y + box.height - 20:.1f}" '
                    'text-anchor="middle">nothing</text>'
                )
    return lines


def arrow_path(way: Way, *, is_down: bool, has_head: bool = True) -> str:
    """Return the curve of an arrow as the commands of a path; room is left for its head."""
    points = list(way.points)
    end = points[-1]
    if has_head:
        # The head is drawn beyond the line's end.
        length = -_HEAD_LENGTH if way.is_back else _HEAD_LENGTH
        points[-1] = (end[0], end[1] - length) if is_down else (end[0] - length, end[1])
    commands = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for start, stop in pairwise(points):
        commands.append(_curve(start, stop, is_down=is_down, is_back=way.is_back))
    return " ".join(commands)


def _arrow(way: Way, found: Layout, look: ArrowLook) -> str:
    path = arrow_path(way, is_down=found.is_down, has_head=look.head is not None)
    style = f" {look.style}" if look.style else ""
    marker = f' marker-end="url(#{look.head})"' if look.head is not None else ""
    return f'<path class="arrow{style}" d="{path}"{marker}/>'


def _curve(start: Point, stop: Point, *, is_down: bool, is_back: bool) -> str:
    """Return a curve that leaves and arrives in the direction of the arrows, or against it."""
    bend = abs(stop[1] - start[1] if is_down else stop[0] - start[0]) / 2
    bend = max(bend, 12.0) * (-1 if is_back else 1)
    first = (start[0], start[1] + bend) if is_down else (start[0] + bend, start[1])
    second = (stop[0], stop[1] - bend) if is_down else (stop[0] - bend, stop[1])
    return f"C{first[0]:.1f} {first[1]:.1f} {second[0]:.1f} {second[1]:.1f} {stop[0]:.1f} {stop[1]:.1f}"


def _head(name: str, colour: str) -> list[str]:
    return [
        f'<marker id="{name}" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto" markerUnits="userSpaceOnUse">',
        f'<path d="M0 0.6 L8 4 L0 7.4 z" {colour}/>',
        "</marker>",
    ]


def _kinds(graph: Graph, look: Look) -> list[str]:
    there = {vertex.kind for vertex in graph.vertices()}
    return [kind for kind in look.legend if kind in there]


def _legend(graph: Graph, look: Look) -> list[str]:
    lines: list[str] = []
    x = 0.0
    for kind in _kinds(graph, look):
        lines.append(f'<rect class="box {kind}" x="{x:.1f}" y="0" width="20" height="13" rx="3"/>')
        lines.append(f'<text x="{x + 27:.1f}" y="10.5">{look.legend[kind]}</text>')
        x += _entry_width(look.legend[kind])
    return lines


def _legend_width(graph: Graph, look: Look) -> float:
    return sum(_entry_width(look.legend[kind]) for kind in _kinds(graph, look))


def _entry_width(words: str) -> float:
    return 27 + text_width(words, 6.0) + 22
