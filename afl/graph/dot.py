"""Write a graph in Graphviz' language, for users who want another layout than ours."""

from __future__ import annotations

import json

from afl.graph.picture import Cluster, Graph, Item, Vertex, everything

_SHAPES = {
    "event": 'shape=box style="rounded,filled" fillcolor="#fff3d6" color="#c77700" penwidth=2',
    "wait": 'shape=box style="rounded,filled" fillcolor="#e6f0fb" color="#2c5aa0" penwidth=2',
    "workflow": "shape=box peripheries=2",
    "schema": "shape=note",
    "yield": 'shape=cds style=filled fillcolor="#e3f4e8" color="#2f8f4e"',
    "log": 'shape=box style="rounded,dashed"',
    "assert": 'shape=octagon style=filled fillcolor="#fdeaea" color="#c0392b"',
    "script": "shape=component",
}
_LINES = {
    "needs": "",
    "then": "style=dashed",
    "fails": 'style=dashed color="#c0392b" label="fails" fontcolor="#c0392b"',
}


def dot(graph: Graph) -> str:
    """Return the graph as DOT. Ids are numbered from the start, so the same program gives the same text."""
    names = {item.id: f"n{number}" for number, item in enumerate(everything(graph.items))}
    clusters = {item.id: item for item in everything(graph.items) if isinstance(item, Cluster)}
    lines = [
        f"digraph {_text(graph.name)} {{",
        f"    label={_text(graph.name)} labelloc=t compound=true rankdir=TB",
        '    fontname="sans-serif" node [fontname="sans-serif" fontsize=11 shape=box]',
        '    edge [fontname="sans-serif" fontsize=10 color="#5b6b7f"]',
    ]
    for item in graph.items:
        _write(item, names, "    ", lines)
    for edge in graph.edges:
        style = [_LINES[edge.kind]]
        target = edge.target
        if target in clusters:
            # Graphviz draws arrows between nodes only, and cuts them off at the border of a cluster.
            style.append(f"lhead=cluster_{names[target]}")
            target = _first(clusters[target])
        known = names.get(target, f"{names[edge.target]}e")
        attributes = " ".join(part for part in style if part)
        lines.append(f"    {names[edge.source]} -> {known}{f' [{attributes}]' if attributes else ''}")
    return "\n".join([*lines, "}"]) + "\n"


def _write(item: Item, names: dict[str, str], indent: str, lines: list[str]) -> None:
    if isinstance(item, Vertex):
        label = f"{item.title}\n{item.detail}" if item.detail else item.title
        shape = _SHAPES.get(item.kind, "")
        lines.append(f"{indent}{names[item.id]} [label={_text(label)}{' ' if shape else ''}{shape}]")
        return
    colour = "#c0392b" if item.kind == "catch" else "#8fa1b5"
    lines.append(f"{indent}subgraph cluster_{names[item.id]} {{")
    lines.append(f'{indent}    label={_text(item.title)} color="{colour}" style=rounded fontsize=11 labeljust=l')
    for inner in item.items:
        _write(inner, names, indent + "    ", lines)
    if _first(item) not in names:
        lines.append(f'{indent}    {names[item.id]}e [label="nothing" shape=plaintext]')
    lines.append(f"{indent}}}")


def _first(cluster: Cluster) -> str:
    """Return the id of a vertex in the cluster, or for an empty cluster an unused name."""
    return next((item.id for item in everything(cluster.items) if isinstance(item, Vertex)), f"{cluster.id} (empty)")


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
