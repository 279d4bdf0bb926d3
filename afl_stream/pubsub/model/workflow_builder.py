"""The builder of workflows, call by call."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from afl_stream.pubsub.errors import WorkflowInvalid
from afl_stream.pubsub.model.definition import DEFAULT_MAX_BUFFERED_EVENTS, DEFAULT_NAME, WorkflowDefinition
from afl_stream.pubsub.model.names import described
from afl_stream.pubsub.model.nodes import Node, NodeBuilder
from afl_stream.pubsub.model.span_kinds import OpenInferenceSpanKindValues
from afl_stream.pubsub.model.spans import NO_SPANS, Spans
from afl_stream.pubsub.model.topics import Topic

W_co = TypeVar("W_co", covariant=True)
S_contra = TypeVar("S_contra", contravariant=True)


class WorkflowConstructor(Protocol[W_co, S_contra]):
    """What makes the workflow of a definition: the class EventDrivenWorkflow."""

    def __call__(self, definition: WorkflowDefinition, *, event_store: S_contra | None) -> W_co: ...


W = TypeVar("W")
S = TypeVar("S")


class WorkflowBuilder(Generic[W, S]):
    """Builds one workflow, call by call. `build` tells everything that is wrong at once."""

    def __init__(self, constructor: WorkflowConstructor[W, S], type: str = DEFAULT_NAME) -> None:
        self._constructor = constructor
        self._name = DEFAULT_NAME
        self._type = type
        self._span_type = OpenInferenceSpanKindValues.AGENT
        self._nodes: list[Node] = []
        self._topics: list[Topic] = []
        self._faults: list[str] = []
        self._event_store: S | None = None
        self._max_buffered_events = DEFAULT_MAX_BUFFERED_EVENTS
        self._spans = NO_SPANS

    def name(self, name: str) -> WorkflowBuilder[W, S]:
        """Set the name: requests are stored under it, and on Kafka it is part of the topics' names."""
        self._name = name
        return self

    def type(self, type: str) -> WorkflowBuilder[W, S]:
        """Set the type, a word of the program's own that spans carry."""
        self._type = type
        return self

    def oi_span_type(self, kind: OpenInferenceSpanKindValues) -> WorkflowBuilder[W, S]:
        """Set the kind of the workflow's spans."""
        self._span_type = kind
        return self

    def node(self, node: Node | NodeBuilder) -> WorkflowBuilder[W, S]:
        """Add a node."""
        built: object = node.build() if isinstance(node, NodeBuilder) else node
        if isinstance(built, Node):
            self._nodes.append(built)
        else:
            self._faults.append(f"node(...) is given {described(built)}; it takes a Node, or its builder")
        return self

    def topic(self, topic: Topic) -> WorkflowBuilder[W, S]:
        """Declare a topic that nodes name in texts only."""
        declared: object = topic
        if isinstance(declared, Topic):
            self._topics.append(declared)
        else:
            self._faults.append(f"topic(...) is given {described(declared)}; it takes a Topic, InputTopic, OutputTopic")
        return self

    def event_store(self, store: S) -> WorkflowBuilder[W, S]:
        """Set where the events of requests are stored; without one they are kept in memory."""
        self._event_store = store
        return self

    def max_buffered_events(self, count: int) -> WorkflowBuilder[W, S]:
        """Set by how many events the slowest consumer of a topic may lag before a publisher waits."""
        self._max_buffered_events = count
        return self

    def spans(self, spans: Spans) -> WorkflowBuilder[W, S]:
        """Set what traces the requests: a `Tracing`. Without one there are no spans."""
        self._spans = spans
        return self

    def build(self) -> W:
        """Return the workflow. Raises WorkflowInvalid with every fault."""
        if self._faults:
            # Without what these calls were to add, most of what else would be found is wrong.
            raise WorkflowInvalid(str(self._name), tuple(self._faults))
        definition = WorkflowDefinition.of(
            name=self._name,
            nodes=self._nodes,
            topics=self._topics,
            type=self._type,
            oi_span_type=self._span_type,
            max_buffered_events=self._max_buffered_events,
            spans=self._spans,
        )
        return self._constructor(definition, event_store=self._event_store)
