"""Draw a workflow: its steps, and which step waits for which."""

from __future__ import annotations

from afl.graph.model import Cluster, Edge, Graph, Vertex, graph_of

__all__ = ["Cluster", "Edge", "Graph", "Vertex", "graph_of"]

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "dot",
    "mermaid",
    "svg",
)
