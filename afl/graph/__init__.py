"""Draws what a workflow does: its steps, and which waits for which."""

from __future__ import annotations

from afl.graph.model import Cluster, Edge, Graph, Vertex, graph_of

__all__ = ["Cluster", "Edge", "Graph", "Vertex", "graph_of"]
