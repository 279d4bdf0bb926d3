"""Draw a graph as SVG, without any program that must be installed."""

from __future__ import annotations

from itertools import pairwise
from xml.sax.saxutils import escape, quoteattr

from afl.graph.layout import SMALL_CHARACTER, Box, Layout, Point, Way, layout, text_width
from afl.graph.model import Cluster, Graph, Vertex, everything

_MARGIN, _HEAD, _LEGEND = 24.0, 58.0, 40.0

_STYLE = """
text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", Helvetica, Arial, sans-serif; fill: #1d2733 }
.name { font-size: 17px; font-weight: 600 }
.about, .legend text { font-size: 11px; fill: #5b6b7f }
.title { font-size: 13px; font-weight: 600 }
.detail { font-size: 11px; fill: #5b6b7f }
.frame-title { font-size: 12px; fill: #44546a; font-weight: 600 }
.box { fill: #ffffff; stroke: #8fa1b5; stroke-width: 1.2 }
.event { fill: #fff4da; stroke: #c77700; stroke-width: 1.8 }
.wait { fill: #e6f0fb; stroke: #2c5aa0; stroke-width: 1.8 }
.workflow { fill: #eef1ff; stroke: #5566c9 }
.schema { fill: #f3f0fa; stroke: #8b74c4 }
.yield { fill: #e4f5e9; stroke: #2f8f4e }
.log { fill: #f6f7f9; stroke-dasharray: 4 3 }
.assert { fill: #fdecea; stroke: #c0392b }
.script { fill: #e8f4fb; stroke: #2f7fae }
.frame { fill: #8fa1b5; fill-opacity: .09; stroke: #b4c0ce }
.foreach { fill: #5566c9; fill-opacity: .07; stroke: #a9b3e6 }
.case { fill: #ffffff; fill-opacity: .75; stroke: #c9d2dd }
.catch { fill: #c0392b; fill-opacity: .06; stroke: #dfa19a }
.arrow { fill: none; stroke: #66788d; stroke-width: 1.3 }
.then { stroke-dasharray: 5 4 }
.fails { stroke: #c0392b; stroke-dasharray: 5 4 }
.through { stroke-opacity: .55 }
""".strip()

#: The legend's words for the kinds that need one.
_LEGEND_WORDS = {
    "event": "event facet: waits for an agent",
    "wait": "library: the runtime answers",
    "workflow": "workflow",
    "schema": "schema",
    "script": "script",
    "assert": "assertion",
    "log": "log",
    "yield": "result",
}


