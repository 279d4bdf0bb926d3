"""Write a graph as a Mermaid flowchart, which Markdown viewers draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from afl.graph.picture import Graph, Item, Vertex, everything


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLook:
    """What a graph's kinds look like: the brackets of boxes, the lines of arrows, and colours by kind."""

    shapes: Mapping[str, tuple[str, str]]
    arrows: Mapping[str, str]
    classes: Mapping[str, str]
    #: What stands before the detail of a kind.
    marks: Mapping[str, str] = field(default_factory=dict)


def mermaid(graph: Graph) -> str:
    """Return the flowchart of a workflow in AFL."""
    return chart(graph, _LOOK)


def chart(graph: Graph, look: ChartLook) -> str:
    """Return a flowchart. Ids are numbered from the start, so the same graph gives the same text."""
    return _Chart(graph, look).write()


class _Chart:
    def __init__(self, graph: Graph, look: ChartLook) -> None:
        self._graph = graph
        self._look = look
        self._names: dict[str, str] = {}
        for item in everything(graph.items):
            self._names[item.id] = f"{'n' if isinstance(item, Vertex) else 'c'}{len(self._names)}"
        self._lines: list[str] = []

    def write(self) -> str:
        self._lines += ["---", f"title: {self._graph.name}", "---", "flowchart TD"]
        for item in self._graph.items:
            self._item(item, "    ")
        for edge in self._graph.edges:
            label = f'|"{_text(edge.label)}"|' if edge.label else ""
            line = f"{self._look.arrows[edge.kind]}{label}"
            self._lines.append(f"    {self._names[edge.source]} {line} {self._names[edge.target]}")
        for kind, style in self._look.classes.items():
            names = [self._names[vertex.id] for vertex in self._graph.vertices() if vertex.kind == kind]
            if names:
                self._lines += [f"    classDef {kind} {style}", f"    class {','.join(names)} {kind}"]
        return "\n".join(self._lines) + "\n"

    def _item(self, item: Item, indent: str) -> None:
        if isinstance(item, Vertex):
            begin, end = self._look.shapes.get(item.kind, ("[", "]"))
            mark = self._look.marks.get(item.kind, "")
            detail = f"<br/>{mark}{_text(item.detail)}" if item.detail else ""
            self._lines.append(f'{indent}{self._names[item.id]}{begin}"{_text(item.title)}{detail}"{end}')
            return
        self._lines.append(f'{indent}subgraph {self._names[item.id]} ["{_text(item.title)}"]')
        for inner in item.items:
            self._item(inner, indent + "    ")
        if not item.items:
            self._lines.append(f'{indent}    {self._names[item.id]}e["nothing"]')
        self._lines.append(f"{indent}end")


def _text(text: str) -> str:
    """Return a text escaped for quotes in a flowchart, where HTML counts too."""
    for char in '#"<>&`':
        text = text.replace(char, f"\0{ord(char)};")
    return text.replace("\0", "#")


_LOOK = ChartLook(
    shapes={
        "event": ("([", "])"),
        "wait": ("([", "])"),
        "workflow": ("[[", "]]"),
        "schema": ("[/", "/]"),
        "yield": (">", "]"),
        "log": ("(", ")"),
        "assert": ("{{", "}}"),
        "script": ("[(", ")]"),
    },
    arrows={"needs": "-->", "then": "-.->", "fails": "-. fails .->"},
    classes={
        "event": "fill:#fff3d6,stroke:#c77700,stroke-width:2px,color:#3b2a00",
        "wait": "fill:#e6f0fb,stroke:#2c5aa0,stroke-width:2px,color:#06213f",
        "yield": "fill:#e3f4e8,stroke:#2f8f4e,color:#10351d",
        "assert": "fill:#fdeaea,stroke:#c0392b,color:#471410",
    },
    marks={"event": "⚡ "},
)
