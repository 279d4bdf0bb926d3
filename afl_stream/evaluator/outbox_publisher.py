"""The publisher of the outbox: it sends what was committed, and its rows are deleted when the broker has it."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from afl.core.clock import epoch_ns
from afl.core.probes import Probe, no_probe
from afl.core.process.long_waits import WAITS
from afl.core.text.warning_limits import LimitedLog
from afl.engine.model.store import Batch, OutboxRecord, Store, StoredOutboxRecord
from afl_stream.evaluator.pausing.held_events import HeldEvents
from afl_stream.tracing.evaluators import EvaluatorTracing
from afl_stream.transport import (
    BrokerUnavailable,
    NotAuthorized,
    Producer,
    QueueFull,
    RecordTooLarge,
    TopicPartition,
    UnknownTopic,
    flush_unless_stopped,
)
from afl_stream.wire.headers import unpacked

_log = logging.getLogger(__name__)

#: Errors that sending the record again does not overcome: the topic has to be changed.
_REFUSED = (UnknownTopic, RecordTooLarge, NotAuthorized)
#: Rows of one page of those whose pause is over.
_MOST_RELEASED = 1_000
#: Long enough for a broker that is only slow.
_QUEUE_TIMEOUT_S = 5.0


class _Sent:
    """The records of one commit that are being sent: their rows have numbers in sequence from `first`."""

    __slots__ = ("_publisher", "failed", "first", "last", "open", "records")

    def __init__(self, publisher: OutboxPublisher, first: int, records: Sequence[OutboxRecord]) -> None:
        self._publisher = publisher
        self.first, self.last = first, first + len(records) - 1
        self.records = records
        #: How many of them are not acknowledged yet.
        self.open = len(records)
        self.failed: list[StoredOutboxRecord] = []

    def delivered(self, index: int, error: Exception | None, _partition: TopicPartition, _offset: int) -> None:
        """Take in the broker's word on the record of this index."""
        self.open -= 1
        if error is not None or self._publisher.aside:
            self._publisher.reported(self, index, error)
        if not self.open:
            self._publisher.close(self)


