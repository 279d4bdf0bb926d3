"""The thread that reads for a subscription on an event loop."""

from __future__ import annotations

import asyncio
import logging
from threading import Event, Thread
from typing import Final

from afl_stream.pubsub.errors import SubscriptionClosed
from afl_stream.pubsub.subscriptions.group_subscription import READ_RECORDS, GroupSubscription, Lot
from afl_stream.pubsub.subscriptions.inbox import Inbox
from afl_stream.transport import BrokerUnavailable

_log = logging.getLogger(__name__)

#: How long one read waits for a record, and so how soon the thread sees that it is to end.
_READ_S: Final = 0.1
#: How long a full buffer may keep the thread from reading before the partitions are paused. A client drops what it has
#: fetched of a paused partition, so a program that is only a little slower pauses none.
_PAUSE_AFTER_S: Final = 0.1


class ReaderThread:
    """Reads into an inbox until it is told to end, an error ends it, or its event loop is closed."""

    def __init__(self, subscription: GroupSubscription, inbox: Inbox, name: str, max_lot: int) -> None:
        self._subscription = subscription
        self._inbox = inbox
        self._max_records = max(1, min(READ_RECORDS, max_lot))
        self._stop = Event()
        self._loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = self._loop.create_future()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._name = name
        self._thread = Thread(target=self._run, name=f"subscription-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to commit, leave the group and end."""
        self._stop.set()
        self._inbox.has_room.set()

    async def join(self) -> None:
        """Wait until the thread has ended."""
        await asyncio.shield(self.ended)
        self._thread.join()

    # On the thread

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self._read_until_stopped()
        except RuntimeError as closed:
            if not self._loop.is_closed():
                error = closed
        except BaseException as raised:  # noqa: BLE001 - the program hears of it, wherever it comes from
            error = raised
        try:
            if error is None or isinstance(error, Exception):
                self._subscription.close()
        except BaseException as raised:  # noqa: BLE001 - the same
            error = error or raised
        finally:
            self._report_end(error)

    def _report_end(self, error: BaseException | None) -> None:
        try:
            self._inbox.end(error)
            self._loop.call_soon_threadsafe(self._ended, error)
        except RuntimeError:
            _log.warning("%s: its event loop was closed before it was", self._thread.name)

    def _ended(self, error: BaseException | None) -> None:
        if not self.opened.done():
            # Without an error it was told to end while it was opened.
            self.opened.set_exception(error or SubscriptionClosed(f"subscription {self._name}"))
        if not self.ended.done():
            self.ended.set_result(None)

    def _read_until_stopped(self) -> None:
        subscription, inbox = self._subscription, self._inbox
        self._open()
        is_full = False
        while not self._stop.is_set() and not self._loop.is_closed():
            self._wait_for_broker()
            if is_full or inbox.is_full:
                is_full = not inbox.wait_for_room(_PAUSE_AFTER_S)
            subscription.hold(is_full=is_full)
            lots = self._read(0.0 if is_full else _READ_S)
            if lots:
                inbox.put(lots)
            subscription.commit_when_due()

    def _read(self, timeout_s: float) -> list[Lot]:
        try:
            return self._subscription.read(self._inbox.room(self._max_records), timeout_s)
        except BrokerUnavailable as error:
            self._subscription.failed(error)
            return []

    def _open(self) -> None:
        while not self._stop.is_set() and not self._loop.is_closed():
            try:
                self._subscription.open()
            except BrokerUnavailable as error:
                self._subscription.failed(error)
                self._wait_for_broker()
                continue
            self._loop.call_soon_threadsafe(self._opened)
            return

    def _opened(self) -> None:
        if not self.opened.done():
            self.opened.set_result(None)

    def _wait_for_broker(self) -> None:
        backoff_s = self._subscription.backoff_s()
        if backoff_s is not None:
            self._stop.wait(backoff_s)
