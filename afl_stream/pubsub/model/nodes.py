"""The nodes of a workflow: what each is subscribed to, what it does, and where it publishes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, field

from afl.core.handlers.retry import RetryRule
from afl.core.text.printable import printable
from afl_stream.pubsub.errors import PubSubError, listed_faults
from afl_stream.pubsub.model.commands import Command
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent
from afl_stream.pubsub.model.expressions import ExpressionInvalid, TopicExpression, all_of, extract_topics
from afl_stream.pubsub.model.function_command import FunctionCommand, call_fault, command_of
from afl_stream.pubsub.model.names import NODE_NAME, described, is_legal, is_node_name
from afl_stream.pubsub.model.span_kinds import OpenInferenceSpanKindValues
from afl_stream.pubsub.model.subscription_builder import SubscriptionBuilder
from afl_stream.pubsub.model.topics import Condition, NamedTopic, Topic, condition_name


class NodeInvalid(PubSubError):
    """A node is not built completely. `faults` has every fault that was found, each a sentence."""

    def __init__(self, node: str, faults: tuple[str, ...]) -> None:
        super().__init__(f"node {printable(node, 300)}:{listed_faults(faults)}")
        self.node = node
        self.faults = faults


@dataclass(frozen=True, slots=True)
class Destination:
    """A topic that a node publishes to; with a condition, only the data for which it holds."""

    topic: Topic
    condition: Condition | None = None

    @property
    def is_conditional(self) -> bool:
        """Whether a condition may leave data out: this one, or the topic's own."""
        return self.condition is not None or self.topic.condition is not None

    def accepts(self, data: object) -> bool:
        """Return whether this data goes there: by this condition and the topic's own."""
        return (self.condition is None or self.condition(data)) and self.topic.accepts(data)

    def to_dict(self) -> dict[str, object]:
        """Return the destination as JSON; of the condition only its name."""
        return {"topic": self.topic.name, "condition": condition_name(self.condition)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node. It runs when its subscription is met, with everything that its topics hold for it.

    `max_events`: how many events of each topic one run takes at most; None: all that are there. `retry`: whether and
    when a command that raised is tried again, before the request fails.
    """

    name: str
    command: Command
    subscription: TopicExpression
    destinations: tuple[Destination, ...] = ()
    max_events: int | None = None
    type: str = "Node"
    oi_span_type: OpenInferenceSpanKindValues = OpenInferenceSpanKindValues.CHAIN
    retry: RetryRule | None = None
    #: The topics of the subscription, in their order, each once.
    subscribed_topics: tuple[Topic, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "subscribed_topics", extract_topics(self.subscription))

    @classmethod
    def builder(cls) -> NodeBuilder:
        """Return a builder of one node."""
        return NodeBuilder()

    @property
    def command_name(self) -> str:
        """The name of the function or the class of the command, for people."""
        return self.command.name if isinstance(self.command, FunctionCommand) else type(self.command).__qualname__

    def can_invoke(self, has_events: Callable[[str], bool] | Collection[str]) -> bool:
        """Return whether the subscription is met, by which topics hold events for this node."""
        return self.subscription.is_met(has_events if callable(has_events) else has_events.__contains__)

    def invoke(self, context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> AsyncIterator[object]:
        """Run the command with the events that were taken, and yield the data of each event to publish."""
        return self.command.invoke(context, events)

    def to_dict(self) -> dict[str, object]:
        """Return the node as JSON. Of its command there is a name only: the code stays in the program."""
        return {
            "name": self.name,
            "type": self.type,
            "oi_span_type": self.oi_span_type.value,
            "command": self.command_name,
            "subscription": self.subscription.to_dict(),
            "publish_to": [destination.to_dict() for destination in self.destinations],
            "max_events": self.max_events,
            "retry": None if self.retry is None else type(self.retry).__qualname__,
        }


class NodeBuilder:
    """Builds one node, call by call. `build` tells everything that is missing or wrong at once.

    Topics may be given by their names: the workflow puts its topics of those names in their places.
    """

    def __init__(self) -> None:
        self._name: object = None
        self._type: str = "Node"
        self._span_type = OpenInferenceSpanKindValues.CHAIN
        self._command: object = None
        self._subscriptions: list[TopicExpression] = []
        self._destinations: list[Destination] = []
        self._max_events: int | None = None
        self._retry: RetryRule | None = None
        self._faults: list[str] = []

    def name(self, name: str) -> NodeBuilder:
        """Set the name; a workflow's nodes have different names."""
        self._name = name
        return self

    def type(self, type: str) -> NodeBuilder:
        """Set the type, a word of the program's own that events and spans carry."""
        self._type = type
        return self

    def oi_span_type(self, kind: OpenInferenceSpanKindValues) -> NodeBuilder:
        """Set the kind of the node's spans."""
        self._span_type = kind
        return self

    def command(self, command: object) -> NodeBuilder:
        """Set what the node does: a Command, or a function of the context and the events."""
        self._command = command
        return self

    def subscribe(self, subscription: Topic | TopicExpression | SubscriptionBuilder | str) -> NodeBuilder:
        """Subscribe to a topic or an expression: an object, a builder, or a text like `a & (b | c)`.

        Several calls are joined by AND.
        """
        try:
            self._subscriptions.append(SubscriptionBuilder().subscribed_to(subscription).build())
        except ExpressionInvalid as error:
            self._faults.append(str(error))
        return self

    def publish_to(self, topic: Topic | str, when: Condition | None = None) -> NodeBuilder:
        """Publish what the command yields to this topic too; with `when`, only the data for which it holds."""
        if isinstance(topic, str) and is_legal(topic):
            topic = NamedTopic(topic)
        if not isinstance(topic, Topic):
            found = printable(repr(topic), 100)
            self._faults.append(f"it publishes to {found}; publish_to takes a topic, or the name of one")
        elif when is not None and not callable(when):
            self._faults.append(
                f"its condition for {topic.name} is {described(when)}; when=... takes a function of the data"
            )
        else:
            self._destinations.append(Destination(topic, when))
        return self

    def max_events(self, count: int) -> NodeBuilder:
        """Bound how many events of each topic one run takes."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            self._faults.append(f"max_events is {count!r:.50}; a run takes 1 event of each topic or more")
        self._max_events = count
        return self

    def retry(self, policy: RetryRule) -> NodeBuilder:
        """Try a command that raised again, by this policy, before the request fails."""
        self._retry = policy
        return self

    def build(self) -> Node:
        """Return the node. Raises NodeInvalid with all that is missing or wrong."""
        name, command, faults = self._name, command_of(self._command), list(self._faults)
        if not is_node_name(name):
            found = "it has no name" if name in (None, "") else f"its name is {printable(repr(name), 100)}"
            faults.append(f"{found}; name(...) gives it one, {NODE_NAME}")
        shown = name if isinstance(name, str) and name.strip() else "without a name"
        if command is None:
            found = "it has no command" if self._command is None else f"its command is {described(self._command)}"
            faults.append(f"{found}; command(...) takes a function, or an object with invoke(context, events)")
        elif (fault := call_fault(command)) is not None:
            faults.append(fault)
        if not self._subscriptions and not self._faults:
            faults.append("it is subscribed to nothing; subscribe(...) takes a topic or an expression of topics")
        if faults or command is None:
            raise NodeInvalid(shown, tuple(faults))
        return Node(
            name=str(name),
            command=command,
            subscription=all_of(self._subscriptions),
            destinations=tuple(self._destinations),
            max_events=self._max_events,
            type=self._type,
            oi_span_type=self._span_type,
            retry=self._retry,
        )
