"""Draw a workflow: its steps, and which step waits for which. The layout and the painting draw other graphs as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.core.lazy_names import lazy_names
from afl.graph.picture import Cluster, Edge, Graph, Vertex

if TYPE_CHECKING:
    from afl.graph.model import graph_of

__all__ = ["Cluster", "Edge", "Graph", "Vertex", "graph_of"]

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "dot",
    "layering",
    "layout",
    "mermaid",
    "painting",
    "picture",
    "svg",
)

if not TYPE_CHECKING:
    # The builder knows compiled programs; pictures of other graphs are drawn without them.
    __getattr__, __dir__ = lazy_names(__name__, {"afl.graph.model": "graph_of"})
