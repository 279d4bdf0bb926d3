"""Claims whose owner has died although their lease seems long: a clock was set back since it was written.

A lease is a time of the wall clock, because processes of several machines read it. Its owner renews it every few
seconds, so an unchanged lease has no living owner, whatever time it says.
"""

from __future__ import annotations

from afl.core.clock import CLOCK_TOLERANCE_MS, Clock
from afl.engine import limits
from afl.engine.model.entities import TaskDefinition
from afl.stores.public.persistence import EngineStore

#: The time, in leases of this server's length, that a claim may stay unchanged before its owner is taken for dead.
_PATIENCE_LEASES = 3


class LeaseWatch:
    """A watch on the leases that end too far ahead, and since when each has not changed. For one thread."""

    def __init__(self, store: EngineStore, clock: Clock, lease_ms: int) -> None:
        self._store = store
        self._clock = clock
        self._patience_ms = _PATIENCE_LEASES * lease_ms
        #: By task: owner and end of its lease, and the first time both were seen, on the monotonic clock.
        self._seen: dict[str, tuple[str, int, float]] = {}

    def stale(self) -> list[TaskDefinition]:
        """Return the claimed tasks whose lease ends further ahead than any lease can, and has not changed."""
        now_ms, now_s = self._clock.now_ms(), self._clock.monotonic_s()
        seen, found = {}, []
        for task in self._store.leased_tasks():
            patience_ms = self._patience_of(task)
            if task.lease_expires - now_ms <= max(patience_ms, CLOCK_TOLERANCE_MS):
                continue
            owner, expires_ms, since_s = self._seen.get(task.uuid, ("", 0, now_s))
            if (owner, expires_ms) != (task.owner, task.lease_expires):
                since_s = now_s
            seen[task.uuid] = (task.owner, task.lease_expires, since_s)
            if (now_s - since_s) * 1_000 >= patience_ms:
                found.append(task)
        self._seen = seen
        return found

    def _patience_of(self, task: TaskDefinition) -> int:
        # `poll_once` renews nothing: its leases are that long, and stay unchanged while its handler works.
        is_renewed = task.lease_expires - task.claimed < limits.POLL_ONCE_LEASE_MS
        return self._patience_ms if is_renewed else limits.POLL_ONCE_LEASE_MS + CLOCK_TOLERANCE_MS