def svg(graph: Graph) -> str:
    """Return the picture as the text of an SVG file."""
    found = layout(graph)
    legend = _legend(graph)
    about = _about(graph)
    words = max(text_width(graph.name, 10.5), text_width(about, SMALL_CHARACTER), _legend_width(graph))
    width = max(found.width, words) + 2 * _MARGIN
    height = found.height + 2 * _MARGIN + _HEAD + (_LEGEND if legend else 0.0)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label={quoteattr(graph.name)}>',
        f"<title>{escape(graph.name)}</title>",
        f"<style>{_STYLE}</style>",
        "<defs>",
        *_head("head", "#66788d"),
        *_head("head-fails", "#c0392b"),
        "</defs>",
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
        f'<text class="name" x="{_MARGIN:.0f}" y="36">{escape(graph.name)}</text>',
        f'<text class="about" x="{_MARGIN:.0f}" y="56">{escape(about)}</text>',
        # A picture that its words make wider is centred.
        f'<g transform="translate({(width - found.width) / 2:.1f} {_MARGIN + _HEAD:.1f})">',
        *_frames(graph, found),
        *(_arrow(way, found) for way in found.ways),
        *(_vertex(item, found.boxes[item.id]) for item in graph.vertices()),
        "</g>",
    ]
    if legend:
        lines += [
            f'<g class="legend" transform="translate({_MARGIN:.0f} {height - _MARGIN - 14:.1f})">',
            *legend,
            "</g>",
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _about(graph: Graph) -> str:
    takes = f"takes {graph.params}" if graph.params else "takes nothing"
    return f"{takes}  ·  gives {graph.returns}" if graph.returns else takes


def _frames(graph: Graph, found: Layout) -> list[str]:
    lines: list[str] = []
    for item in everything(graph.items):
        if isinstance(item, Cluster):
            box = found.boxes[item.id]
            style = item.kind if item.kind in ("foreach", "case", "catch") else "frame"
            lines.append(f'<rect class="box {style}" {_rectangle(box)} rx="8"/>')
            lines.append(
                f'<text class="frame-title" x="{box.x + 12:.1f}" y="{box.y + 21:.1f}">{escape(item.title)}</text>'
            )
            if not item.items:
                lines.append(
                    f'<text class="detail" x="{box.x + box.width / 2:.1f}" y="{box.y + box.height - 20:.1f}" '
                    'text-anchor="middle">nothing</text>'
                )
    return lines


def _vertex(vertex: Vertex, box: Box) -> str:
    x, y = box.x + box.width / 2, box.y + box.height / 2
    radius = 16 if vertex.kind in ("event", "wait", "yield") else 5
    lines = [f"<g id={quoteattr(vertex.id)}>", f'<rect class="box {vertex.kind}" {_rectangle(box)} rx="{radius}"/>']
    if vertex.kind == "workflow":
        inner = Box(box.x + 3, box.y + 3, box.width - 6, box.height - 6)
        lines.append(f'<rect class="box workflow" {_rectangle(inner)} rx="3" fill-opacity="0"/>')
    if not vertex.detail:
        lines.append(
            f'<text class="title" x="{x:.1f}" y="{y + 4.5:.1f}" text-anchor="middle">{escape(vertex.title)}</text>'
        )
    else:
        mark = '<tspan fill="#c77700">⚡ </tspan>' if vertex.kind == "event" else ""
        words = f"{mark}{escape(vertex.detail)}"
        lines += [
            f'<text class="title" x="{x:.1f}" y="{y - 3:.1f}" text-anchor="middle">{escape(vertex.title)}</text>',
            f'<text class="detail" x="{x:.1f}" y="{y + 13:.1f}" text-anchor="middle">{words}</text>',
        ]
    return "\n".join([*lines, "</g>"])


def _arrow(way: Way, found: Layout) -> str:
    points = list(way.points)
    end, is_down = points[-1], found.is_down
    # The head is drawn beyond the line's end.
    points[-1] = (end[0], end[1] - 7) if is_down else (end[0] - 7, end[1])
    commands = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for start, stop in pairwise(points):
        commands.append(_curve(start, stop, is_down))
    style = {"then": " then", "fails": " fails"}.get(way.edge.kind, "")
    head = "head-fails" if way.edge.kind == "fails" else "head"
    return f'<path class="arrow{style}" d="{" ".join(commands)}" marker-end="url(#{head})"/>'


def _curve(start: Point, stop: Point, is_down: bool) -> str:
    """Return a curve that leaves and arrives in the direction of the arrows."""
    bend = abs(stop[1] - start[1] if is_down else stop[0] - start[0]) / 2
    bend = max(bend, 12.0)
    first = (start[0], start[1] + bend) if is_down else (start[0] + bend, start[1])
    second = (stop[0], stop[1] - bend) if is_down else (stop[0] - bend, stop[1])
    return f"C{first[0]:.1f} {first[1]:.1f} {second[0]:.1f} {second[1]:.1f} {stop[0]:.1f} {stop[1]:.1f}"


def _head(name: str, colour: str) -> list[str]:
    return [
        f'<marker id="{name}" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto" markerUnits="userSpaceOnUse">',
        f'<path d="M0 0.6 L8 4 L0 7.4 z" fill="{colour}"/>',
        "</marker>",
    ]


def _kinds(graph: Graph) -> list[str]:
    there = {vertex.kind for vertex in graph.vertices()}
    return [kind for kind in _LEGEND_WORDS if kind in there]


def _legend(graph: Graph) -> list[str]:
    lines: list[str] = []
    x = 0.0
    for kind in _kinds(graph):
        lines.append(f'<rect class="box {kind}" x="{x:.1f}" y="0" width="20" height="13" rx="3"/>')
        lines.append(f'<text x="{x + 27:.1f}" y="10.5">{_LEGEND_WORDS[kind]}</text>')
        x += _entry_width(kind)
    return lines


def _legend_width(graph: Graph) -> float:
    return sum(_entry_width(kind) for kind in _kinds(graph))


def _entry_width(kind: str) -> float:
    return 27 + text_width(_LEGEND_WORDS[kind], 6.0) + 22


def _rectangle(box: Box) -> str:
    return f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'
