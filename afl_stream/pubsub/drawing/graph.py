"""A workflow as a graph: its nodes, its topics, and the ANDs and ORs between them.

Kinds of vertices: node, topic, input, output, question, answer, gate. Kinds of edges: `data` to and from topics, `when`
to a topic that takes only data for which a condition holds, `reply` from a question to the topic of its answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from afl.graph.layering import reading_order
from afl.graph.picture import Edge, Graph, Vertex
from afl_stream.pubsub.model.definition import WorkflowDefinition
from afl_stream.pubsub.model.expressions import AllOf, AnyOf, On, TopicExpression
from afl_stream.pubsub.model.nodes import Destination, Node
from afl_stream.pubsub.model.topics import (
    InputTopic,
    InWorkflowInputTopic,
    InWorkflowOutputTopic,
    OutputTopic,
    Topic,
    condition_name,
)

_KINDS: Final = {
    InputTopic: "input",
    OutputTopic: "output",
    InWorkflowOutputTopic: "question",
    InWorkflowInputTopic: "answer",
}
#: What Python calls a lambda, at the end of its qualified name.
_NAMELESS: Final = "<lambda>"
#: Longest name of a condition in a picture.
_LONGEST: Final = 30


def graph_of(workflow: WorkflowDefinition) -> Graph:
    """Return the graph of a workflow, its vertices in reading order."""
    topics = {name: _topic_vertex(topic) for name, topic in workflow.topics.items()}
    vertices = {vertex.id: vertex for vertex in topics.values()}
    edges: list[Edge] = []
    for node in workflow.nodes.values():
        vertex = Vertex(id=f"node {node.name}", kind="node", title=node.name, detail=_detail(node))
        gates = _Gates(node)
        edges.append(Edge(source=gates.source_of(node.subscription), target=vertex.id, kind="data"))
        edges += gates.edges
        vertices |= {gate.id: gate for gate in gates.vertices} | {vertex.id: vertex}
        edges += [_published(vertex.id, to) for to in node.destinations]
    for topic in workflow.topics.values():
        if isinstance(topic, InWorkflowOutputTopic):
            edges.append(Edge(source=topics[topic.name].id, target=topics[topic.reply_to].id, kind="reply"))
    # The ways begin at the input, so that a cycle is closed where it leads back to its beginning.
    first = [topics[topic.name].id for topic in workflow.input_topics]
    order = reading_order(dict.fromkeys((*first, *vertices)), ((edge.source, edge.target) for edge in edges))
    return Graph(
        name=workflow.name,
        params=", ".join(topic.name for topic in workflow.input_topics),
        returns=", ".join(topic.name for topic in workflow.topics.values() if isinstance(topic, OutputTopic)),
        items=tuple(vertices[key] for key in order),
        edges=tuple(edges),
    )


class _Gates:
    """The gates of a node: one for each AND and OR of its subscription."""

    def __init__(self, node: Node) -> None:
        self._node = node.name
        self.vertices: list[Vertex] = []
        self.edges: list[Edge] = []

    def source_of(self, expression: TopicExpression) -> str:
        """Return the vertex whose arrow says that an expression is met: a topic, or a gate."""
        top = self._vertex(expression)
        pending = [(expression, top)]
        while pending:
            part, gate = pending.pop()
            for inner in () if isinstance(part, On) else _parts(part):
                source = self._vertex(inner)
                self.edges.append(Edge(source=source, target=gate, kind="data"))
                pending.append((inner, source))
        return top

    def _vertex(self, expression: TopicExpression) -> str:
        if isinstance(expression, On):
            return f"topic {expression.topic.name}"
        title = "AND" if isinstance(expression, AllOf) else "OR"
        self.vertices.append(Vertex(id=f"gate {len(self.vertices)} of {self._node}", kind="gate", title=title))
        return self.vertices[-1].id


def _parts(expression: TopicExpression) -> Iterator[TopicExpression]:
    if isinstance(expression, AllOf | AnyOf):
        yield from dict.fromkeys(expression.parts)


def _topic_vertex(topic: Topic) -> Vertex:
    kind = next((kind for of, kind in _KINDS.items() if isinstance(topic, of)), "topic")
    detail = f"when {_words(condition_name(topic.condition))}" if topic.condition is not None else ""
    return Vertex(id=f"topic {topic.name}", kind=kind, title=topic.name, detail=detail)


def _published(node: str, to: Destination) -> Edge:
    target = f"topic {to.topic.name}"
    if to.condition is None:
        return Edge(source=node, target=target, kind="when" if to.is_conditional else "data")
    return Edge(source=node, target=target, kind="when", label=_words(condition_name(to.condition)))


def _detail(node: Node) -> str:
    command = node.command_name
    # A lambda has no name that would tell more than the node's own.
    return "" if command == node.name or command.endswith(_NAMELESS) else _words(command)


def _words(name: str | None) -> str:
    """Return a function's name for a picture: the last part, at a bounded length."""
    last = (name or "").rpartition(".")[2]
    last = "a condition" if last == _NAMELESS else last
    return last if len(last) <= _LONGEST else f"{last[: _LONGEST - 1]}…"
