"""Suspects: events that may have killed their process. Their last try runs alone, to give up only the culprit."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Final

from afl_stream.agent.partitions import AssignedPartitions
from afl_stream.agent.resources import AgentResources
from afl_stream.agent.work import PartitionWork, Work
from afl_stream.reading.group_reader import FIRST_BACKOFF_S
from afl_stream.transport import TopicPartition

log = logging.getLogger(__name__)

#: A first crash shows only which records ran, or had just run. A second one is needed to find the culprit.
FEWEST_CRASHES: Final = 2


class Suspects:
    """The suspects of one member: records that had started when a process died, by what it had noted.

    A record is given up after `agent.max_crashes` crashes, two at least. Each crash but the last may be the fault of a
    record beside it, or of a machine that was switched off, so suspects run side by side like other records. A record
    that has a single crash left runs alone:
      1. it runs when nothing else runs in this process, and nothing starts beside it,
      2. before it starts, a commit says that it runs,
      3. when it has ended and its answer is acknowledged, a commit says that it runs no longer, before anything starts.

    A crash in 3, after the handler has ended and before the commit, counts against it all the same: no other record can
    have caused it, and the gap takes milliseconds while a broker answers. Belongs to the thread of the member.
    """

    def __init__(self, resources: AgentResources, assigned: AssignedPartitions) -> None:
        self._resources = resources
        self._assigned = assigned
        self._most_crashes = max(FEWEST_CRASHES, resources.config.stream.agent.max_crashes)
        #: The suspect that runs secluded, or has ended without a commit that says so to the next owner.
        self._running: Work | None = None
        #: The one that waits until nothing else runs, and whether there is one.
        self._waiting: Work | None = None
        self.is_waiting = False
        self._again_s = 0.0

    def has_crashed_too_often(self, crashes: int) -> bool:
        """Return whether a record with so many crashes is given up."""
        return crashes >= self._most_crashes

    def has_one_crash_left(self, crashes: int) -> bool:
        """Return whether one more crash would give the record up."""
        return crashes == self._most_crashes - 1

    def reserve(self, work: Work) -> bool:
        """Take a slot for a suspect that has its last chance, if nothing else runs."""
        if self._running is not None or not self._resources.pool.reserve_secluded(self):
            self._waiting = self._waiting or (work if self._running is None else None)
            self.is_waiting = self._waiting is not None
            return False
        event_id = work.event.id if work.event is not None else ""
        log.warning(
            "event %s runs alone, because its handler was running in %d processes when they died",
            event_id, work.crashes,
        )  # fmt: skip
        self._running, self._waiting, self.is_waiting = work, None, False
        return True

    def end_seclusion(self) -> None:
        """Release the slot: the suspect that it was taken for could not start."""
        self._running = None
        self._resources.pool.end_seclusion(self)

    def end_seclusion_when_done(self, in_flight: Collection[Work]) -> None:
        """Commit that the suspect has ended, once it has, and let others start."""
        work = self._running
        if work is None or work in in_flight:
            return
        now_s = self._resources.clock_s()
        if now_s < self._again_s:
            return
        if work.partition.is_assigned and not self._assigned.commit([work.partition], wait=True):
            self._again_s = now_s + FIRST_BACKOFF_S
            return
        self.end_seclusion()

    def forget(self, work: Work) -> None:
        """Forget a finished record; it may be the waiting suspect, whose run was cancelled meanwhile."""
        if self._waiting is work:
            self._stop_waiting()

    def drop(self, partition: PartitionWork) -> None:
        """Forget the waiting suspect if it belongs to this partition, which is gone."""
        if self._waiting is not None and self._waiting.partition is partition:
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        self._waiting, self.is_waiting = None, False
        self._resources.pool.end_seclusion(self)

    def note_starts(self, starting: Sequence[Work]) -> bool:
        """Note that these records start; return False when the note cannot be made durable now.

        It is made durable first where an earlier process may have run the record too, or where no commit yet says that
        this process is at work.
        """
        doubtful: dict[TopicPartition, PartitionWork] = {}
        for work in starting:
            partition = work.partition
            work.is_running = True
            partition.progress.start(work.record.offset, work)
            partition.dirty = True
            crashes = work.crashes
            if crashes and work.tries == 0:
                self._resources.counters.add("crashes_seen", crashes)
            if crashes or work.is_doubtful:
                doubtful[partition.topic_partition] = partition
            if work.crashes:
                # Marked records of other partitions that have finished since must not count as running beside it.
                doubtful.update({other.topic_partition: other for other in self._assigned if other.dirty})
        return not doubtful or self._assigned.commit(doubtful.values(), wait=True)
