"""What a worker has done since it started, and whether it makes progress."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCounts:
    """Counters of a worker since it started.

    `events`: taken from the topics and stored. `forwarded`: produced again on the partition of their request.
    `restored`: requests that were read from the store. `conflicts`: requests that another worker ran too. `suspended`:
    requests that went on after a rebalance. `forgotten`: old requests that were removed from the store. The others
    count how often a request came there.
    """

    events: int = 0
    produced: int = 0
    forwarded: int = 0
    dead_lettered: int = 0
    restored: int = 0
    suspended: int = 0
    conflicts: int = 0
    store_failures: int = 0
    finished: int = 0
    waiting: int = 0
    failed: int = 0
    forgotten: int = 0


class Counters:
    """Counters that the event loop changes; any thread may take a snapshot."""

    def __init__(self) -> None:
        self._counts = {field.name: 0 for field in dataclasses.fields(WorkerCounts)}

    def add(self, name: str, count: int = 1) -> None:
        """Count."""
        self._counts[name] += count

    def snapshot(self) -> WorkerCounts:
        """Return the counts now."""
        return WorkerCounts(**self._counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHealth:
    """The health of a worker. `reasons` says what is wrong; `open_requests` are at work, `queued` wait for room."""

    ready: bool
    reasons: tuple[str, ...]
    open_requests: int
    queued: int
