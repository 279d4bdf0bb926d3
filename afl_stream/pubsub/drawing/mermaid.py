"""Write an event-driven workflow as a Mermaid flowchart, which Markdown viewers draw."""

from __future__ import annotations

from typing import Final

from afl.graph.mermaid import ChartLook, chart
from afl_stream.pubsub.drawing.graph import graph_of
from afl_stream.pubsub.model.definition import WorkflowDefinition

_TOPIC: Final = ("([", "])")
_LOOK: Final = ChartLook(
    shapes={
        "topic": _TOPIC,
        "input": _TOPIC,
        "output": _TOPIC,
        "question": _TOPIC,
        "answer": _TOPIC,
        "gate": ("((", "))"),
    },
    arrows={"data": "-->", "when": "-.->", "reply": "-.->"},
    classes={
        "node": "fill:#eef1ff,stroke:#5566c9,stroke-width:2px,color:#1d2733",
        "topic": "fill:#ffffff,stroke:#8fa1b5,color:#1d2733",
        "input": "fill:#e6f0fb,stroke:#2c5aa0,color:#06213f",
        "output": "fill:#e4f5e9,stroke:#2f8f4e,color:#10351d",
        "question": "fill:#fff4da,stroke:#c77700,color:#3b2a00",
        "answer": "fill:#f6ecfb,stroke:#8e4bb0,color:#321f3d",
        "gate": "fill:#4a5a75,stroke:#4a5a75,color:#ffffff",
    },
)


def mermaid(workflow: WorkflowDefinition) -> str:
    """Return the flowchart of a workflow. Dashed arrows lead where only data goes for which a condition holds."""
    return chart(graph_of(workflow), _LOOK)
