"""The commit of a batch: its results are persisted, published and forgotten, and Kafka's offsets follow."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Mapping, Sequence

from afl.core.probes import Probe
from afl.engine.errors import NO_FORM
from afl.engine.model.store import Batch
from afl_stream.errors import NotStorable
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.external.event_counts import EventCounts
from afl_stream.evaluator.offsets import StoredOffsets
from afl_stream.evaluator.outbox import OutboxPublisher
from afl_stream.evaluator.outcomes import Outcome
from afl_stream.evaluator.script_turns import ScriptTurns
from afl_stream.evaluator.timers.timer_turns import TimerTurns
from afl_stream.evaluator.unit_of_work import UnitOfWork
from afl_stream.evaluator.workflow_failure import EXHAUSTED
from afl_stream.transport import CommittedOffset, Consumer, Record, TopicPartition, TransportError

_log = logging.getLogger(__name__)


class BatchCommits:
    """Does steps 3 to 5 of the control loop, and counts the results. Belongs to the loop's thread."""

    def __init__(
        self,
        context: EvaluatorContext,
        offsets: StoredOffsets,
        publisher: OutboxPublisher,
        runnable: deque[str],
        scripts: ScriptTurns,
        timers: TimerTurns,
        probe: Probe,
    ) -> None:
        """Take what the loop's steps wait for.

        `runnable` is the loop's queue of workflows with more to do.
        """
        self._context = context
        self._offsets = offsets
        self._publisher = publisher
        self._runnable = runnable
        self._scripts = scripts
        self._timers = timers
        self._probe = probe
        self.outcomes: Counter[Outcome] = Counter()
        self.events = EventCounts()
        #: Firings of schedules, by what became of them.
        self.firings: Counter[str] = Counter()
        #: The two groups of each facet that two answer.
        self.doubled: dict[str, tuple[str, str]] = {}
        self.batches = 0
        #: Outbox records handed over for publishing.
        self.published = 0

    def commit(self, unit: UnitOfWork, records: Sequence[Record], consumer: Consumer) -> None:
        """Persist the results of these records and turns, publish them, and let the consumer's offsets follow.

        Raises NotStorable, WorkflowConflict and PositionLost; nothing was written then.
        """
        try:
            batch = unit.finish()
        except EXHAUSTED as error:
            raise NotStorable(error) from error
        # Plain tuples equal a TopicPartition and cost a quarter of one; the last of each partition counts.
        places = {record[:2]: record.offset + 1 for record in records}
        ends = {TopicPartition(*place): offset for place, offset in places.items()}
        batch.positions = self._offsets.moves(ends)
        batch.published = self._publisher.take_published()
        try:
            first = self._context.store.commit_batch(batch)
        except BaseException as error:
            self._publisher.give_back(batch.published)
            if isinstance(error, NO_FORM):
                raise NotStorable(error) from error
            raise
        self._probe("control.persisted")
        self._offsets.moved(ends)
        self.outcomes.update(unit.outcomes)
        self.events.add(unit.external.counts)
        self.firings.update(unit.schedules.outcomes)
        self._report_doubled(unit.doubled)
        self.batches += 1
        unit.keep()
        self._tell(unit, self._timers.committed(unit))
        self._runnable.extendleft(reversed(unit.postponed))
        self._runnable.extend(w for w in unit.to_continue() if w not in self._runnable)
        self.published += len(batch.outbox)
        self._publisher.publish(first, batch.outbox)
        self._probe("control.published")
        self._follow(ends, consumer)
        self._probe("control.committed")
        self._forget_ended(unit.ended())
        due = unit.scripts_due()
        if due:
            self._scripts.offer(due)

    def _tell(self, unit: UnitOfWork, late_ms: Mapping[str, Sequence[int]]) -> None:
        """Tell telemetry what a committed unit has counted, and how late its timers were, by kind."""
        telemetry, counts = self._context.telemetry, unit.external.counts
        if telemetry is None:
            return
        if counts.happened:
            telemetry.log_external_events(counts.happened, counts.dropped)
        if late_ms:
            telemetry.log_timers_fired(late_ms)
        if unit.schedules.outcomes:
            telemetry.log_schedules_fired(unit.schedules.outcomes)

    def _forget_ended(self, ended: list[str]) -> None:
        """Drop the scripts and turns of workflows that have ended."""
        self._scripts.drop(ended)
        for workflow_id in ended if self._runnable else ():
            if workflow_id in self._runnable:
                self._runnable.remove(workflow_id)

    def _report_doubled(self, doubled: Mapping[str, tuple[str, str]]) -> None:
        """Log once for each facet that two groups answer it, whatever the groups are called."""
        for facet, (first, other) in doubled.items():
            if facet not in self.doubled:
                self.doubled[facet] = first, other
                _log.warning(
                    "two groups answer the events of %s, so all of its work is done twice: %s and %s",
                    facet,
                    first,
                    other,
                )

    def _follow(self, ends: Mapping[TopicPartition, int], consumer: Consumer) -> None:
        """Let Kafka's committed offsets follow the stored positions. Nothing depends on them."""
        if not ends:
            return
        try:
            consumer.commit({p: CommittedOffset(offset=o) for p, o in ends.items()})
        except TransportError as error:
            uncommitted = "offsets were not committed; the stored positions count: %s"
            self._context.warnings.warning("commits of offsets", uncommitted, error)

    def commit_published(self) -> None:
        """Delete the outbox rows that are published, when there is no batch to commit."""
        published = self._publisher.take_published()
        try:
            self._context.store.commit_batch(Batch(published=published, now_ms=self._context.clock.now_ms()))
        except BaseException:
            self._publisher.give_back(published)
            raise
