"""The unfinished records of an agent, by partition, from reading to the committed offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from afl.core.handlers.outcomes import QUICK_S
from afl.core.handlers.routes import Route
from afl.core.row_maker import row_maker
from afl_stream.reading.offset_tracker import PartitionProgress
from afl_stream.reading.record_queue import RecordQueue
from afl_stream.transport import Headers, Record, TopicPartition
from afl_stream.wire.messages import Event

if TYPE_CHECKING:
    from afl_stream.tracing.agents import HandlerRun

#: Limits of one batch: the time that its handlers may take together, and their number.
_BATCH_S: Final = 0.005
_BATCH_WORKS: Final = 128
#: The shortest time limit of a handler that may run on the thread that reads: it takes a moment until another thread
#: reads in its place, and watches the time.
INLINE_TIMEOUT_S: Final = 1.0


class Outgoing(NamedTuple):
    """A record to be produced."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers


#: Makes a record to be produced, of topic, key, value and headers.
new_outgoing: Final = row_maker(Outgoing, "topic", "key", "value", "headers")


@dataclass(slots=True, eq=False, kw_only=True)
class PartitionWork:
    """One partition while it is held. After it was revoked and assigned again it is another object."""

    topic_partition: TopicPartition
    progress: PartitionProgress
    #: Read, but not decoded: past the window, or behind a record that cannot be decoded now.
    undecoded: RecordQueue
    is_assigned: bool = True
    #: The group has given it to another member without asking this one: no answer is sent any more for its records.
    is_lost: bool = False
    dirty: bool = False


class Work:
    """One unfinished record. It is finished when nothing is left to send for it.

    `outgoing` is sent front first, each after the one before was acknowledged. `is_running`: the handler was started
    and has not ended; the thread that sees it end reports it. `reported` are the keys that its handler has sent as
    updates. `tries` counts the runs of the handler in this process, `earlier_tries` those that failed before. `began_s`
    is when its handler began, where lines about events are written.
    """

    __slots__ = (
        "began_s",
        "earlier_tries",
        "event",
        "is_running",
        "not_before_s",
        "outgoing",
        "partition",
        "record",
        "reported",
        "route",
        "trace",
        "tries",
    )

    def __init__(self, partition: PartitionWork, record: Record, event: Event | None = None) -> None:
        self.partition = partition
        self.record = record
        self.event = event
        self.route: Route | None = None
        self.tries = 0
        self.earlier_tries = 0
        self.not_before_s = 0.0
        self.is_running = False
        self.outgoing: list[Outgoing] = []
        self.reported: set[str] | None = None
        #: The span of the handler's run; None: tracing is off, or no handler has begun.
        self.trace: HandlerRun | None = None
        self.began_s: float | None = None

    @property
    def step_id(self) -> str | None:
        return self.event.step_id if self.event is not None else None

    @property
    def crashes(self) -> int:
        return self.partition.progress.crashes(self.record.offset)

    @property
    def all_tries(self) -> int:
        """The runs of its handler, in earlier processes too, as far as those have noted them; a death counts as one."""
        tries = self.earlier_tries + self.tries
        # Few partitions have any: most records are asked about for their spans.
        return tries + self.crashes if self.partition.progress.crash_counts else tries

    @property
    def is_doubtful(self) -> bool:
        return self.partition.progress.is_doubtful(self.record.offset)

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
        self._expected_s = float("inf") if first.route is None else first.route.run_time.mean_s

    def take(self, work: Work, expected_s: float) -> bool:
        """Add another record, which is not a suspect, if there is room for it: its handler takes `expected_s`."""
        total_s = self._expected_s + expected_s
        if self.is_secluded or expected_s > QUICK_S or total_s > _BATCH_S or len(self.works) >= _BATCH_WORKS:
            return False
        self.works.append(work)
        self._expected_s = total_s
        return True
