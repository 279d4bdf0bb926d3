"""Cancelled workflows: the lifecycle topic is read only when a handler asks, or when an event has waited long."""

from __future__ import annotations

import logging
from collections import OrderedDict
from threading import Lock
from typing import Final

from afl.core.clock import WallClock, epoch_ms
from afl_stream.transport import (
    Consumer,
    OffsetOutOfRange,
    Record,
    TopicPartition,
    Transport,
    TransportError,
)
from afl_stream.wire.codec import Codec
from afl_stream.wire.messages import CONTINUED, Event
from afl_stream.wire.run_milestones import RunTimes, milestone_of

log = logging.getLogger(__name__)

#: Milestones after which earlier events need no answer.
_ENDINGS: Final = frozenset({"workflow.cancelled", "workflow.reset", CONTINUED})
#: Age from which on an event is looked up before its handler gets it. A younger one is rarely cancelled, and an agent
#: that keeps up with its facets never reads the topic.
WAITED_MS: Final = 1_000
#: How long an answer to a handler's question stays valid.
_READ_AGAIN_S: Final = 0.5
#: Existing records of each partition that are read: they include a workflow that was cancelled while its events waited
#: in a queue, unless very many other records have followed.
_READ_BACK: Final = 10_000
#: Longest wait of the first question for the existing records, and records of one read.
_FIRST_WAIT_S: Final = 2.0
_MOST_RECORDS: Final = 1_000
_POLL_S: Final = 0.05
#: How long an error is left alone.
_AFTER_ERROR_S: Final = 30.0
#: Workflows that are remembered.
_REMEMBERED: Final = 10_000


class Cancellations:
    """Follows the lifecycle topic for one agent and its handlers. Any thread may call this.

    The consumer is created at the first question. An agent that may not read the topic handles every event, as if no
    workflow were cancelled: its answers then come late, which does no harm.
    """

    def __init__(self, transport: Transport, codec: Codec, topic: str, *, now_ms: WallClock = epoch_ms) -> None:
        self._transport = transport
        self.now_ms = now_ms
        self._codec = codec
        self._topic = topic
        self._lock = Lock()
        self._consumer: Consumer | None = None
        self._is_closed = False
        self._next_s = 0.0
        #: Whether an error was logged that is not over.
        self._is_reported = False
        self._ended = RunTimes(_REMEMBERED)
        #: Runs whose skipped events were logged, once for each.
        self._skipped: OrderedDict[str, None] = OrderedDict()

    def knows_any(self, now_s: float) -> bool:
        """Return whether any run is known to be cancelled, reset or continued as new. `now_s` is monotonic."""
        with self._lock:
            self._keep_up(now_s)
            return bool(self._ended)

    def skips(self, event: Event, now_s: float) -> bool:
        """Return whether to skip an event: its run was cancelled or reset, or continued as new. Logs once for each run.

        The age of an event only decides whether to look it up. With a wrong clock an event looks too old or comes from
        the future, and is looked up.
        """
        if -WAITED_MS < self.now_ms() - event.created_at < WAITED_MS or not self.has_cancelled(event, now_s):
            return False
        self.tell_skipped(event.workflow_id)
        return True

    def tell_skipped(self, workflow_id: str) -> None:
        """Log once that events of a run are skipped."""
        with self._lock:
            is_first = workflow_id not in self._skipped
            self._skipped[workflow_id] = None
            if len(self._skipped) > _REMEMBERED:
                self._skipped.popitem(last=False)
        if is_first:
            log.info("run %s was cancelled or reset, or continued as new: its earlier events are skipped", workflow_id)

    def has_cancelled(self, event: Event, now_s: float) -> bool:
        """Return whether the workflow was cancelled or reset, or continued as new, after this event was sent.

        `now_s` is monotonic.
        """
        with self._lock:
            self._keep_up(now_s)
            return self._ended.came_after(event)

    def close(self) -> None:
        """Stop reading."""
        with self._lock:
            self._is_closed = True
            consumer, self._consumer = self._consumer, None
            if consumer is not None:
                consumer.close()

    def _keep_up(self, now_s: float) -> None:
        if now_s >= self._next_s and not self._is_closed:
            self._next_s = now_s + _READ_AGAIN_S
            self._read(now_s)

    def _read(self, now_s: float) -> None:
        try:
            if self._consumer is None:
                self._consumer = self._caught_up()
                return
            while len(records := self._consumer.consume(_MOST_RECORDS, 0.0)) == _MOST_RECORDS:
                self._note(records)
            self._note(records)
            self._is_reported = False
        except OffsetOutOfRange as error:
            assert self._consumer is not None
            self._consumer.seek(error.partition, self._consumer.watermarks(error.partition).low)
        except TransportError as error:
            self._next_s = now_s + _AFTER_ERROR_S
            if not self._is_reported:
                log.warning(
                    "the lifecycle topic cannot be read now, so events of cancelled runs are handled too: %s", error
                )
            self._is_reported = True

    def _caught_up(self) -> Consumer:
        """Return a consumer of the topic that has read all that was there when it began."""
        consumer = self._transport.consumer(None)
        try:
            admin = self._transport.admin()
            found = admin.topics([self._topic]).get(self._topic)
            if found is None:
                # Only here: an agent loads no module that it does not need.
                from afl_stream.acls import unlisted

                raise unlisted(admin, self._topic)
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
            milestone = milestone_of(record, self._codec, _ENDINGS)
            if milestone is not None:
                self._ended.note(milestone)
