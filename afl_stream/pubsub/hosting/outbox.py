"""Producing from an event loop: a bounded number of records without acknowledgement, and who waits for which."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Event, Thread
from typing import Final

from afl.core.backoff import Backoff, FailedAttempts
from afl.core.text.exception_text import exception_line
from afl_stream.pubsub.errors import PubSubError
from afl_stream.pubsub.hosting.records import Outgoing
from afl_stream.transport import (
    BrokerUnavailable,
    Producer,
    QueueFull,
    RecordTooLarge,
    TopicPartition,
    TransportError,
)

_log = logging.getLogger(__name__)

#: How long one wait for acknowledgements lasts. A new record does not wait for it to end.
_POLL_S: Final = 0.1
#: The waits while the client library has no room.
_FULL: Final = Backoff(0.01, 0.5)
#: How long closing waits for what is on its way.
_LAST_FLUSH_S: Final = 1.0


class OutboxClosed(PubSubError):
    """What was to be produced has no acknowledgement, and gets none: the broker may have it, or not."""

    def __init__(self) -> None:
        super().__init__("closed before every record was acknowledged: the broker may have those records, or not")


class Receipts:
    """The acknowledgements that one party waits for. Belongs to the event loop."""

    def __init__(self) -> None:
        self.pending = 0
        #: By topic of the cluster, the offset of the last record that was acknowledged.
        self.offsets: dict[str, int] = {}
        self._error: Exception | None = None
        #: Why nothing more is acknowledged: everybody hears of that.
        self._end: Exception | None = None
        self._waiters: list[asyncio.Future[None]] = []

    async def all(self) -> None:
        """Return when everything that was produced is acknowledged.

        Raises what a delivery failed with, once, and what ended the outbox before that.
        """
        if self.pending:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        if self._end is not None:
            raise self._end
        error, self._error = self._error, None
        if error is not None:
            raise error

    def settle(self, topic: str, offset: int, error: Exception | None) -> None:
        """Note that a record was delivered, or why it was not."""
        self.pending -= 1
        if error is None:
            self.offsets[topic] = offset
        else:
            self._error = error
        if not self.pending:
            self._wake()

    def give_up(self, error: Exception) -> None:
        """Note that nothing more will be acknowledged."""
        self.pending = 0
        self._end = error
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class Outbox:
    """Produces records for tasks of one event loop. A thread of its own waits for the acknowledgements.

    `limit`: records without acknowledgement; a task that produces one more waits. A record that the broker was away for
    is produced again until it is acknowledged: its reader knows it by its event's id. `on_fatal` is called on the loop
    with an error that no further attempt mends; who waits for an acknowledgement, or for room, gets that error too.
    """

    def __init__(self, producer: Producer, limit: int, on_fatal: Callable[[BaseException], None]) -> None:
        self._producer = producer
        self._limit = limit
        self._on_fatal = on_fatal
        self._loop = asyncio.get_running_loop()
        self._unacknowledged = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._delivered: list[tuple[Receipts, Outgoing, int, Exception | None]] = []
        #: Those that have records without acknowledgement: they hear of the end.
        self._unsettled: set[Receipts] = set()
        #: Why nothing is acknowledged any more.
        self._end: Exception | None = None
        #: Set while anything is without acknowledgement, and at the end.
        self._needed = Event()
        self._is_closing = False
        self._thread = Thread(target=self._acknowledge, name="afl-pubsub-outbox", daemon=True)
        self._thread.start()

    @property
    def unacknowledged(self) -> int:
        """The number of records without acknowledgement."""
        return self._unacknowledged

    async def produce(self, outgoing: Outgoing, receipts: Receipts) -> None:
        """Produce a record as soon as there is room.

        Raises UnknownTopic and RecordTooLarge, OutboxClosed from the call of `close` on, and what ended this.
        """
        self._check_open()
        while self._unacknowledged >= self._limit:
            room = self._loop.create_future()
            self._waiting.append(room)
            try:
                await room
            except asyncio.CancelledError:
                # It was this one's turn: the next one may go instead, and no acknowledgement may come to say so.
                if not room.cancelled():
                    self._let_in(1)
                raise
            self._check_open()
        attempts = FailedAttempts(_FULL)
        while True:
            try:
                self._produce(outgoing, receipts)
            except QueueFull:
                # Other producers of this process share the library's queue.
                await asyncio.sleep(attempts.next_wait_s())
                self._check_open()
            else:
                break
        receipts.pending += 1
        self._unsettled.add(receipts)
        self._unacknowledged += 1
        self._needed.set()

    def _check_open(self) -> None:
        if self._end is not None:
            raise self._end
        if self._is_closing:
            raise OutboxClosed

    def _produce(self, outgoing: Outgoing, receipts: Receipts) -> None:
        self._producer.produce(
            outgoing.topic,
            outgoing.value,
            key=outgoing.key,
            headers=outgoing.headers,
            on_delivery=partial(self._on_delivery, receipts, outgoing),
        )

    def _on_delivery(
        self,
        receipts: Receipts,
        outgoing: Outgoing,
        error: Exception | None,
        _partition: TopicPartition,
        offset: int,
    ) -> None:
        # Inside `poll`, and so on the thread below.
        self._delivered.append((receipts, outgoing, offset, error))

    def _acknowledge(self) -> None:
        try:
            while True:
                self._needed.wait()
                if self._is_closing:
                    return
                self._producer.poll(_POLL_S)
                if self._delivered:
                    delivered, self._delivered = self._delivered, []
                    self._loop.call_soon_threadsafe(self._settle, delivered)
        except BaseException as error:  # noqa: BLE001 - the owner ends with it: a thread cannot raise it where it counts
            # A loop that is closed went without closing this.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._fail, error)

    def _settle(self, delivered: list[tuple[Receipts, Outgoing, int, Exception | None]]) -> None:
        if self._end is not None:
            return
        for receipts, outgoing, offset, error in delivered:
            if error is None or isinstance(error, RecordTooLarge):
                self._unacknowledged -= 1
                receipts.settle(outgoing.topic, offset, error)
                if not receipts.pending:
                    self._unsettled.discard(receipts)
            elif self._is_closing:
                """Without an acknowledgement: see `close`."""
            elif isinstance(error, BrokerUnavailable):
                self._again(outgoing, receipts)
            else:
                self._fail(error)
                return
        if not self._unacknowledged and not self._is_closing:
            self._needed.clear()
        self._let_in(self._limit - self._unacknowledged)

    def _let_in(self, room: int) -> None:
        while self._waiting and room > 0:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                room -= 1

    def _again(self, outgoing: Outgoing, receipts: Receipts) -> None:
        if self._is_closing or self._end is not None:
            return
        try:
            self._produce(outgoing, receipts)
        except QueueFull:
            self._loop.call_later(_FULL.longest_s, self._again, outgoing, receipts)
        except Exception as error:  # noqa: BLE001 - the same
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._on_fatal(error)
        self._give_up(error if isinstance(error, Exception) else OutboxClosed())

    def _give_up(self, error: Exception) -> None:
        """Tell all who wait that nothing more is acknowledged."""
        self._end = self._end or error
        unsettled, self._unsettled = self._unsettled, set()
        for receipts in unsettled:
            receipts.give_up(self._end)
        self._let_in(len(self._waiting))

    async def close(self, *, is_dead: bool = False) -> None:
        """End the thread and close the producer; `is_dead`: as a killed process does, without it.

        From its call on nothing is produced. What the last flush acknowledges counts; who waits for anything else gets
        OutboxClosed.
        """
        self._is_closing = True
        self._let_in(len(self._waiting))
        self._needed.set()
        try:
            await asyncio.to_thread(self._thread.join)
            if not is_dead:
                await asyncio.to_thread(self._close_producer)
                delivered, self._delivered = self._delivered, []
                self._settle(delivered)
        finally:
            self._give_up(OutboxClosed())

    def _close_producer(self) -> None:
        try:
            self._producer.flush(_LAST_FLUSH_S)
        except TransportError as error:
            _log.warning("not everything that was produced is acknowledged: %s", exception_line(error))
        finally:
            self._producer.close()
