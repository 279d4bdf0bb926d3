"""The events of a workflow: published to a topic, taken from it by a node, and yielded to the caller."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

from afl.core.row_maker import row_maker

#: Bytes of the digest in an event's id: two events of a request clash once in 10^19 requests of a million events.
_DIGEST_BYTES: Final = 16


class PublishToTopicEvent(NamedTuple):
    """An event as it stands on a topic.

    `name` is the topic; `offset` counts the topic's events of this request from 0. `consumed` names the events that the
    publishing node had taken when it made this one, as `topic:first-last` by their offsets for each topic; an input has
    none. `data` is a value of JSON. The id is derived from what made the event: a node that runs again after a crash
    makes the same ids.
    """

    event_id: str
    assistant_request_id: str
    name: str
    offset: int
    #: A value of JSON. Not `object`: nodes look into it.
    data: Any
    publisher_name: str = ""
    publisher_type: str = ""
    consumed: tuple[str, ...] = ()
    #: Milliseconds since the epoch.
    timestamp_ms: int = 0


class OutputTopicEvent(NamedTuple):
    """An event on an output topic, for the caller; the fields are those of PublishToTopicEvent."""

    event_id: str
    assistant_request_id: str
    name: str
    offset: int
    #: A value of JSON. Not `object`: nodes look into it.
    data: Any
    publisher_name: str = ""
    publisher_type: str = ""
    consumed: tuple[str, ...] = ()
    timestamp_ms: int = 0


class ConsumeFromTopicEvent(NamedTuple):
    """An event as a consumer takes it, a node or the caller.

    `event_id`, `name`, `offset` and `data` are those of the event on the topic. As a stored event it says that the
    consumer has finished with everything up to this offset, and carries no data.
    """

    event_id: str
    assistant_request_id: str
    name: str
    offset: int
    #: A value of JSON. Not `object`: nodes look into it.
    data: Any
    consumer_name: str = ""
    consumer_type: str = ""
    timestamp_ms: int = 0


#: Makes one of all of its values.
consumed_event: Final = row_maker(
    ConsumeFromTopicEvent,
    "event_id",
    "assistant_request_id",
    "name",
    "offset",
    "data",
    "consumer_name",
    "consumer_type",
    "timestamp_ms",
)

#: An event that stands on a topic.
TopicEvent: TypeAlias = PublishToTopicEvent | OutputTopicEvent
#: What is stored of a request, in this order.
StoredEvent: TypeAlias = PublishToTopicEvent | OutputTopicEvent | ConsumeFromTopicEvent


class EventIds:
    """The ids of the events that one publisher makes of the events that it has taken, one after the other."""

    __slots__ = ("_base", "_number")

    def __init__(self, request_id: str, publisher: str, consumed: tuple[str, ...] = (), number: int = 0) -> None:
        """Count from `number`: so many has the publisher made of them before."""
        # One digest for all of them: a node may take thousands of events, and make as many.
        self._base = blake2b("\0".join((request_id, publisher, *consumed)).encode(), digest_size=_DIGEST_BYTES)
        self._number = number

    def next_id(self, topic: str) -> str:
        """Return the id of the next one, which goes to this topic."""
        digest = self._base.copy()
        digest.update(f"\0{topic}\0{self._number}".encode())
        self._number += 1
        return digest.hexdigest()


def derived_event_id(request_id: str, publisher: str, topic: str, number: int, consumed: tuple[str, ...]) -> str:
    """Return the id of an event by what makes it.

    `number` counts what the publisher makes of these consumed events, over all of its topics. The form is the dedup key
    of repeated work: never change it.
    """
    return EventIds(request_id, publisher, consumed, number).next_id(topic)
