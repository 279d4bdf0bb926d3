"""Waiting for other writers of a MongoDB store, and excluding them."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from afl.core.backoff import Backoff, FailedAttempts
from afl.core.process.stopping import PROCESS_STOP, Stop
from afl.engine.errors import StoreUnavailable
from afl.stores.mongo.connection import Connection
from afl.stores.mongo.documents import STORE

#: The longest pauses; of each a random half at most is left out, so that two that wait for each other part.
_BACKOFF: Final = Backoff(first_s=0.001, longest_s=0.05)
#: The lease of a lock: far longer than any public write takes.
_LOCK_MS: Final = 30_000
#: How long a process that was told to end still waits: an election of a replica set takes no longer.
_LAST_WAIT_S: Final = 15.0


class Deadline:
    """Pauses between attempts, longer each time, until there is no time left: less of it once the process is to end."""

    def __init__(
        self, name: str, timeout_s: float, stop: Stop = PROCESS_STOP, last_wait_s: float = _LAST_WAIT_S
    ) -> None:
        self._name = name
        self._stop = stop
        self._end_s = time.monotonic() + timeout_s
        self._last_end_s = time.monotonic() + min(timeout_s, last_wait_s)
        self._failures = FailedAttempts(_BACKOFF)

    def pause(self, reason: str, error: Exception | None = None) -> None:
        """Wait before the next attempt. StoreUnavailable when there is no time left."""
        if time.monotonic() >= (self._last_end_s if self._stop.is_set() else self._end_s):
            raise StoreUnavailable(path=self._name, reason=reason) from error
        time.sleep(self._failures.next_wait_s() * random.uniform(0.5, 1))


class StoreLock:
    """A lock against other writers of the public interface, threads and processes, by a document that names its holder.

    If a process dies while it holds the lock, the others wait for the rest of `lease_ms`.
    """

    def __init__(self, connection: Connection, timeout_s: float, lease_ms: int = _LOCK_MS) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self._lease_ms = lease_ms
        # Re-entrant: a public write consists of smaller ones.
        self._turn = threading.RLock()
        self._depth = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock. Raises StoreUnavailable when others hold it for too long."""
        with self._turn:
            holder = self._acquire() if self._depth == 0 else None
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if holder is not None:
                    self._release(holder)

    def _acquire(self) -> str:
        holder = uuid.uuid4().hex
        deadline = Deadline(self._connection.name, self._timeout_s)
        seen, seen_at_s = None, 0.0
        while True:
            with self._connection.speaking():
                store = self._connection.collection(STORE)
                is_over = seen is not None and (time.monotonic() - seen_at_s) * 1000 >= self._lease_ms
                free = {"_id": "lock", "holder": seen if is_over else None}
                if store.update_one(free, {"$set": {"holder": holder}}).modified_count:
                    return holder
                found = store.find_one({"_id": "lock"}) or {"holder": None}
            if found["holder"] != seen:
                # Only this process's clock measures how long another has held it.
                seen, seen_at_s = found["holder"], time.monotonic()
            deadline.pause("another process holds it")

    def _release(self, holder: str) -> None:
        with self._connection.speaking():
            self._connection.collection(STORE).update_one({"_id": "lock", "holder": holder}, {"$set": {"holder": None}})
