"""The unfinished records of an agent, by partition, from reading to the committed offset."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from afl.core.handlers.routes import Route
from afl_stream.reading.offset_tracker import PartitionProgress
from afl_stream.reading.record_queue import RecordQueue
from afl_stream.transport import Headers, Record, TopicPartition
from afl_stream.wire.messages import Event

#: A handler that takes longer than this is worth a thread's turn of its own.
_QUICK_S: Final = 0.000_5
#: Limits of one batch: the time that its handlers may take together, and their number.
_BATCH_S: Final = 0.005
_BATCH_WORKS: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A record to be produced."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(slots=True, eq=False, kw_only=True)
class PartitionWork:
    """One partition while it is held. After it was revoked and assigned again it is another object."""

    topic_partition: TopicPartition
    progress: PartitionProgress
    #: Read, but not decoded: past the window, or behind a record that cannot be decoded now.
    undecoded: RecordQueue
    is_assigned: bool = True
    dirty: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class Work:
    """One unfinished record. It is finished when nothing is left to send for it.

    `outgoing` is sent front first, each after the one before was acknowledged. `is_running`: the handler was started
    and has not ended; the thread that sees it end reports it.
    """

    partition: PartitionWork
    record: Record
    event: Event | None = None
    route: Route | None = None
    tries: int = 0
    not_before_s: float = 0.0
    is_running: bool = False
    outgoing: deque[Outgoing] = field(default_factory=deque)
    #: The keys that its handler has sent as updates.
    reported: set[str] | None = None

    @property
    def step_id(self) -> str | None:
        return self.event.step_id if self.event is not None else None

    @property
    def crashes(self) -> int:
        return self.partition.progress.crashes(self.record.offset)

    @property
    def is_doubtful(self) -> bool:
        return self.partition.progress.is_doubtful(self.record.offset)

    @property
    def expected_s(self) -> float:
        """Return how long its handler takes, as far as is known; infinite when it is unknown."""
        return float("inf") if self.route is None else self.route.run_time.mean_s

    def is_copy_of(self, other: Work) -> bool:
        """Return whether both are the same record, read twice."""
        return (self.partition.topic_partition, self.record.offset) == (
            other.partition.topic_partition,
            other.record.offset,
        )


class WorkBatch:
    """Records that start together, in one slot: a single one, or several whose handlers are known to be quick."""

    __slots__ = ("_expected_s", "is_secluded", "works")

    def __init__(self, first: Work, *, is_secluded: bool) -> None:
        """Begin with one record. `is_secluded`: it may have killed processes, and nothing runs beside it."""
        self.works = [first]
        self.is_secluded = is_secluded
        self._expected_s = first.expected_s

    def take(self, work: Work) -> bool:
        """Add another record, which is not a suspect, if there is room for it."""
        expected_s = work.expected_s
        if self.is_secluded or expected_s > _QUICK_S or self._expected_s + expected_s > _BATCH_S:
            return False
        if len(self.works) >= _BATCH_WORKS:
            return False
        self.works.append(work)
        self._expected_s += expected_s
        return True
