"""Which workflows were cancelled, for handlers that ask: read from the lifecycle topic, and only when somebody asks."""

from __future__ import annotations

import logging
from collections import OrderedDict
from threading import Lock
from typing import Final

from afl_stream.codec import Codec
from afl_stream.errors import StreamError
from afl_stream.messages import Event, Lifecycle
from afl_stream.transport import (
    Consumer,
    OffsetOutOfRange,
    Record,
    TopicPartition,
    Transport,
    TransportError,
    UnknownTopic,
)

log = logging.getLogger(__name__)

#: After these nobody waits for the answers to what was asked before.
_ENDINGS: Final = frozenset({"workflow.cancelled", "workflow.reset"})
#: How long what was read holds, when a handler asks again.
_READ_AGAIN_S: Final = 0.5
#: Records of each partition that are read of what was there before: a workflow that was cancelled while its events
#: waited in a queue is among them, unless very much else has happened since.
_READ_BACK: Final = 1_000
#: Longest wait of the first that asks, for what is there; and records of one reading.
_FIRST_WAIT_S: Final = 2.0
_MOST_RECORDS: Final = 1_000
_POLL_S: Final = 0.05
#: How long an error is left alone.
_AFTER_ERROR_S: Final = 30.0
#: Workflows that are remembered.
_REMEMBERED: Final = 10_000


class Cancellations:
    """
    Follows the lifecycle topic for the handlers of one agent. Any thread may ask.

    Nothing is read, and no consumer is made, before a handler asks. An agent that may not read the topic goes on
    without, and its handlers are told that nothing was cancelled: their answers come late, which does no harm.
    """

    def __init__(self, transport: Transport, codec: Codec, topic: str) -> None:
        self._transport = transport
        self._codec = codec
        self._topic = topic
        self._lock = Lock()
        self._consumer: Consumer | None = None
        self._is_closed = False
        self._next_s = 0.0
        #: Whether somebody was told of an error that is not over.
        self._is_told = False
        #: Workflow id to the time of its last ending, ms since the epoch.
        self._ended: OrderedDict[str, int] = OrderedDict()

    def has_cancelled(self, event: Event, now_s: float) -> bool:
        """Whether the event's workflow was cancelled or reset after this was asked. `now_s` is monotonic."""
        with self._lock:
            if now_s >= self._next_s and not self._is_closed:
                self._next_s = now_s + _READ_AGAIN_S
                self._read(now_s)
            return self._ended.get(event.workflow_id, -1) >= event.created_at

    def close(self) -> None:
        """Read no more."""
        with self._lock:
            self._is_closed = True
            consumer, self._consumer = self._consumer, None
            if consumer is not None:
                consumer.close()

    def _read(self, now_s: float) -> None:
        try:
            if self._consumer is None:
                self._consumer = self._caught_up()
                return
            while len(records := self._consumer.consume(_MOST_RECORDS, 0.0)) == _MOST_RECORDS:
                self._note(records)
            self._note(records)
            self._is_told = False
        except OffsetOutOfRange as error:
            assert self._consumer is not None
            self._consumer.seek(error.partition, self._consumer.watermarks(error.partition).low)
        except TransportError as error:
            self._next_s = now_s + _AFTER_ERROR_S
            if not self._is_told:
                log.warning("handlers cannot learn now whether their workflows were cancelled: %s", error)
            self._is_told = True

    def _caught_up(self) -> Consumer:
        """A consumer of the topic that has read what was there when it began."""
        consumer = self._transport.consumer(None)
        try:
            found = self._transport.admin().topics([self._topic]).get(self._topic)
            if found is None:
                raise UnknownTopic(self._topic)
            bounds = {
                (place := TopicPartition(self._topic, n)): consumer.watermarks(place) for n in range(found.partitions)
            }
            consumer.assign({place: max(at.low, at.high - _READ_BACK) for place, at in bounds.items()})
            self._read_up_to(consumer, {place: at.high for place, at in bounds.items() if at.high > at.low})
        except BaseException:
            consumer.close()
            raise
        return consumer

    def _read_up_to(self, consumer: Consumer, ends: dict[TopicPartition, int]) -> None:
        waits = int(_FIRST_WAIT_S / _POLL_S)
        while ends and waits:
            records = consumer.consume(_MOST_RECORDS, _POLL_S)
            self._note(records)
            ends = {place: end for place, end in ends.items() if consumer.position(place) < end}
            if not records:
                waits -= 1

    def _note(self, records: list[Record]) -> None:
        for record in records:
            try:
                milestone = self._codec.decode(record.value, record.headers)
            except StreamError:
                continue  # Of a newer release, or nobody's: it tells nothing here.
            if isinstance(milestone, Lifecycle) and milestone.kind in _ENDINGS:
                self._ended[milestone.workflow_id] = milestone.at
                self._ended.move_to_end(milestone.workflow_id)
                if len(self._ended) > _REMEMBERED:
                    self._ended.popitem(last=False)
