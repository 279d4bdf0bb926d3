"""The control loop: it reads commands and answers, advances workflows, and persists before it commits an offset."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection

from afl.core.clock import thread_s
from afl.core.probes import Probe, no_probe
from afl.engine.errors import PositionLost
from afl.engine.model.store import TimerRow
from afl.engine.workflow_cache import WorkflowCache
from afl_stream.evaluator.assigned_backlog import AssignedBacklog
from afl_stream.evaluator.batches.batch_attempts import BatchAttempts
from afl_stream.evaluator.batches.batch_commits import BatchCommits
from afl_stream.evaluator.batches.batch_size import BatchSize
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.control_stats import ControlStats as ControlStats
from afl_stream.evaluator.offsets import StoredOffsets
from afl_stream.evaluator.outbox_publisher import OutboxPublisher
from afl_stream.evaluator.paused_partitions import PausedPartitions
from afl_stream.evaluator.pausing.held_events import HeldEvents
from afl_stream.evaluator.pausing.pause_watch import PauseWatch
from afl_stream.evaluator.rebalance import Rebalance, evaluators_consumer
from afl_stream.evaluator.schedules.sweep import ScheduleSweep
from afl_stream.evaluator.script_turns import EndedScript, ScriptTurns
from afl_stream.evaluator.sweeps import Sweeps
from afl_stream.evaluator.timers.timer_turns import TimerTurns
from afl_stream.evaluator.turns import Turn, turns_of
from afl_stream.evaluator.unit_of_work import UnitOfWork
from afl_stream.outage import broker_at
from afl_stream.transport import (
    BrokerUnavailable,
    Consumer,
    OffsetOutOfRange,
    Producer,
    Record,
    TopicPartition,
    Transport,
    TransportError,
    UnknownTopic,
)

_log = logging.getLogger(__name__)

#: A broker that owes an answer for so long is asked nothing that would be waited for.
_LATE_ANSWER_S = 2.0
#: Attempts at a whole batch before it is split. A conflict is rare: another writer had one of its workflows.
_WHOLE_ATTEMPTS = 2
#: Turns of one batch: of runnable workflows, and of ended scripts.
_MOST_TURNS = 16
_MOST_SCRIPTS = 64


class ControlLoop:
    """Applies records in batches. One thread runs it.

    For each batch, in this order:
      1. read records of the owned partitions (`control.read`),
      2. apply each to its workflow and evaluate to the fixed point, in memory (`control.applied`),
      3. persist steps, outbox and positions in one transaction (`control.persisted`),
      4. publish the outbox (`control.published`),
      5. commit the offsets (`control.committed`).

    While a large batch is being committed, the loop does 1 and 2 for the next one (see batches/batch_attempts.py).

    After a crash before 3 the records are delivered again, and the same work makes the same ids. After 3 the records
    are behind the stored position, where reading starts; the next owner of a lane publishes its outbox before it reads.
    Kafka's committed offset only follows, to show the lag.

    A workflow that cannot be evaluated or stored (a value has no stored form, memory ran out, the engine has a defect)
    splits the batch as a conflict does. If the workflow also fails alone, it ends as ERROR from its stored state, and
    its record becomes a dead letter, so that the next owner does not meet it again.

    A cancellation takes effect before its workflow continues: the cancellations of a batch are known before the batch
    is applied, and after partitions were assigned no runnable workflow continues before the commands waiting there are
    read.

    A batch may also have turns: workflows that are runnable, scripts that have ended (script_turns.py has their steps),
    and timers that are due (timers/timer_turns.py). Scripts run elsewhere: no record or workflow waits for a script.

    A batch is one transaction, but no workflow holds up another: a workflow that another writer has changed is read
    again, and after that the batch is split. A record that cannot be read yet pauses its partition and no other: a
    record of a newer release until the upgrade, a record whose schema is gone until the schema is back. A lost position
    means that the partition has another owner: the loop drops everything and joins its group again.
    """

    def __init__(
        self, context: EvaluatorContext, transport: Transport, probe: Probe = no_probe, *, new_store: bool = False
    ) -> None:
        self._context = context
        self._transport = transport
        self._probe = probe
        self._topics = (context.topology.control(), context.topology.commands(), context.topology.external())
        admin = transport.admin()
        continues_past_lost = context.config.evaluator.lost_records == "continue"
        self._offsets = StoredOffsets(context.store, admin, admin.cluster_id(), continues_past_lost=continues_past_lost)
        self._offsets.check_cluster()
        context.store_claim.claim(is_new=new_store)
        self._producer: Producer = transport.producer()
        held_events = HeldEvents(context.definitions.pauses, context.topology)
        self._publisher = OutboxPublisher(
            context.store, self._producer, probe, held_events=held_events, tracing=context.tracing,
            broker=broker_at(context.config.kafka.bootstrap),
        )  # fmt: skip
        self._paused = PausedPartitions(context.clock.monotonic_s)
        self._runnable: deque[str] = deque()
        self._backlog = AssignedBacklog(context.topology.commands())
        settings = context.config.evaluator
        self._batch_size = BatchSize(settings.batch_records, settings.batch_ms / 1000)
        self._scripts = ScriptTurns(context.scripts, context.config.scripts.workers, probe)
        self._timers = TimerTurns(context, self._unread, probe)

        def commit_unit(unit: UnitOfWork) -> None:
            self._commits.commit(unit, {})

        self._sweeps = Sweeps(context, self._publisher, self._runnable, commit_unit, admin, probe)
        self._pauses = PauseWatch(context, self._sweeps, context.clock.monotonic_s)
        self._schedules = ScheduleSweep(context, commit_unit, probe)
        self._commits: BatchCommits = BatchCommits(
            context,
            self._offsets,
            self._publisher,
            self._runnable,
            self._scripts,
            self._timers,
            probe,
            consumer=lambda: self._consumer,
        )
        self._attempts = BatchAttempts(
            context,
            self._offsets,
            self._paused,
            self._commits,
            self._timers,
            probe,
            consumer=lambda: self._consumer,
            read_here=self._read_here,
        )
        self._positions_lost = 0
        self._rebalance = Rebalance(
            context,
            self._offsets,
            self._publisher,
            self._paused,
            self._backlog,
            self._sweeps,
            self._scripts,
            probe,
            consumer=lambda: self._consumer,
            drop_records=self._drop_records,
            await_commit=self._commits.await_flight,
        )
        try:
            self._consumer: Consumer = self._join()
        except BaseException:
            self._release()
            raise

    # --- membership ---------------------------------------------------------------------------------------------

    def _join(self) -> Consumer:
        consumer = evaluators_consumer(self._context, self._transport)
        try:
            consumer.subscribe(self._topics, listener=self._rebalance)
        except BaseException:
            consumer.close()
            raise
        return consumer

    def _drop_records(self, gone: Collection[TopicPartition]) -> None:
        """Drop the records of these partitions that were read and not applied: their next owner reads them."""
        self._attempts.unapplied = [record for record in self._attempts.unapplied if record.topic_partition not in gone]

    def _rejoin(self, why: Exception) -> None:
        """Drop everything because another owner has the partitions; log why, and join the group again."""
        self._positions_lost += 1
        _log.warning(
            "the evaluator lost its partitions and joins its group again; nothing of its batch was written: %s", why
        )
        self._attempts.unapplied.clear()
        self._runnable.clear()
        self._context.workflows.evict_all()
        self._rebalance.on_lost(self._offsets.owned())
        self._leave_group()
        self._consumer = self._join()

    # --- batches ------------------------------------------------------------------------------------------------

    def run_once(self, timeout_s: float) -> int:
        """Handle one batch, and wait up to `timeout_s` for its first record; return the number of its records.

        Raises SchemaUnavailable when no schema can be looked up right now, and BrokerUnavailable when no broker
        answers: the records that were read wait for the next call. Raises WrongStore when another store was claimed for
        the deployment.
        """
        self._publisher.settle()
        self._pauses.look_when_due()
        self._sweeps.run_due()
        handled = 0
        turns: list[Turn] = []
        ended: list[EndedScript] = []
        timers: list[TimerRow] = []
        try:
            ended = self._scripts.take(_MOST_SCRIPTS)
            # Where commands lie that are read first, they come within the time-out.
            may_continue = self._backlog.has_read_commands(self._read_up_to, self._paused.partitions)
            if may_continue:
                self._schedules.run_due()
            waits = not ended and not (self._runnable and may_continue)
            patience_s = self._timers.patience_s(self._scripts.patience_s(self._schedules.wait_s(timeout_s)))
            patience_s = self._sweeps.patience_s(patience_s)
            records = self._read(patience_s if waits else 0.0)
            # After a broker has answered, and before the records are handled.
            self._context.store_claim.look_when_due(self._broker_answers)
            # Asked again: partitions may have been taken over meanwhile.
            if self._backlog.has_read_commands(self._read_up_to, self._paused.partitions):
                turns = [Turn(self._runnable.popleft()) for _ in range(min(len(self._runnable), _MOST_TURNS))]
            timers = self._timers.take()
            if records or turns or ended or timers:
                started_s = thread_s()
                handled = self._attempts.process(records, [*turns, *turns_of(ended, timers)])
                self._batch_size.took(handled, thread_s() - started_s, self._attempts.turns_s)
            elif self._publisher.has_published:
                self._commits.commit_published()
        except PositionLost as error:
            self._rejoin(error)
        except BaseException:
            self._runnable.extendleft(turn.workflow_id for turn in reversed(turns))
            self._scripts.give_back(ended)
            self._timers.give_back(timers)
            raise
        self._scripts.done(ended)
        return handled

    def _unread(self) -> frozenset[int]:
        """Return the numbers of partitions whose timers wait for records."""
        return self._backlog.unread(self._read_up_to, self._paused.partitions)

    def _read_up_to(self, partition: TopicPartition) -> int | None:
        """Return the offset behind what is applied, or is part of this batch; None: the partition is not ours.

        The store's position stays before offsets without a record, such as transaction markers at the end of a log.
        """
        applied = self._offsets.next_offset(partition)
        # A take-over that broke off late has given the partition back, and left its position.
        if applied is None or self._attempts.unapplied or partition not in self._consumer.assignment():
            return applied
        return max(applied, self._consumer.position(partition))

    def _read(self, timeout_s: float) -> list[Record]:
        if self._paused:
            self._try_paused()
        if self._attempts.unapplied:
            self._stay_in_group()
            records, self._attempts.unapplied = self._attempts.unapplied, []
            return records
        records = self._consume(self._batch_size.records, timeout_s)
        if records:
            self._probe("control.read")
        return records

    def _read_here(self) -> list[Record]:
        """Return records that have arrived, while a commit is in flight; none while other work is due.

        Raises BrokerUnavailable, and what `consume` raises.
        """
        if self._paused or self._runnable or self._scripts.count or self._timers.has_due() or self._sweeps.is_busy:
            return []
        self._publisher.settle()
        records = self._consume(self._batch_size.records, 0.0)
        if records:
            self._probe("control.read")
        return records

    def _consume(self, max_records: int, timeout_s: float) -> list[Record]:
        """Read records; when a log has changed, return none, and continue reading where that is possible."""
        try:
            return self._consumer.consume(max_records, timeout_s)
        except OffsetOutOfRange as error:
            self._reposition([error.partition])
            _log.warning("%s; reading continues at offset %s", error, self._offsets.next_offset(error.partition))
        except UnknownTopic as error:
            if not self._offsets.is_recreated(error.topic):
                raise
            self._reposition(self._offsets.of_topic(error.topic))
        return []

    def _reposition(self, partitions: list[TopicPartition]) -> None:
        """Handle a log that has changed: raise what `StoredOffsets.take` finds, or seek to where it says."""
        starts = self._offsets.take(partitions, self._consumer)
        self._backlog.add(self._offsets.ends(partitions))
        paused = [partition for partition in starts if self._paused.is_paused(partition)]
        self._paused.forget(starts)
        for partition, start in starts.items():
            self._consumer.seek(partition, start)
        self._consumer.resume(paused)

    def _stay_in_group(self) -> None:
        """Poll so that the group keeps this member while records wait. Assigned partitions wait behind them."""
        held = sorted(self._consumer.assignment())
        self._consumer.pause(held)
        try:
            self._attempts.unapplied += self._consume(1, 0.0)
        finally:
            self._consumer.resume([p for p in self._consumer.assignment() if not self._paused.is_paused(p)])

    def _try_paused(self) -> None:
        """Resume reading where a schema may be back. All records from there come again, so waiting ones are dropped."""
        if due := self._paused.try_due():
            unapplied = self._attempts.unapplied
            self._attempts.unapplied = [r for r in unapplied if r.offset < due.get(r.topic_partition, r.offset + 1)]
            self._consumer.resume(list(due))

    # --- looking at it, and its end -----------------------------------------------------------------------------

    def stats(self) -> ControlStats:
        """Return a snapshot. Any thread may call this: what the loop changes meanwhile is copied in one step first."""
        return ControlStats(
            outcomes=dict(self._commits.outcomes),
            batches=self._commits.batches,
            conflicts=self._attempts.conflicts,
            positions_lost=self._positions_lost,
            published=self._commits.published,
            unacknowledged=self._publisher.in_flight,
            runnable=len(self._runnable),
            scripts=self._scripts.count,
            undeliverable=dict(self._publisher.undeliverable()),
            held=self._publisher.held,
            doubled=frozenset((facet, first, other) for facet, (first, other) in self._commits.doubled.copy().items()),
            events=self._commits.events.shown(),
            owned=tuple(self._offsets.owned()),
            paused=self._paused.reasons(),
            timers=self._timers.stats(),
            firings=dict(self._commits.firings.copy()),
            republished=self._sweeps.republished,
            dead_letters=dict(self._commits.dead_letters.copy()),
        )

    def _broker_answers(self) -> bool:
        return self._consumer.view().unanswered_s < _LATE_ANSWER_S

    @property
    def consumer(self) -> Consumer:
        """The consumer of the loop's current membership."""
        return self._consumer

    def next_offset(self, partition: TopicPartition) -> int | None:
        """Return the offset behind what is applied of a partition; None: the partition is not ours."""
        return self._offsets.next_offset(partition)

    @property
    def workflows(self) -> WorkflowCache:
        """The workflows in memory."""
        return self._context.workflows

    @property
    def unacknowledged(self) -> int:
        """Return how many outbox records are sent and not acknowledged yet."""
        return self._publisher.in_flight

    @property
    def batches(self) -> int:
        """Return how many batches were committed."""
        return self._commits.batches

    def is_idle(self) -> bool:
        """Return whether no work is left: no workflow, script or due timer, no record unacknowledged or undeleted."""
        return not (
            self._runnable
            or self._timers.has_due()
            or self._sweeps.is_busy
            or self._scripts.count
            or self._attempts.unapplied
            or self._publisher.in_flight
            or self._publisher.has_published
        )

    def close(self, timeout_s: float = 10.0) -> None:
        """Stop cleanly: wait for acknowledgements, delete what was published, leave the group.

        What is not acknowledged in time stays in the outbox for the lane's next owner.
        """
        try:
            try:
                self._publisher.drain(timeout_s)
            except BrokerUnavailable as error:
                left = self._publisher.in_flight
                _log.warning("%d outbox records wait in the store for their lanes' next owner: %s", left, error)
            if self._publisher.has_published:
                self._commits.commit_published()
        finally:
            self.leave()

    def leave(self) -> None:
        """Leave the group and release everything, even in the middle of a batch: the store has what was persisted."""
        try:
            self._leave_group()
        finally:
            self._release()

    def _release(self) -> None:
        try:
            self._commits.close()
        finally:
            self._producer.close()

    def _leave_group(self) -> None:
        try:
            self._consumer.close()
        except TransportError as error:
            # The group finds out when our session has timed out.
            _log.warning("leaving the group failed: %s", error)
