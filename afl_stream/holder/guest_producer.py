"""Writing as a guest: records gather, a thread sends them, and the holder's answer says that they are on disk."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from threading import Condition, Thread
from typing import Any, Final, NamedTuple

from afl.core.backoff import Backoff, FailedAttempts
from afl_stream.holder import contents
from afl_stream.holder.error_forms import error_in
from afl_stream.holder.frames import MAX_BODY_BYTES, MAX_HEAD_BYTES
from afl_stream.holder.link import Link
from afl_stream.transport import (
    BrokerUnavailable,
    DeliveryCallback,
    Headers,
    QueueFull,
    RecordTooLarge,
    TopicPartition,
    TransportError,
)

_log = logging.getLogger(__name__)

#: Records of one producer whose delivery was not reported yet.
QUEUE_LIMIT: Final = 100_000
#: Records, and about how many bytes of them, in one request.
_BATCH_RECORDS: Final = 1_000
_BATCH_BYTES: Final = 4 * 1024 * 1024
#: How long a record may wait for a holder before it fails; Kafka's clients give it about as long.
DELIVERY_TIMEOUT_S: Final = 120.0
#: How long closing a producer waits for its records, with and without a holder.
_CLOSE_TIMEOUT_S: Final = 30.0
_CLOSE_TIMEOUT_AWAY_S: Final = 2.0
_BACKOFF: Final = Backoff(first_s=0.05, longest_s=1.0)


class _Queued(NamedTuple):
    record: contents.NewRecord
    on_delivery: DeliveryCallback | None
    deadline_s: float


class GuestProducer:
    """A producer through the holder's socket; see the Producer port.

    A batch whose answer did not come is sent again to the next holder, in the same order. If the one that died had
    written it already, its records are there twice, as after any crash between a write and its acknowledgement.
    """

    def __init__(
        self,
        link: Link,
        on_close: Callable[[GuestProducer], None],
        *,
        delivery_timeout_s: float = DELIVERY_TIMEOUT_S,
        queue_limit: int = QUEUE_LIMIT,
    ) -> None:
        self._link = link
        self._on_close = on_close
        self._delivery_timeout_s = delivery_timeout_s
        self._queue_limit = queue_limit
        self._changed = Condition()
        self._queued: deque[_Queued] = deque()
        #: Records that a request carries now.
        self._sent = 0
        self._finished: deque[tuple[DeliveryCallback, Exception | None, TopicPartition, int]] = deque()
        self._is_away = False
        self._closed = False
        self._thread: Thread | None = None

    def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> None:
        """Queue a record; see the port. A topic that does not exist is reported by the delivery.

        Raises RecordTooLarge for what no request carries, and QueueFull.
        """
        record = contents.NewRecord(topic, partition, key, value, headers)
        names = sum(len(name) for name, _ in headers)
        if record.size > MAX_BODY_BYTES or 6 * names > MAX_HEAD_BYTES // 2:
            raise RecordTooLarge(topic, record.size + names, MAX_BODY_BYTES)
        with self._changed:
            if self._closed:
                raise TransportError("this producer is closed")
            if self._waiting() >= self._queue_limit:
                raise QueueFull(f"{self._queue_limit:,} records wait for their delivery to be reported; call poll")
            self._queued.append(_Queued(record, on_delivery, time.monotonic() + self._delivery_timeout_s))
            if self._thread is None:
                self._thread = Thread(target=self._send_all, name="guest-producer", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _waiting(self) -> int:
        return len(self._queued) + self._sent + len(self._finished)

    def poll(self, timeout_s: float = 0.0) -> int:
        deadline_s = time.monotonic() + timeout_s
        while True:
            ran = self._run_callbacks()
            left_s = deadline_s - time.monotonic()
            if ran or left_s <= 0:
                return ran
            with self._changed:
                if not self._finished:
                    if self._closed:
                        return 0
                    self._changed.wait(left_s)

    def flush(self, timeout_s: float) -> int:
        deadline_s = time.monotonic() + timeout_s
        while True:
            self._run_callbacks()
            with self._changed:
                waiting, left_s = self._waiting(), deadline_s - time.monotonic()
                if not waiting or left_s <= 0:
                    return waiting
                if not self._finished:
                    self._changed.wait(left_s)

    def _run_callbacks(self) -> int:
        """Run the callbacks that are due, on this thread, without the lock: callbacks may produce."""
        ran = 0
        for _ in range(len(self._finished)):
            try:
                callback, error, partition, offset = self._finished.popleft()
            except IndexError:
                break  # Another thread took the last one.
            callback(error, partition, offset)
            ran += 1
        return ran

    # The thread that sends

    def _send_all(self) -> None:
        attempts = FailedAttempts(_BACKOFF)
        while True:
            with self._changed:
                while not self._queued and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                batch = self._next_batch()
                self._sent = len(batch)
            try:
                outcomes = self._send(batch)
            except TransportError as error:
                self._put_back(batch, error)
                with self._changed:
                    if not self._closed:
                        self._changed.wait_for(lambda: self._closed, attempts.next_wait_s())
                continue
            attempts.reset()
            with self._changed:
                self._sent, self._is_away = 0, False
                for queued, outcome in zip(batch, outcomes, strict=True):
                    self._settle(queued, outcome)
                self._changed.notify_all()

    def _next_batch(self) -> list[_Queued]:
        """Take records for one request: at least one, and no more than it may carry."""
        batch: list[_Queued] = []
        size = 0
        while self._queued and len(batch) < _BATCH_RECORDS:
            size += self._queued[0].record.size
            if batch and size > _BATCH_BYTES:
                break
            batch.append(self._queued.popleft())
        return batch

    def _send(self, batch: list[_Queued]) -> list[Any]:
        self._link.connect()
        body = contents.Bytes()
        head = {"do": "produce", "records": contents.new_records_out([queued.record for queued in batch], body)}
        found: list[Any] = self._link.request(head, body.joined()).head["ok"]
        return found

    def _put_back(self, batch: list[_Queued], error: TransportError) -> None:
        """Keep a batch that was not answered for the next attempt, but for what has waited too long."""
        now_s = time.monotonic()
        is_away = isinstance(error, BrokerUnavailable)
        with self._changed:
            self._sent = 0
            if is_away and not self._is_away:
                _log.debug("records wait for a holder: %s", error)
            self._is_away = is_away
            kept = [queued for queued in batch if is_away and queued.deadline_s > now_s]
            for queued in batch[: len(batch) - len(kept)]:
                late = BrokerUnavailable(f"{error}; not delivered in {self._delivery_timeout_s:g} s")
                self._finish(queued, late if is_away else error, queued.record.partition, -1)
            self._queued.extendleft(reversed(kept))
            self._changed.notify_all()

    def _settle(self, queued: _Queued, outcome: Any) -> None:
        if isinstance(outcome, dict):
            self._finish(queued, error_in(outcome["error"]), queued.record.partition, -1)
        else:
            partition, offset = outcome
            self._finish(queued, None, partition, offset)

    def _finish(self, queued: _Queued, error: Exception | None, partition: int | None, offset: int) -> None:
        if queued.on_delivery is not None:
            where = TopicPartition(queued.record.topic, -1 if partition is None else partition)
            self._finished.append((queued.on_delivery, error, where, offset))

    # Its end

    def close(self) -> None:
        if self._closed:
            return
        if self._queued or self._sent or self._finished:
            self.flush(_CLOSE_TIMEOUT_AWAY_S)
            if not self._is_away:
                self.flush(_CLOSE_TIMEOUT_S)
        self.abandon()

    def abandon(self) -> None:
        """Stop as a dying process does: records that were not sent are lost, and no callback runs."""
        with self._changed:
            self._closed = True
            self._queued.clear()
            self._changed.notify_all()
        thread = self._thread
        if thread is not None:
            thread.join(_CLOSE_TIMEOUT_AWAY_S)
        self._link.close()
        self._on_close(self)
