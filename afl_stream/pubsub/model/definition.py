"""A workflow as it is declared: its nodes and topics, checked, and which node is subscribed to which topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from afl_stream.pubsub.errors import WorkflowInvalid
from afl_stream.pubsub.model.nodes import Node
from afl_stream.pubsub.model.span_kinds import OpenInferenceSpanKindValues
from afl_stream.pubsub.model.spans import NO_SPANS, Spans
from afl_stream.pubsub.model.topic_resolution import resolved
from afl_stream.pubsub.model.topics import InputTopic, InWorkflowInputTopic, InWorkflowOutputTopic, OutputTopic, Topic
from afl_stream.pubsub.model.validation import faults_of

DEFAULT_NAME: Final = "EventDrivenWorkflow"
#: By how many events the slowest consumer of a topic may lag before a publisher waits.
DEFAULT_MAX_BUFFERED_EVENTS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowDefinition:
    """The declarative part of a workflow. `of` makes one from nodes, and checks it.

    `topics` has every topic by its name, in the order in which the nodes name them; `topic_nodes` the names of the
    nodes that are subscribed to each.
    """

    name: str
    nodes: Mapping[str, Node]
    topics: Mapping[str, Topic]
    topic_nodes: Mapping[str, tuple[str, ...]]
    type: str = DEFAULT_NAME
    oi_span_type: OpenInferenceSpanKindValues = OpenInferenceSpanKindValues.AGENT
    max_buffered_events: int = DEFAULT_MAX_BUFFERED_EVENTS
    #: What traces its requests.
    spans: Spans = NO_SPANS

    @classmethod
    def of(
        cls,
        *,
        name: str = DEFAULT_NAME,
        nodes: Iterable[Node],
        topics: Iterable[Topic] = (),
        type: str = DEFAULT_NAME,
        oi_span_type: OpenInferenceSpanKindValues = OpenInferenceSpanKindValues.AGENT,
        max_buffered_events: int = DEFAULT_MAX_BUFFERED_EVENTS,
        spans: Spans = NO_SPANS,
    ) -> WorkflowDefinition:
        """Return the workflow of these nodes. Raises WorkflowInvalid with every fault.

        `topics` are needed only where nodes name topics in texts.
        """
        found = resolved(nodes, topics)
        faults = (*found.faults, *faults_of(name, found.nodes, found.topics, max_buffered_events))
        if faults:
            raise WorkflowInvalid(str(name), faults)
        topic_nodes: dict[str, list[str]] = {topic: [] for topic in found.topics}
        for node in found.nodes:
            for topic in node.subscribed_topics:
                topic_nodes[topic.name].append(node.name)
        return cls(
            name=name,
            nodes=MappingProxyType({node.name: node for node in found.nodes}),
            topics=MappingProxyType(dict(found.topics)),
            topic_nodes=MappingProxyType({topic: tuple(names) for topic, names in topic_nodes.items()}),
            type=type,
            oi_span_type=oi_span_type,
            max_buffered_events=max_buffered_events,
            spans=spans,
        )

    @property
    def input_topics(self) -> tuple[InputTopic, ...]:
        """The topics that take the input of a request."""
        return tuple(topic for topic in self.topics.values() if isinstance(topic, InputTopic))

    @property
    def output_topics(self) -> tuple[OutputTopic | InWorkflowOutputTopic, ...]:
        """The topics whose events the caller gets: output, and questions in the middle of a request."""
        return tuple(topic for topic in self.topics.values() if isinstance(topic, OutputTopic | InWorkflowOutputTopic))

    @property
    def in_workflow_input_topics(self) -> tuple[InWorkflowInputTopic, ...]:
        """The topics that take answers in the middle of a request."""
        return tuple(topic for topic in self.topics.values() if isinstance(topic, InWorkflowInputTopic))

    def to_dict(self) -> dict[str, object]:
        """Return the workflow as JSON: nodes, topics, and which nodes are subscribed to which topic."""
        return {
            "name": self.name,
            "type": self.type,
            "oi_span_type": self.oi_span_type.value,
            "max_buffered_events": self.max_buffered_events,
            "nodes": {name: node.to_dict() for name, node in self.nodes.items()},
            "topics": {name: topic.to_dict() for name, topic in self.topics.items()},
            "topic_nodes": {topic: list(names) for topic, names in self.topic_nodes.items()},
        }
