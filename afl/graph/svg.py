"""Draw a workflow in AFL as SVG."""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

from afl.graph.layout import Box
from afl.graph.painting import ArrowLook, Look, paint, rectangle, words_in
from afl.graph.picture import Graph, Vertex

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
    return paint(graph, _LOOK)


def _vertex(vertex: Vertex, box: Box) -> str:
    radius = 16 if vertex.kind in ("event", "wait", "yield") else 5
    lines = [f"<g id={quoteattr(vertex.id)}>", f'<rect class="box {vertex.kind}" {rectangle(box)} rx="{radius}"/>']
    if vertex.kind == "workflow":
        inner = Box(box.x + 3, box.y + 3, box.width - 6, box.height - 6)
        lines.append(f'<rect class="box workflow" {rectangle(inner)} rx="3" fill-opacity="0"/>')
    lines += words_in(vertex, box, '<tspan fill="#c77700">⚡ </tspan>' if vertex.kind == "event" else "")
    return "\n".join([*lines, "</g>"])


_LOOK = Look(
    style=_STYLE,
    paper='fill="#ffffff"',
    heads={"head": 'fill="#66788d"', "head-fails": 'fill="#c0392b"'},
    arrows={"then": ArrowLook(style="then"), "fails": ArrowLook(style="fails", head="head-fails")},
    legend=_LEGEND_WORDS,
    frames=frozenset({"foreach", "case", "catch"}),
    vertex=_vertex,
)
