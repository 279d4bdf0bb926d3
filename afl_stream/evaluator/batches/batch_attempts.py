"""Attempts at a batch: it is computed and committed as a whole, or split, so that no workflow holds up another."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from afl.core.probes import Probe
from afl.engine.errors import PositionLost, WorkflowConflict
from afl_stream.errors import NewerFormat, NotEvaluable, NotStorable, SchemaGone, SchemaUnavailable
from afl_stream.evaluator.batches.batch_commits import BatchCommits
from afl_stream.evaluator.batches.earlier_commit import EarlierCommitFailed
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.offsets import StoredOffsets, ends_of
from afl_stream.evaluator.operator_commands import BatchOfItsOwn
from afl_stream.evaluator.paused_partitions import PausedPartitions
from afl_stream.evaluator.timers.timer_turns import TimerTurns
from afl_stream.evaluator.turns import Turn, take_turns, timers_of
from afl_stream.evaluator.unit_of_work import UnitOfWork
from afl_stream.evaluator.workflow_failure import fail_workflow, free_memory, not_evaluable
from afl_stream.transport import BrokerUnavailable, Consumer, Record, TopicPartition, TransportError
from afl_stream.wire.messages import Message

_log = logging.getLogger(__name__)

#: Attempts at a whole batch before it is split. A conflict is rare: another writer had one of its workflows.
_WHOLE_ATTEMPTS: Final = 2
#: Batches in a row that are computed while the one before is being committed; then all else has its turn.
_MOST_AHEAD: Final = 4


class Ahead(NamedTuple):
    """A batch that was computed while the one before was being committed, and is not committed itself."""

    records: list[Record]
    unit: UnitOfWork
    ends: Mapping[TopicPartition, int]


class BatchAttempts:
    """Computes batches and has them committed. Belongs to the loop's thread.

    A large batch of nothing but usual answers is committed beside the computing of the next one. In this order:
      1. hand its commit to another thread (`BatchCommits.begin`): it waits for the disk,
      2. read the records that are there already, and apply them on top of what is being committed (`control.ahead`),
      3. wait until the commit has ended (`control.persisted`), publish it, and let the offsets follow,
      4. go on at 1 with what 2 has made.

    A crash at any point leaves what the store has: between 1 and 3 all of the first batch or nothing of it, and never
    anything of the second, whose records are read again. If the commit fails, all that was computed on top of it is
    thrown away, and both batches are computed again from the stored state. One commit is in flight at most. What is not
    a usual answer relies on the store, so it waits for the commit in flight first; and so does a rebalance.
    """

    def __init__(
        self,
        context: EvaluatorContext,
        offsets: StoredOffsets,
        paused: PausedPartitions,
        commits: BatchCommits,
        timers: TimerTurns,
        probe: Probe,
        *,
        consumer: Callable[[], Consumer],
        read_here: Callable[[], list[Record]],
    ) -> None:
        """Take what an attempt needs. `read_here` returns records that have arrived, without a wait."""
        self._context = context
        self._offsets = offsets
        self._paused = paused
        self._commits = commits
        self._timers = timers
        self._probe = probe
        self._consumer = consumer
        self._read_here = read_here
        self._least_beside = context.config.evaluator.commit_beside_records
        #: Why records could not be read ahead: raised when the batches before are committed.
        self._late: Exception | None = None
        #: Records read, and not applied yet: a schema that cannot be looked up right now is waited for.
        self.unapplied: list[Record] = []
        self.conflicts = 0
        #: The CPU seconds that workflows of this batch have continued without a record.
        self.turns_s = 0.0

    def process(self, records: list[Record], turns: list[Turn]) -> int:
        """Handle records and turns, and records that arrive meanwhile; return the number of records."""
        handled, self.turns_s, self._late = len(records), 0.0, None
        ahead = self._process(records, turns, None, _MOST_AHEAD)
        for left in range(_MOST_AHEAD - 1, -1, -1):
            if ahead is None:
                break
            handled += len(ahead.records)
            ahead = self._process(ahead.records, [], ahead, left)
        self._raise_late()
        return handled

    def _raise_late(self) -> None:
        """Raise, once, why records could not be read ahead."""
        late, self._late = self._late, None
        if late is not None:
            raise late

    def _process(self, records: list[Record], turns: list[Turn], computed: Ahead | None, left: int) -> Ahead | None:
        """Handle one batch; return the next one, if it was computed meanwhile. At most `left` more may be."""
        waiting = records
        try:
            for _ in range(_WHOLE_ATTEMPTS):
                try:
                    return self._attempt(records, turns, computed, left)
                except (BatchOfItsOwn, NotStorable, NotEvaluable) as error:
                    if not isinstance(error, BatchOfItsOwn):
                        message = "a batch is split, and each of its records and turns is tried alone: %s"
                        self._context.warnings.warning("batches that are split", message, error)
                        free_memory(self._context)
                    break
                except WorkflowConflict as error:
                    self.conflicts += 1
                    _log.info("a batch of %d records met a conflict and is computed again: %s", len(records), error)
                    computed, left = None, 0
            # One at a time: no workflow holds up another. Records first: one of them may cancel whose turn it is.
            for index, record in enumerate(records):
                waiting = records[index:]
                self._attempt_until_done([record], [])
            waiting = []
            for turn in turns:
                self._attempt_until_done([], [turn])
        except (SchemaUnavailable, BrokerUnavailable):
            # Raised by reading a record or a workflow's program, or by publishing its end: no record is skipped.
            self.unapplied = [*waiting, *self.unapplied]
            raise
        return None

    def _attempt_until_done(self, records: list[Record], turns: list[Turn]) -> None:
        """Repeat until there is no conflict. Each conflict means that another writer made progress, so this ends."""
        while True:
            try:
                self._attempt_or_fail(records, turns)
                return
            except WorkflowConflict:
                self.conflicts += 1

    def _attempt_or_fail(self, records: list[Record], turns: list[Turn]) -> None:
        """Attempt a record or a turn, and end its workflow if that fails. Both raise WorkflowConflict."""
        try:
            self._attempt(records, turns, None, 0)
        except (NotStorable, NotEvaluable) as error:
            message = "the result of one record or turn ends its workflow"
            self._context.warnings.error(message, message, exc_info=error)
            workflow_id = turns[0].workflow_id if turns else None
            if turns and turns[0].timer is not None:
                self._timers.failed(turns[0].workflow_id)  # In case not even its end can be stored.
            record = records[0] if records else None
            fail_workflow(
                self._context, record, workflow_id, error, lambda unit: self._commits.commit(unit, ends_of(records))
            )

    def _attempt(self, records: list[Record], turns: list[Turn], computed: Ahead | None, left: int) -> Ahead | None:
        """Compute the batch, unless it was, and commit it; return the next one, if it was computed meanwhile."""
        if computed is not None:
            unit, ends = computed.unit, computed.ends
        else:
            unit = UnitOfWork(self._context, is_alone=len(records) + len(turns) == 1)
            ends = self._compute(unit, records, turns)
        if left and len(records) >= self._least_beside and not turns and unit.has_only_usual:
            self._commits.begin(unit, ends)
            return self._compute_ahead(unit)
        self._commits.commit(unit, ends)
        return None

    def _compute(self, unit: UnitOfWork, records: list[Record], turns: list[Turn]) -> dict[TopicPartition, int]:
        """Apply records and turns in memory, and return the offsets behind the records."""
        clock = self._context.clock
        until_s = clock.monotonic_s() + self._context.config.evaluator.batch_ms / 2_000
        with not_evaluable(turns[0].workflow_id if turns and not records else None):
            messages = unit.read(records)
            if self._context.observer is not None:
                self._context.observer.arrived(messages)
            # Before the records: a workflow that is cancelled here does not continue in its own turn.
            self.turns_s += take_turns(unit, turns, clock, until_s)
            ends = self._apply(unit, records, messages)
            self.turns_s += self._timers.fire(unit, timers_of(turns), has_records=bool(ends))
        self._probe("control.applied")
        return ends

    def _compute_ahead(self, unit: UnitOfWork) -> Ahead | None:
        """Compute what has arrived, on top of the unit that is being committed; return None when that was not possible.

        Records that were read, and are not part of the result, are `unapplied`. Raises what the commit raises.
        """
        following = None
        try:
            following = self._follow(unit)
        except EarlierCommitFailed as error:
            raise error.error from error
        except (TransportError, SchemaUnavailable, PositionLost) as error:
            self._late = error
        except (WorkflowConflict, BatchOfItsOwn, NotStorable, NotEvaluable) as error:
            # Of the records ahead: they are tried again on their own, and say it again.
            _log.debug("records that were read ahead are computed again: %s", error)
        except Exception:
            self._commits.complete()
            raise
        except BaseException:
            self._commits.abandon()
            raise
        self._commits.complete()
        if following is not None:
            self.unapplied = []
        return following

    def _follow(self, unit: UnitOfWork) -> Ahead | None:
        records = self._read_here()
        if not records:
            return None
        self.unapplied = records
        following = UnitOfWork(self._context, earlier=unit, complete=self._commits.complete)
        ends = self._compute(following, records, [])
        self._probe("control.ahead")
        return Ahead(records, following, ends)

    def _apply(
        self, unit: UnitOfWork, records: list[Record], messages: list[Message | Exception | None]
    ) -> dict[TopicPartition, int]:
        """Apply the records, and return the offsets behind those applied.

        Records of a paused partition wait. Records behind the position are left out: a rebalance may deliver a record
        again within one read.
        """
        ends: dict[TopicPartition, int] = {}
        partition: TopicPartition | None = None
        next_offset: int | None = None
        paused = self._paused.partitions
        for record, message in zip(records, messages, strict=True):
            if partition is None or record.partition != partition.partition or record.topic != partition.topic:
                partition = record.topic_partition
                next_offset = ends.get(partition, self._offsets.next_offset(partition))
            if next_offset is None or record.offset < next_offset:
                continue
            if paused and self._paused.holds(partition, record.offset):
                continue
            try:
                unit.apply(record, message)
            except (NewerFormat, SchemaGone) as error:
                self._pause(record, error)
                continue
            if paused:
                self._paused.passed(partition, record.offset)
            ends[partition] = next_offset = record.offset + 1
        return ends

    def _pause(self, record: Record, error: NewerFormat | SchemaGone) -> None:
        """Pause the record's partition; if its schema is gone, the record and those behind it are retried later."""
        partition = record.topic_partition
        self._paused.add(record, error)
        text = "%s[%d] is paused at offset %d: %s"
        self._context.warnings.error(f"pauses of {partition.topic}", text, *partition, record.offset, error)
        self._consumer().seek(partition, record.offset)
        self._consumer().pause([partition])
