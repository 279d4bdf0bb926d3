"""A client of librdkafka that answers questions, replaced by another one once it has lost its brokers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, Generic, TypeVar

from afl.core.clock import MonotonicClock, monotonic_s
from afl_stream.kafka.errors import is_silence
from afl_stream.transport import TransportError

_log = logging.getLogger(__name__)

#: How long a client may go without an answer, and its minimum age, before a new one replaces it.
RENEW_AFTER_S: Final = 5.0

C = TypeVar("C")
K = TypeVar("K")
T = TypeVar("T")


class _Silence:
    """Since when no question has been answered.

    Questions in flight refer to this, and not to the client: their answers come on a thread of the client's own, and a
    client that is dropped there, with the last of them, ends the process.
    """

    def __init__(self, monotonic_s: MonotonicClock) -> None:
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        #: None: the last one was answered.
        self.since_s: float | None = None

    def answered(self) -> None:
        self.since_s = None

    def not_answered(self) -> None:
        with self._lock:
            if self.since_s is None:
                self.since_s = self._monotonic_s()

    def note(self, future: Future[Any]) -> None:
        if future.cancelled():
            return
        if is_silence(future.exception()):
            self.not_answered()
        else:
            self.answered()


class RenewedClient(Generic[C]):
    """A client that is created again when it gets no answers: an admin client, or one that asks for offsets.

    A broker that stood still for some seconds may report a cluster without brokers. librdkafka then drops the brokers
    that it knew, and is at times left with none to ask for good (its issue 5301). Such a client holds nothing that
    would be lost with it, so after a question without an answer in time the next one goes to a new client. Any thread
    may use it.
    """

    def __init__(self, make: Callable[[], C], monotonic_s: MonotonicClock = monotonic_s) -> None:
        self._make = make
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._client: C | None = make()
        self._made_at_s = monotonic_s()
        self._silence = _Silence(monotonic_s)

    def now(self) -> C:
        """Return the client to ask. Raises TransportError after `close`."""
        with self._lock:
            if self._client is None:
                raise TransportError("this admin client is closed")
            oldest_s = self._monotonic_s() - RENEW_AFTER_S
            if self._silence.since_s is not None and self._made_at_s <= oldest_s:
                self._renew()
                _log.debug("the client got no answer; a new one replaces it")
            return self._client

    def replace(self, client: C) -> None:
        """End a client that has requests which must not go on; the next question goes to a new one."""
        with self._lock:
            if self._client is client:
                self._renew()

    def _renew(self) -> None:
        assert self._client is not None
        # Ending one takes a moment; answers that come to it after all are still given.
        left = [self._client]
        self._client, self._made_at_s = self._make(), self._monotonic_s()
        self._silence.answered()
        threading.Thread(target=left.clear, name="kafka-client-end", daemon=True).start()

    def close(self) -> None:
        """End the client with its threads, on this thread: the garbage collector may run on one of the client's own."""
        with self._lock:
            self._client = None

    def ask(self, question: Callable[[C], Mapping[K, Future[T]]]) -> Mapping[K, Future[T]]:
        """Ask a question, and note whether it is answered. Does not wait."""
        asked = question(self.now())
        for future in asked.values():
            future.add_done_callback(self._silence.note)
        return asked

    def answered(self) -> None:
        """Note that a question was answered."""
        self._silence.answered()

    def not_answered(self) -> None:
        """Note that a question was not answered in time."""
        self._silence.not_answered()
