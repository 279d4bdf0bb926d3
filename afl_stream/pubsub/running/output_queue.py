"""The output of a request: the events of its output topics as one stream, in the order in which they were stored."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, Protocol

from afl_stream.pubsub.model.events import ConsumeFromTopicEvent, TopicEvent
from afl_stream.pubsub.running.node_runner import taken_by
from afl_stream.pubsub.running.topic_log import Cursor, TopicLog


class AsyncOutputQueue:
    """The output topics of a request, merged for one consumer: the caller."""

    def __init__(self, logs: Iterable[TopicLog], consumer: str, consumer_type: str) -> None:
        self._cursors: dict[str, Cursor] = {log.name: log.cursors[consumer] for log in logs}
        #: The names of the output topics.
        self.topics: Final = frozenset(self._cursors)
        self._consumer = consumer
        self._consumer_type = consumer_type
        # One entry for each event that was not taken.
        self._order: deque[Cursor] = deque()

    def has_events(self) -> bool:
        """Say whether there are events that the caller has not taken."""
        return bool(self._order)

    def add(self, topic: str) -> None:
        """Note that an event has come to an output topic."""
        self._order.append(self._cursors[topic])

    def restore(self, events: Iterable[TopicEvent]) -> None:
        """Note the events that stand on output topics, in their order, but for those that the caller has committed."""
        for event in events:
            if event.offset >= self._cursors[event.name].committed:
                self.add(event.name)

    def take(self) -> tuple[Cursor, ConsumeFromTopicEvent] | None:
        """Return the next event, taken by the caller, and the cursor to commit it at. None when there is none."""
        if not self._order:
            return None
        cursor = self._order.popleft()
        (event,) = taken_by(cursor.take(1), self._consumer, self._consumer_type)
        return cursor, event


class Producing(Protocol):
    """What makes the output: the run."""

    def is_idle(self) -> bool:
        """Say whether nothing can go on."""

    def raise_failure(self) -> None:
        """Raise what has ended it, if anything has."""

    async def until_news(self) -> None:
        """Wait until there may be output, nothing can go on, or it has failed."""


class MergeIdleQueue:
    """The events of an output queue as they come, until the queue is empty and nothing that makes output can go on."""

    def __init__(self, queue: AsyncOutputQueue, run: Producing) -> None:
        self._queue = queue
        self._run = run

    def __aiter__(self) -> MergeIdleQueue:
        return self

    async def __anext__(self) -> tuple[Cursor, ConsumeFromTopicEvent]:
        while True:
            # Before an event is taken: it would be committed, and not yielded.
            self._run.raise_failure()
            taken = self._queue.take()
            if taken is not None:
                return taken
            if self._run.is_idle():
                raise StopAsyncIteration
            await self._run.until_news()