class OutboxPublisher:
    """Publishes committed outbox records, in order.

    For each commit, in this order:
      1. produce its records (`publish`),
      2. note those that the broker has acknowledged (delivery callbacks, run by `settle`),
      3. delete their rows in the next batch's transaction (`take_published`).

    A crash after the commit and before 3 leaves rows that their lane's next owner publishes again, with the same ids.

    Rows of paused facets are not produced: they stay in the store, and only their numbers are remembered here. When the
    facet is resumed they are read and produced, page by page. A crash meanwhile leaves rows that are like any others.
    """

    def __init__(
        self,
        store: Store,
        producer: Producer,
        probe: Probe = no_probe,
        *,
        queue_timeout_s: float = _QUEUE_TIMEOUT_S,
        held_events: HeldEvents | None = None,
        tracing: EvaluatorTracing | None = None,
        broker: str = "the broker",
    ) -> None:
        """Take what publishing needs. `broker` is how messages call it.

        `queue_timeout_s` limits the wait for a full local queue; after it the broker counts as away. `held_events` says
        which records a pause holds back.
        """
        self._held_events = held_events
        #: Rows that a pause holds back: the lane of each, by sequence number.
        self._held: dict[int, str] = {}
        #: Whether a page of them was produced, and more of them may be.
        self.has_released = False
        self._queue_timeout_s = queue_timeout_s
        self._tracing = tracing
        self._store = store
        self._producer = producer
        self._probe = probe
        self._broker = broker
        self._acknowledged: list[tuple[int, int]] = []
        self._retries: deque[StoredOutboxRecord] = deque()
        #: The records sent and not all acknowledged yet, by the first sequence number.
        self._open: dict[int, _Sent] = {}
        #: Rows that no topic takes right now, by sequence number.
        self.aside: dict[int, StoredOutboxRecord] = {}
        self._warnings = LimitedLog(_log)
        #: Why the last record could not be handed over, while that lasts.
        self._away: BrokerUnavailable | None = None
        #: The versions of the pauses with which all held rows were looked at, and are being looked at, and how far.
        self._looked_with = self._looking_with = -1
        self._looked_up_to = 0

    @property
    def in_flight(self) -> int:
        """The number of records sent and not acknowledged yet, and of those that failed and wait to be sent again."""
        # A copy in one step: the watch of a shutdown asks from a signal handler.
        return sum(sent.open for sent in self._open.copy().values()) + len(self._retries)

    @property
    def has_published(self) -> bool:
        """Return whether rows wait to be deleted."""
        return bool(self._acknowledged)

    def holds(self, sequence: int) -> bool:
        """Return whether this row is being sent, or is published and about to be deleted."""
        return (
            any(sent.first <= sequence <= sent.last for sent in self._open.values())
            or any(first <= sequence <= last for first, last in self._acknowledged)
            or any(row.sequence == sequence for row in self._retries)
            or sequence in self.aside
            or sequence in self._held
        )

    def _under_way(self) -> set[int]:
        """Return the sequence numbers of all rows for which `holds` is true."""
        ranges = [*((sent.first, sent.last) for sent in self._open.values()), *self._acknowledged]
        sent = {sequence for first, last in ranges for sequence in range(first, last + 1)}
        return sent | {row.sequence for row in self._retries} | self.aside.keys() | self._held.keys()

    def undeliverable(self) -> Counter[str]:
        """Return the number of rows that wait for each topic that is missing, or too small for them."""
        # A copy in one step: health asks from a thread of its own.
        return Counter(row.record.topic for row in self.aside.copy().values())

    def retry_undeliverable(self) -> None:
        """Send again the records that no topic took: it may have been created or enlarged since."""
        for row in list(self.aside.values()):
            if row.sequence not in self._open:
                self._send_row(row)

    def publish(self, first_sequence: int, records: Sequence[OutboxRecord]) -> None:
        """Send the records of one commit, numbered from `first_sequence`; while the broker is away they wait here.

        The caller does not change `records` any more.
        """
        if not records:
            return
        if self._held_events is not None and self._held_events.is_active:
            self._publish_unheld(first_sequence, records)
            return
        sent = self._open[first_sequence] = _Sent(self, first_sequence, records)
        produce, delivered = self._producer.produce, sent.delivered
        self._probe("outbox.before_publish")
        began_ns = 0 if self._tracing is None else epoch_ns()
        for index, (_, topic, key, value, described) in enumerate(records):
            try:
                headers = unpacked(described)
                produce(topic, value, key=key, headers=headers, on_delivery=partial(delivered, index))
            except (QueueFull, BrokerUnavailable, *_REFUSED) as error:
                self._not_queued(sent, index, error)
            except BaseException:
                # These were never sent, so no callback will report them: the rows stay for the lane's next publisher.
                sent.open -= len(records) - index
                raise
        if self._tracing is not None:
            self._tracing.sent(records, began_ns)
        self._probe("outbox.published")

    # --- what a pause holds back --------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        """The number of rows that a pause holds back. Any thread may ask."""
        return len(self._held)

    def is_paused(self, record: OutboxRecord) -> bool:
        """Return whether a pause holds this record back now."""
        return self._held_events is not None and self._held_events.holds(record)

    def _publish_unheld(self, first_sequence: int, records: Sequence[OutboxRecord]) -> None:
        """Send the records of one commit but for those that a pause holds back."""
        self._probe("outbox.before_publish")
        for sequence, record in enumerate(records, first_sequence):
            self._send_row(StoredOutboxRecord(sequence, 0, record))
        self._probe("outbox.published")

    def release_held(self) -> None:
        """Send a page of the rows whose pause is over. Call it again while `has_released`."""
        self.has_released = False
        version = self._version_of_pauses()
        if version == self._looked_with or not self._held:
            self._looked_with = version
            return
        if version != self._looking_with:
            # A pause has changed: all rows are looked at again, from the first one.
            self._looking_with, self._looked_up_to = version, min(self._held) - 1
        if self.in_flight > _MOST_RELEASED:
            self.has_released = True
            return
        rows = self._store.outbox(after=self._looked_up_to, limit=_MOST_RELEASED)
        for row in rows:
            if row.sequence in self._held and not self.is_paused(row.record):
                del self._held[row.sequence]
                self._send_row(row)
        if len(rows) == _MOST_RELEASED:
            self._looked_up_to, self.has_released = rows[-1].sequence, True
        else:
            self._looked_with = version

    def _version_of_pauses(self) -> int:
        return -1 if self._held_events is None else self._held_events.version

    def let_go(self, lanes: Collection[str]) -> None:
        """Forget the rows of these lanes that a pause holds back: their next owner finds them in the store."""
        if self._held:
            self._held = {sequence: lane for sequence, lane in self._held.items() if lane not in lanes}

    def _send_row(self, row: StoredOutboxRecord) -> None:
        """Send one row on its own, unless a pause holds it back."""
        if self.is_paused(row.record):
            self._held[row.sequence] = row.record.lane
            return
        sent = self._open[row.sequence] = _Sent(self, row.sequence, [row.record])
        _, topic, key, value, described = row.record
        headers = unpacked(described)
        try:
            self._producer.produce(topic, value, key=key, headers=headers, on_delivery=partial(sent.delivered, 0))
        except (QueueFull, BrokerUnavailable, *_REFUSED) as error:
            self._not_queued(sent, 0, error)
        except BaseException:
            self._open.pop(row.sequence, None)
            raise
        if self._tracing is not None:
            self._tracing.sent([row.record], epoch_ns())

    def publish_stored(self, stored: Iterable[StoredOutboxRecord]) -> int:
        """Send rows read from the store, and return their number."""
        count = 0
        for row in stored:
            self._send_row(row)
            count += 1
        return count

    def publish_lanes(self, lanes: Iterable[str], timeout_s: float) -> int:
        """Send all that these lanes hold, wait until it is acknowledged, and delete the rows.

        A new owner does this before it reads. Records that no topic takes wait, and do not hold up the rest. Raises
        BrokerUnavailable when not all was acknowledged in time; called again, it sends nothing twice.
        """
        count, under_way = 0, self._under_way()
        for lane in lanes:
            after = 0
            while rows := self._store.outbox(lane=lane, after=after):
                self.publish_stored(row for row in rows if row.sequence not in under_way)
                count += len(rows)
                after = rows[-1].sequence
        if count:
            self._drain(timeout_s, flush_unless_stopped)
            self._probe("outbox.lanes_published")
            published = self.take_published()
            if published:
                self._store.commit_batch(Batch(published=published))
        return count

    def drain(self, timeout_s: float) -> None:
        """Wait until everything sent is acknowledged. Raises BrokerUnavailable when that takes too long."""
        self._drain(timeout_s, lambda producer, timeout_s: producer.flush(timeout_s))

    def _drain(self, timeout_s: float, flush: Callable[[Producer, float], int]) -> None:
        self.settle()
        with WAITS.on(f"{self._broker}: acknowledgements of {self.in_flight} outbox records"):
            remaining = flush(self._producer, timeout_s)
        if remaining or self._retries:
            count = remaining + len(self._retries)
            raise BrokerUnavailable(f"{count} outbox records were not acknowledged by {self._broker} in {timeout_s} s")

    def settle(self) -> None:
        """Take in acknowledgements, and send again what could not be delivered.

        Raises BrokerUnavailable while no record can even be queued: more records would only wait, too.
        """
        self._producer.poll(0)
        self._away = None
        for _ in range(len(self._retries)):
            self._send_row(self._retries.popleft())
        self._raise_away()

    def _raise_away(self) -> None:
        if self._away is not None:
            raise self._away

    def take_published(self) -> list[tuple[int, int]]:
        """Return the ranges of rows that are published, for the next batch to delete; adjacent ones are joined."""
        ranges, self._acknowledged = sorted(self._acknowledged), []
        joined: list[tuple[int, int]] = []
        for first, last in ranges:
            if joined and joined[-1][1] + 1 == first:
                joined[-1] = (joined[-1][0], last)
            else:
                joined.append((first, last))
        return joined

    def give_back(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Keep these ranges for the next batch: the batch that was to delete them was refused."""
        self._acknowledged.extend(ranges)

    def _not_queued(self, sent: _Sent, index: int, error: Exception) -> None:
        """Wait for room in the client's queue, or note that the record could not be handed over."""
        record = sent.records[index]
        if isinstance(error, QueueFull):
            deadline_s = time.monotonic() + self._queue_timeout_s
            while self._away is None and time.monotonic() < deadline_s:
                self._producer.poll(0.1)
                try:
                    self._producer.produce(
                        record.topic,
                        record.value,
                        key=record.key,
                        headers=unpacked(record.headers),
                        on_delivery=partial(sent.delivered, index),
                    )
                    return
                except QueueFull as still:
                    error = still
                except (BrokerUnavailable, *_REFUSED) as other:
                    error = other
                    break
        if isinstance(error, QueueFull):
            error = BrokerUnavailable(f"nothing is acknowledged: {error}")
        if isinstance(error, BrokerUnavailable):
            self._away = error
        sent.delivered(index, error, TopicPartition(record.topic, -1), -1)

    def reported(self, sent: _Sent, index: int, error: Exception | None) -> None:
        """Take in that a record failed, or that one which no topic took before has been delivered."""
        row = StoredOutboxRecord(sent.first + index, 0, sent.records[index])
        if isinstance(error, _REFUSED):
            # This must not stop all other workflows' events: the row waits, and a warning is logged.
            self._set_aside(row, error)
            return
        self.aside.pop(row.sequence, None)
        if error is not None:
            sent.failed.append(row)

    def close(self, sent: _Sent) -> None:
        """Take in that all records of one commit are reported."""
        self._open.pop(sent.first, None)
        if not sent.failed and not self.aside:
            self._acknowledged.append((sent.first, sent.last))
            return
        # Only delivered records may lose their rows; the rest is sent again, row by row.
        kept = {row.sequence for row in sent.failed} | self.aside.keys()
        self._acknowledged.extend((n, n) for n in range(sent.first, sent.last + 1) if n not in kept)
        self._retries.extend(sent.failed)

    def _set_aside(self, row: StoredOutboxRecord, error: Exception) -> None:
        if row.record.topic not in self.undeliverable():
            topic = row.record.topic
            self._warnings.error(f"records for {topic}", "outbox records for %s wait in the store: %s", topic, error)
        self.aside[row.sequence] = row
