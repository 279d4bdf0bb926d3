"""The topics of a workflow as they are declared. What stands on one is kept for each request (running/topic_log.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from afl_stream.pubsub.errors import PubSubError
from afl_stream.pubsub.model.names import check_topic_name

if TYPE_CHECKING:
    from afl_stream.pubsub.model.expressions import TopicExpression


class JoinedByWords(PubSubError):
    """Topics or expressions are joined by Python's words: `a and b` would be b alone, and `a or b` a alone."""

    def __init__(self, found: object) -> None:
        super().__init__(f"{found} is neither true nor false; topics are joined by & and |, not by `and` and `or`")


#: Whether a topic takes what is published to it, by its data.
Condition: TypeAlias = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic between nodes. With a `condition` it takes only data for which that holds; other data is left out.

    `a & b` and `a | b` are the subscriptions to both, and to either. Raises BadTopicName for a name that Kafka refuses.
    """

    type: ClassVar[str] = "Topic"

    name: str
    condition: Condition | None = None

    def __post_init__(self) -> None:
        check_topic_name(self.name)

    def accepts(self, data: object) -> bool:
        """Return whether this data is published here."""
        return self.condition is None or self.condition(data)

    def __and__(self, other: Topic | TopicExpression) -> TopicExpression:
        # Expressions hold topics: their module imports this one.
        from afl_stream.pubsub.model.expressions import On

        return On(self) & other

    def __or__(self, other: Topic | TopicExpression) -> TopicExpression:
        from afl_stream.pubsub.model.expressions import On

        return On(self) | other

    def __bool__(self) -> bool:
        raise JoinedByWords(f"topic {self.name}")

    def to_dict(self) -> dict[str, object]:
        """Return the topic as JSON; of a condition only its name, since its code stays in the program."""
        return {"name": self.name, "type": self.type, "condition": condition_name(self.condition)}


@dataclass(frozen=True, slots=True)
class InputTopic(Topic):
    """A topic that the input of a request is published to."""

    type: ClassVar[str] = "InputTopic"


@dataclass(frozen=True, slots=True)
class OutputTopic(Topic):
    """A topic whose events are the workflow's output."""

    type: ClassVar[str] = "OutputTopic"


@dataclass(frozen=True, slots=True)
class InWorkflowInputTopic(Topic):
    """A topic that takes what a person or a program says in the middle of a request."""

    type: ClassVar[str] = "InWorkflowInputTopic"


@dataclass(frozen=True, slots=True)
class InWorkflowOutputTopic(Topic):
    """A topic that asks the caller in the middle of a request. `reply_to` is the topic that the answer goes to."""

    type: ClassVar[str] = "InWorkflowOutputTopic"

    reply_to: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return the topic as JSON, with the topic of the answers."""
        return {**Topic.to_dict(self), "reply_to": self.reply_to}


@dataclass(frozen=True, slots=True)
class NamedTopic(Topic):
    """A topic that a text names; the workflow puts the topic of that name in its place."""

    type: ClassVar[str] = "NamedTopic"


#: The spec's name of the base.
TopicBase = Topic


def condition_name(condition: Condition | None) -> str | None:
    """Return the name of a condition for people; None without one."""
    if condition is None:
        return None
    # A partial, or an object with __call__, has no name of its own.
    called = getattr(condition, "func", condition)
    return str(getattr(called, "__qualname__", type(called).__qualname__))
