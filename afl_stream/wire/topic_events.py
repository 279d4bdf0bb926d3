"""The events of event-driven workflows, as they travel on a workflow's topics and on the topic of its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from afl.core.values import describe_value
from afl_stream.errors import Reason, Unreadable

#: An event stands on a topic.
PUBLISH: Final = "publish"
#: An event stands on an output topic, for the caller.
OUTPUT: Final = "output"
#: A consumer has finished with the events of a topic up to this offset.
CONSUME: Final = "consume"
#: Nothing but the request's status has changed. Only on the topic of the workflow's state.
STATUS: Final = "status"

_KINDS: Final = frozenset({PUBLISH, OUTPUT, CONSUME, STATUS})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEvent:
    """An event of a request to an event-driven workflow. `data` alone is enough: the record's key names the request.

    `topic` is the workflow's name of the topic, and `offset` counts its events of this request. The last four fields
    are for the topic of the workflow's state, which keeps all events of each request.
    """

    #: "": the record's topic, partition, offset and time give it one.
    id: str = ""
    #: "": the record's key says it.
    request_id: str = ""
    #: "": the one that the record stands on.
    topic: str = ""
    kind: str = PUBLISH
    offset: int = 0
    data: object = None
    #: The node that published it; of a `consume` the consumer.
    publisher: str = ""
    publisher_type: str = ""
    #: The events that the publisher had taken when it made this one, as `topic:first-last` by offsets; None: none.
    consumed: object = None
    #: The context of the request, a map; None: nothing is said about it.
    context: object = None
    #: When it was made, in milliseconds since the epoch.
    created_at: int | None = None
    #: Where the request stands.
    status: str | None = None
    #: The event's number among those of its request.
    number: int | None = None
    #: The number of the last event that was appended together with this one: they count when all of them are there.
    last: int | None = None
    #: The append before this one, as the keys of its records name it: one that follows another does not count.
    after: str | None = None


def check_topic_event(event: TopicEvent) -> None:
    """Raise Unreadable (WRONG_TYPE, NUMBER_OUT_OF_RANGE) for an event that says nothing which has a meaning."""
    if event.kind not in _KINDS:
        raise Unreadable(
            Reason.WRONG_TYPE, f"TopicEvent.kind: {event.kind[:40]!r} is none of {', '.join(sorted(_KINDS))}"
        )
    if event.offset < 0:
        raise Unreadable(Reason.NUMBER_OUT_OF_RANGE, f"TopicEvent.offset: {event.offset} is below 0")
    consumed = event.consumed
    if consumed is not None and not (isinstance(consumed, list) and all(isinstance(each, str) for each in consumed)):
        found = describe_value(consumed)
        raise Unreadable(Reason.WRONG_TYPE, f"TopicEvent.consumed: an array of Strings was expected, found {found}")
    if event.context is not None and not isinstance(event.context, dict):
        found = describe_value(event.context)
        raise Unreadable(Reason.WRONG_TYPE, f"TopicEvent.context: a map was expected, found {found}")
