"""The topics of one request: their events in order, and how far each consumer is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from afl.core.row_maker import row_maker
from afl_stream.pubsub.model.events import OutputTopicEvent, PublishToTopicEvent, TopicEvent
from afl_stream.pubsub.model.topics import InWorkflowOutputTopic, OutputTopic, Topic

_published = row_maker(
    PublishToTopicEvent,
    "event_id",
    "assistant_request_id",
    "name",
    "offset",
    "data",
    "publisher_name",
    "publisher_type",
    "consumed",
    "timestamp_ms",
)
_output = row_maker(
    OutputTopicEvent,
    "event_id",
    "assistant_request_id",
    "name",
    "offset",
    "data",
    "publisher_name",
    "publisher_type",
    "consumed",
    "timestamp_ms",
)


class Cursor:
    """How far one consumer is on one topic: the offsets up to which it has taken events, and is finished with them."""

    __slots__ = ("committed", "consumed", "consumer", "log")

    def __init__(self, log: TopicLog, consumer: str) -> None:
        self.log = log
        self.consumer = consumer
        self.consumed = 0
        self.committed = 0

    def take(self, max_events: int | None = None) -> Sequence[TopicEvent]:
        """Return the events that the consumer has not taken, at most so many, and count them as taken."""
        log, start = self.log, self.consumed
        end = log.visible_end if max_events is None else min(log.visible_end, start + max_events)
        self.consumed = end
        return log.events[start - log.first : end - log.first]


class TopicLog:
    """One topic of one request.

    An event is made with the offset `end`, and is seen from `publish` on, which comes after it is stored. An
    event that every consumer has committed is let go; without a consumer that is at once.
    """

    __slots__ = ("cursors", "end", "events", "first", "floor", "make", "name", "room_end", "topic", "visible_end")

    def __init__(self, topic: Topic, consumers: Iterable[str], max_lag: int) -> None:
        self.topic = topic
        self.name = topic.name
        #: Makes an event of this topic from all values of its fields, in their order.
        self.make: Callable[[Iterable[Any]], TopicEvent] = (
            _output if isinstance(topic, OutputTopic | InWorkflowOutputTopic) else _published
        )
        self.cursors = {consumer: Cursor(self, consumer) for consumer in consumers}
        #: The events from offset `first` on; `visible_end` is the offset behind the last.
        self.events: list[TopicEvent] = []
        self.first = 0
        self.visible_end = 0
        #: The offset of the next event to be made; those before it may not be stored yet.
        self.end = 0
        #: Up to here every consumer has committed.
        self.floor = 0
        #: A publisher whose event would have this offset waits for room: the floor and the most that a consumer may
        #: lag, less the room that is granted and not used yet.
        self.room_end = max_lag

    def is_full(self) -> bool:
        """Say whether a publisher has to wait for room."""
        return self.end >= self.room_end

    def publish(self, event: TopicEvent) -> None:
        """Show an event to the consumers. It is stored, and its offset is the next."""
        self.visible_end += 1
        if self.cursors:
            self.events.append(event)
        else:
            self.room_end += 1
            self.first = self.floor = self.visible_end

    def can_consume(self, consumer: str) -> bool:
        """Say whether there are events that a consumer has not taken."""
        return self.cursors[consumer].consumed < self.visible_end

    def consume(self, consumer: str, max_events: int | None = None) -> Sequence[TopicEvent]:
        """Return the events that a consumer has not taken, at most so many, and count them as taken."""
        return self.cursors[consumer].take(max_events)

    def commit(self, consumer: str, offset: int) -> None:
        """Note that a consumer is finished with everything up to this offset. What nobody needs is let go."""
        cursor = self.cursors[consumer]
        cursor.committed = max(cursor.committed, offset + 1)
        cursor.consumed = max(cursor.consumed, cursor.committed)
        self.trim()

    def trim(self) -> None:
        """Let go what every consumer has committed."""
        floor = min([cursor.committed for cursor in self.cursors.values()])
        if floor > self.floor:
            self.room_end += floor - self.floor
            del self.events[: floor - self.first]
            self.first = self.floor = floor

    def restore(self, event: TopicEvent) -> None:
        """Put a stored event back."""
        self.end = event.offset + 1
        self.publish(event)

    def __repr__(self) -> str:
        return f"<TopicLog {self.name}: {len(self.events)} events from offset {self.first}>"
