"""The bounded buffer between the thread that reads and the event loop that delivers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from threading import Event
from typing import Final

from afl_stream.pubsub.subscriptions.acknowledgements import Acknowledgement
from afl_stream.pubsub.subscriptions.flows import END, NOTHING, Mark
from afl_stream.pubsub.subscriptions.group_subscription import Lot
from afl_stream.pubsub.subscriptions.message import Message, new_message
from afl_stream.pubsub.subscriptions.owned_partition import OwnedPartition
from afl_stream.transport import Record

#: Messages after which a loop that never waits lets the other tasks of its event loop run.
_YIELD_AFTER: Final = 500
#: Records that are read before the size of a record is known.
_FIRST_RECORDS: Final = 32


class Inbox:
    """Lots of records on their way from the reader's thread to the event loop's.

    The counts that each side has are written by that side alone, so no lock is needed: what is buffered is what was put
    minus what was taken. A lot counts as taken when its last message was.
    """

    def __init__(self, max_records: int, max_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._max_records, self._max_bytes = max_records, max_bytes
        self._lots: deque[Lot] = deque()
        self._put_records = self._put_bytes = 0
        #: The mean size of the records of the last lot.
        self._mean_bytes: int | None = None
        self._taken_records = self._taken_bytes = 0
        #: Set by the loop's side when there is room again; the reader waits for it.
        self.has_room = Event()
        self._is_awaited = False
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._is_waking = False
        self._error: BaseException | None = None
        #: Whether the error that ended the reading was raised to the program.
        self.has_raised = False
        self._is_ended = False
        self._current: Iterator[Record] = iter(())
        self._lot: Lot | None = None
        self._owned: OwnedPartition | None = None
        self._since_yield = 0
        #: The message that was taken last; see the Flow port.
        self.behind: Acknowledgement

    # The reader's side

    @property
    def buffered(self) -> int:
        """How many records were put and not taken."""
        return self._put_records - self._taken_records

    @property
    def buffered_bytes(self) -> int:
        """How many bytes they have."""
        return self._put_bytes - self._taken_bytes

    @property
    def is_full(self) -> bool:
        """Return whether nothing more may be read."""
        return self.buffered >= self._max_records or self.buffered_bytes >= self._max_bytes

    @property
    def is_half_empty(self) -> bool:
        """Return whether so much was taken that reading is worth while again."""
        return self.buffered * 2 <= self._max_records and self.buffered_bytes * 2 <= self._max_bytes

    def room(self, at_most: int) -> int:
        """Return how many records may be read now, by their number, and by their bytes if they are like the last."""
        room = min(self._max_records - self.buffered, at_most)
        if self._mean_bytes is None:
            room = min(room, _FIRST_RECORDS)
        else:
            room = min(room, (self._max_bytes - self.buffered_bytes) // self._mean_bytes)
        return max(1, room)

    def wait_for_room(self, timeout_s: float) -> bool:
        """Wait until it is half empty, and return whether it is."""
        self.has_room.clear()
        self._is_awaited = True
        # Asked after the flag is set: the loop's side looks at the flag after it has taken.
        if not self.is_half_empty and not self._is_ended:
            self.has_room.wait(timeout_s)
        self._is_awaited = False
        return self.is_half_empty

    def put(self, lots: Sequence[Lot]) -> None:
        """Add lots. Raises RuntimeError when the event loop is closed."""
        for lot in lots:
            self._put_records += len(lot.records)
            self._put_bytes += lot.size_bytes
            self._mean_bytes = max(1, lot.size_bytes // len(lot.records))
        self._lots.extend(lots)
        self._wake()

    def end(self, error: BaseException | None = None) -> None:
        """Note that nothing more comes, because of an error if one is given."""
        self._error, self._is_ended = error, True
        self._wake()

    def _wake(self) -> None:
        if self._waiters and not self._is_waking:
            # Once for all lots that come before the loop runs.
            self._is_waking = True
            self._loop.call_soon_threadsafe(self._arrived)

    # The event loop's side

    def _arrived(self) -> None:
        self._is_waking = False
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def take(self) -> Message | Mark:
        """Return the next message that is here; NOTHING when there is none, or other tasks are to have a turn."""
        for record in self._current:
            owned = self._owned
            if owned.is_lost:  # type: ignore[union-attr]  # there is one with records
                break
            self.behind = message = new_message((*record, owned))
            return message
        return self._take_of_next()

    def _take_of_next(self) -> Message | Mark:
        while True:
            if self._lot is not None:
                self._finish(self._lot)
            if not self._lots or self._since_yield >= _YIELD_AFTER:
                return NOTHING
            self._lot = lot = self._lots.popleft()
            self._owned, self._current = lot.owned, iter(lot.records)
            if not lot.owned.is_lost:
                self.behind = message = new_message((*next(self._current), lot.owned))
                return message

    def _finish(self, lot: Lot) -> None:
        self._lot, self._owned, self._current = None, None, iter(())
        self._taken_records += len(lot.records)
        self._taken_bytes += lot.size_bytes
        self._since_yield += len(lot.records)
        if self._is_awaited and self.is_half_empty:
            self.has_room.set()

    async def next(self, until_s: float | None = None) -> Message | Mark:
        """Return the next message, NOTHING at the time, END if none will come. Raises the error that ended reading."""
        while True:
            if self._since_yield >= _YIELD_AFTER:
                self._since_yield = 0
                await asyncio.sleep(0)
            message = self.take()
            if message is not NOTHING:
                return message
            if self._is_ended and not self._lots:
                self.raise_error()
                return END
            if until_s is not None and self._loop.time() >= until_s:
                return NOTHING
            await self._wait(until_s)

    def raise_error(self) -> None:
        """Raise the error that ended the reading, if any."""
        if self._error is not None:
            self.has_raised = True
            raise self._error

    async def _wait(self, until_s: float | None) -> None:
        """Wait until something may have been put, or the event loop's time has come."""
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        timer = None if until_s is None else self._loop.call_at(until_s, self._arrived)
        try:
            # Asked after the waiter is there: the reader looks for one after it has put.
            if not self._lots and not self._is_ended:
                self._since_yield = 0
                await waiter
        finally:
            self._waiters.remove(waiter)
            if timer is not None:
                timer.cancel()
