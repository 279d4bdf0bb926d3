"""Draw an event-driven workflow as SVG, for light and dark pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from string import Template
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from afl.graph.layering import Size, reading_order
from afl.graph.layout import SMALL_CHARACTER, Box, box_size, text_width
from afl.graph.painting import ArrowLook, Look, paint, rectangle, words_in
from afl.graph.picture import Edge, Graph, Vertex
from afl_stream.pubsub.drawing.graph import graph_of
from afl_stream.pubsub.model.definition import WorkflowDefinition

#: Colours of light and dark pages, by their names in the rules.
_COLOURS: Final = {
    "paper": ("#ffffff", "#11161d"),
    "ink": ("#1d2733", "#e6ebf2"),
    "soft": ("#5b6b7f", "#9fb0c4"),
    "line": ("#66788d", "#8d9db1"),
    "topic": ("#ffffff", "#1c2530"),
    "topic_edge": ("#8fa1b5", "#6b7d92"),
    "node": ("#eef1ff", "#232a4d"),
    "node_edge": ("#5566c9", "#8b99f0"),
    "input": ("#e6f0fb", "#17293f"),
    "input_edge": ("#2c5aa0", "#6ea2e8"),
    "output": ("#e4f5e9", "#16301f"),
    "output_edge": ("#2f8f4e", "#5fbf80"),
    "question": ("#fff4da", "#3a2c0e"),
    "question_edge": ("#c77700", "#e0a040"),
    "answer": ("#f6ecfb", "#321f3d"),
    "answer_edge": ("#8e4bb0", "#c38be0"),
    "gate": ("#4a5a75", "#b9c6d8"),
    "gate_ink": ("#ffffff", "#11161d"),
}
_SHAPES: Final = """
text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", Helvetica, Arial, sans-serif }
.name { font-size: 17px; font-weight: 600 }
.about, .legend text, .detail { font-size: 11px }
.title { font-size: 13px; font-weight: 600 }
.label { font-size: 11px; font-style: italic }
.gate-title { font-size: 10px; font-weight: 700; letter-spacing: .5px }
.box { stroke-width: 1.3 }
.node { stroke-width: 1.8 }
.gate { stroke-width: 0 }
.arrow { fill: none; stroke-width: 1.4 }
.when { stroke-dasharray: 5 4 }
.reply { stroke-dasharray: 1.5 4; stroke-linecap: round; stroke-width: 1.8 }
"""
_COLOURING: Final = Template("""
.paper { fill: $paper }
text { fill: $ink }
.about, .legend text, .detail, .label { fill: $soft }
.gate-title { fill: $gate_ink }
.topic { fill: $topic; stroke: $topic_edge }
.node { fill: $node; stroke: $node_edge }
.input { fill: $input; stroke: $input_edge }
.output { fill: $output; stroke: $output_edge }
.question { fill: $question; stroke: $question_edge }
.answer { fill: $answer; stroke: $answer_edge }
.gate { fill: $gate }
.arrow { stroke: $line }
.reply { stroke: $question_edge }
.tip { fill: $line }
.tip-reply { fill: $question_edge }
""")


def _style() -> str:
    """Return the style sheet. Colours stand in it as such: some viewers know no variables."""
    light = _COLOURING.substitute({name: pair[0] for name, pair in _COLOURS.items()})
    dark = _COLOURING.substitute({name: pair[1] for name, pair in _COLOURS.items()})
    return f"{_SHAPES.rstrip()}{light.rstrip()}\n@media (prefers-color-scheme: dark) {{{dark}}}\n"


#: The legend's words for the kinds that need one.
_LEGEND: Final = {
    "node": "node",
    "topic": "topic",
    "input": "input",
    "output": "output",
    "question": "question to the caller",
    "answer": "answer of the caller",
}
_GATE: Final[Size] = (38.0, 20.0)
_HEAD_ROOM: Final = 14.0
_LABEL_HEIGHT: Final = 20.0


def svg(workflow: WorkflowDefinition) -> str:
    """Return the picture of a workflow as the text of an SVG file."""
    graph = _with_labels(graph_of(workflow))
    arriving = Counter(edge.target for edge in graph.edges)
    return paint(graph, replace(_LOOK, size_of=partial(_size, arriving)))


def _with_labels(graph: Graph) -> Graph:
    """Return the graph with a vertex for each word on an arrow: so the layout keeps a place for it."""
    vertices = {vertex.id: vertex for vertex in graph.vertices()}
    edges: list[Edge] = []
    for edge in graph.edges:
        if edge.label:
            label = Vertex(id=f"label {len(edges)}", kind="label", title=edge.label)
            vertices[label.id] = label
            edges.append(replace(edge, target=label.id, kind="when-begin", label=""))
            edge = replace(edge, source=label.id, label="")
        edges.append(edge)
    order = reading_order(vertices, ((edge.source, edge.target) for edge in edges))
    return replace(graph, items=tuple(vertices[key] for key in order), edges=tuple(edges))


def _size(arriving: Mapping[str, int], vertex: Vertex, is_down: bool) -> Size:
    if vertex.kind == "label":
        return text_width(vertex.title, SMALL_CHARACTER) + 8, _LABEL_HEIGHT
    if vertex.kind != "gate":
        return box_size(vertex)
    # Room for the heads of its arrows.
    width, height = _GATE
    room = arriving[vertex.id] * _HEAD_ROOM
    return (max(width, room), height) if is_down else (width, max(height, room))


def _vertex(vertex: Vertex, box: Box) -> str:
    x, y = box.x + box.width / 2, box.y + box.height / 2
    if vertex.kind == "label":
        words = [
            f'<text class="label" x="{x:.1f}" y="{y + 3.5:.1f}" text-anchor="middle">{escape(vertex.title)}</text>'
        ]
    elif vertex.kind == "gate":
        words = [
            f'<rect class="gate" {rectangle(box)} rx="10"/>',
            f'<text class="gate-title" x="{x:.1f}" y="{y + 3.5:.1f}" text-anchor="middle">{vertex.title}</text>',
        ]
    else:
        radius = 5.0 if vertex.kind == "node" else min(box.height / 2, 18.0)
        words = [f'<rect class="box {vertex.kind}" {rectangle(box)} rx="{radius:.0f}"/>', *words_in(vertex, box)]
    return "\n".join([f"<g id={quoteattr(vertex.id)}>", *words, "</g>"])


_LOOK: Final = Look(
    style=_style(),
    paper='class="paper"',
    heads={"head": 'class="tip"', "head-reply": 'class="tip-reply"'},
    arrows={
        "when": ArrowLook(style="when"),
        "when-begin": ArrowLook(style="when", head=None),
        "reply": ArrowLook(style="reply", head="head-reply"),
    },
    legend=_LEGEND,
    vertex=_vertex,
)
