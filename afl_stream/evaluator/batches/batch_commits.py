"""The commit of a batch: its results are persisted, published and forgotten, and Kafka's offsets follow."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final, NamedTuple

from afl.core.probes import Probe
from afl.engine.errors import NO_FORM, StoreUnavailable
from afl.engine.model.store import Batch
from afl_stream.errors import NotStorable
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.external.event_counts import EventCounts
from afl_stream.evaluator.offsets import StoredOffsets
from afl_stream.evaluator.outbox_publisher import OutboxPublisher
from afl_stream.evaluator.outcomes import Outcome
from afl_stream.evaluator.script_turns import ScriptTurns
from afl_stream.evaluator.timers.timer_turns import TimerTurns
from afl_stream.evaluator.unit_of_work import UnitOfWork
from afl_stream.evaluator.workflow_failure import EXHAUSTED
from afl_stream.transport import CommittedOffset, Consumer, TopicPartition, TransportError

_log = logging.getLogger(__name__)

#: How long a commit in flight is waited for; a store that takes longer counts as unavailable. Longer than a store waits
#: by itself: MongoDB keeps the transaction of a writer that died for 60 s, and its store waits 90 s for that.
_LONGEST_COMMIT_S: Final = 120.0


class _Flight(NamedTuple):
    """A commit that another thread waits for."""

    unit: UnitOfWork
    batch: Batch
    ends: Mapping[TopicPartition, int]
    #: The number of its first outbox record, when it is over.
    first: Future[int]
    #: When it began; 0.0: nobody asks.
    began_s: float


class BatchCommits:
    """Does steps 3 to 5 of the control loop, and counts the results. Belongs to the loop's thread.

    A second thread does one thing: it waits for the disk, or the store's server, at the end of a commit that was begun
    beside the computing of the next batch.
    """

    def __init__(
        self,
        context: EvaluatorContext,
        offsets: StoredOffsets,
        publisher: OutboxPublisher,
        runnable: deque[str],
        scripts: ScriptTurns,
        timers: TimerTurns,
        probe: Probe,
        *,
        consumer: Callable[[], Consumer],
    ) -> None:
        """Take what the loop's steps wait for.

        `runnable` is the loop's queue of workflows with more to do, `consumer` returns the consumer that reads now.
        """
        self._context = context
        self._offsets = offsets
        self._publisher = publisher
        self._runnable = runnable
        self._scripts = scripts
        self._timers = timers
        self._probe = probe
        self._consumer = consumer
        self._committer: ThreadPoolExecutor | None = None
        self._flight: _Flight | None = None
        self.outcomes: Counter[Outcome] = Counter()
        self.events = EventCounts()
        #: Firings of schedules, by what became of them.
        self.firings: Counter[str] = Counter()
        #: The two groups of each facet that two answer.
        self.doubled: dict[str, tuple[str, str]] = {}
        #: Records that became dead letters, by reason.
        self.dead_letters: Counter[str] = Counter()
        self._observer = context.observer
        self.batches = 0
        #: Outbox records handed over for publishing.
        self.published = 0

    def commit(self, unit: UnitOfWork, ends: Mapping[TopicPartition, int]) -> None:
        """Persist the results of records and turns, publish them, and let the consumer's offsets follow.

        `ends` are the offsets behind the records. Raises NotStorable, WorkflowConflict and PositionLost; nothing was
        written then.
        """
        self.complete()
        batch, began_s = self._prepared(unit, ends), self._began_s()
        try:
            first = self._context.store.commit_batch(batch)
        except BaseException as error:
            self._refused(batch, error)
            raise
        self._committed(unit, batch, ends, first, began_s)

    def begin(self, unit: UnitOfWork, ends: Mapping[TopicPartition, int]) -> None:
        """Begin to persist a batch whose commit another thread waits for; `complete` does the rest.

        Raises what `commit` raises, as far as it is known before the wait.
        """
        self.complete()
        if self._committer is None:
            self._committer = ThreadPoolExecutor(1, thread_name_prefix="afl-commit")
            # It runs before a transaction waits for it: where no thread can be started, none is left open.
            self._committer.submit(int).result()
        batch, began_s = self._prepared(unit, ends), self._began_s()
        try:
            finish = self._context.store.stage_batch(batch)
        except BaseException as error:
            self._refused(batch, error)
            raise
        self._flight = _Flight(unit, batch, ends, self._committer.submit(finish), began_s)

    def complete(self) -> None:
        """Wait for the commit in flight, if there is one, and do what follows it. Raises what `commit` raises."""
        flight, self._flight = self._flight, None
        if flight is None:
            return
        try:
            if not wait((flight.first,), _LONGEST_COMMIT_S).done:
                reason = f"a commit was not over within {_LONGEST_COMMIT_S:g} s"
                raise StoreUnavailable(path=self._context.store.location(), reason=reason)
            first = flight.first.result()
        except BaseException as error:
            self._refused(flight.batch, error)
            raise
        self._committed(flight.unit, flight.batch, flight.ends, first, flight.began_s)

    def await_flight(self) -> None:
        """Wait until the commit in flight has ended, so that a rebalance meets a store at rest; do what follows it.

        A failure of it is raised by `complete`, which the loop calls next. The wait is as long as a commit may take.
        """
        flight = self._flight
        if flight is None:
            return
        if wait((flight.first,), _LONGEST_COMMIT_S).done and flight.first.exception() is None:
            self.complete()

    def abandon(self) -> None:
        """Wait for the commit in flight, and do nothing else: this process is about to end."""
        flight, self._flight = self._flight, None
        if flight is not None:
            wait((flight.first,), _LONGEST_COMMIT_S)

    def close(self) -> None:
        """End the thread. A commit in flight is waited for."""
        self.abandon()
        if self._committer is not None:
            self._committer.shutdown()

    def _prepared(self, unit: UnitOfWork, ends: Mapping[TopicPartition, int]) -> Batch:
        try:
            batch = unit.finish()
        except EXHAUSTED as error:
            raise NotStorable(error) from error
        batch.positions = self._offsets.moves(ends)
        batch.published = self._publisher.take_published()
        return batch

    def _refused(self, batch: Batch, error: BaseException) -> None:
        """Take back what a refused batch was to delete. Raises NotStorable for what has no stored form."""
        self._publisher.give_back(batch.published)
        if isinstance(error, NO_FORM):
            raise NotStorable(error) from error

    def _began_s(self) -> float:
        return 0.0 if self._observer is None else self._observer.clock_s()

    def _committed(
        self, unit: UnitOfWork, batch: Batch, ends: Mapping[TopicPartition, int], first: int, began_s: float
    ) -> None:
        """Do what follows a commit: steps 4 and 5 of the loop, and what memory keeps of the batch."""
        self._probe("control.persisted")
        self._offsets.moved(ends)
        self.batches += 1
        if self._observer is not None:
            self._observer.commit_time.observe(self._observer.clock_s() - began_s)
            self._observer.publishes(batch.outbox)
        # First what agents wait for: the rest takes its time.
        self.published += len(batch.outbox)
        self._publisher.publish(first, batch.outbox)
        self._probe("control.published")
        self._count(unit)
        unit.keep()
        late_ms = self._timers.committed(unit)
        if self._observer is not None:
            self._observer.committed(unit, late_ms)
        self._tell(unit, late_ms)
        self._runnable.extendleft(reversed(unit.postponed))
        self._runnable.extend(w for w in unit.to_continue() if w not in self._runnable)
        self._follow(ends, self._consumer())
        self._probe("control.committed")
        self._forget_ended(unit.ended())
        due = unit.scripts_due()
        if due:
            self._scripts.offer(due)

    def _count(self, unit: UnitOfWork) -> None:
        self.outcomes.update(unit.outcomes)
        counts = unit.external.counts
        if counts.happened or counts.dropped or counts.continued:
            self.events.add(counts)
        if unit.schedules.outcomes:
            self.firings.update(unit.schedules.outcomes)
        if unit.outputs.dead_letters:
            self.dead_letters.update(letter.reason for letter in unit.outputs.dead_letters)
        if unit.doubled:
            self._report_doubled(unit.doubled)

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
        self.complete()
        published = self._publisher.take_published()
        try:
            self._context.store.commit_batch(Batch(published=published, now_ms=self._context.clock.now_ms()))
        except BaseException:
            self._publisher.give_back(published)
            raise
