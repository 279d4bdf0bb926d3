"""Parked answers: judged again when their step may have asked, and given up when they expire."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter

from afl.core.clock import MonotonicClock, monotonic_s
from afl.engine.errors import WorkflowConflict
from afl.engine.model.store import ParkedHead, ParkedRecord, ParkedWorkflow
from afl_stream.errors import AnswerExpired, NewerFormat, NotEvaluable, NotStorable, SchemaUnavailable, Unreadable
from afl_stream.evaluator.batch_outputs import record_of
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.outcomes import PARKED
from afl_stream.evaluator.unit_of_work import UnitOfWork
from afl_stream.evaluator.workflow_failure import fail_workflow, free_memory, not_evaluable

_log = logging.getLogger(__name__)

#: How long one turn may keep the loop from its records. The rest waits for the next turn.
_TURN_S = 0.2
#: Limits of parked records for one question to the store and for one batch, and of their values' bytes.
_HEADS_ASKED = 20_000
_BATCH_RECORDS = 500
_BATCH_BYTES = 16 * 1024 * 1024
#: Heads of expired answers read at once: some belong to other evaluators.
_HEADS_EXPIRED = 10_000


class ParkedAnswers:
    """Judges the parked answers of the workflows whose partitions this evaluator owns. Belongs to the loop's thread.

    Values are read only of answers whose step is in the store, or whose workflow has ended, or that have expired. An
    answer that was read and is still early is read again when its step has changed.

    A turn is short, so its order is fair: workflows that are hot here come first, because active workflows are hot, and
    among the others those with few parked answers; one answer of each workflow is judged before a second one of any;
    within a workflow the answers whose step has changed last come first.
    """

    def __init__(
        self,
        context: EvaluatorContext,
        commit: Callable[[UnitOfWork], None],
        monotonic_s: MonotonicClock = monotonic_s,
    ) -> None:
        """Take the context; `commit` persists a unit and publishes it."""
        self._context = context
        self._commit = commit
        self._monotonic_s = monotonic_s
        #: The revision at which each workflow's parked answers were last judged.
        self._judged: dict[str, int] = {}
        #: Answers that were read and are still early: the revision of their step then.
        self._early: dict[str, int] = {}
        #: Workflows of which an answer could not be judged, the last one tried at the end.
        self._waiting: dict[str, None] = {}
        #: Expired answers that wait for an upgrade.
        self._newer: set[str] = set()

    def turn(self, now_ms: int) -> None:
        """Judge and expire what is due, for a short time."""
        until_s = self._monotonic_s() + _TURN_S
        self._context.parking.forget()
        self._expire(now_ms, until_s)
        self._judge_changed(until_s)

    # --- what may have found its step ---------------------------------------------------------------------------

    def _judge_changed(self, until_s: float) -> None:
        there = self._context.store.parked_workflows()
        if not there:
            self._judged.clear()
            self._early.clear()
            self._waiting.clear()
            return
        owns = self._context.lanes.owns
        changed = [at for at in there if self._judged.get(at.workflow_id) != at.revision and owns(at.workflow_id)]
        changed.sort(key=lambda at: (self._context.workflows.hot_revision(at.workflow_id) is None, at.records))
        self._forget_gone(there)
        others = [at for at in changed if at.workflow_id not in self._waiting]
        waiting = [at for at in changed if at.workflow_id in self._waiting]
        for asked in (*_by_records(others), *_by_records(waiting)):
            heads: dict[str, list[ParkedHead]] = {at.workflow_id: [] for at in asked}
            for head in self._context.store.parked_due(heads):
                if self._early.get(head.id) != head.step_revision or not head.step_revision:
                    heads[head.workflow_id].append(head)
            for batch in _by_bytes(_in_turn(heads.values())):
                left = self._judge(batch, until_s)
                for workflow_id in left:
                    heads.pop(workflow_id, None)
                if self._monotonic_s() > until_s:
                    return  # Nothing is noted of the rest: what is decided is gone, what is early is not read again.
            # Noted only now: an answer that could not be judged (its schema is unavailable) is due again.
            self._judged.update({at.workflow_id: at.revision for at in asked if at.workflow_id in heads})
            if self._monotonic_s() > until_s:
                return

    def _judge(self, heads: Sequence[ParkedHead], until_s: float) -> set[str]:
        """Judge these in one batch, or one by one if that is refused; return the workflows that are left for later."""
        rows = self._context.store.parked(ids=[head.id for head in heads], limit=len(heads))
        left = set() if self._try(rows) else self._judge_each(rows, until_s)
        judged = [head for head in heads if head.workflow_id not in left]
        self._early.update({head.id: head.step_revision for head in judged})
        for head in judged if self._waiting else ():
            self._waiting.pop(head.workflow_id, None)
        return left

    def _judge_each(self, rows: Sequence[ParkedRecord], until_s: float) -> set[str]:
        """Judge one by one, at least one, so that no workflow holds up another; return the workflows left for later.

        Workflows of which an answer could not be judged before come last, in turn.
        """
        left: set[str] = set()
        for number, row in enumerate(sorted(rows, key=self._turns())):
            if row.workflow_id in left:
                continue
            if number and self._monotonic_s() > until_s:
                left.add(row.workflow_id)
                continue
            self._waiting.pop(row.workflow_id, None)
            if not self._try_one(row):
                left.add(row.workflow_id)
                self._waiting[row.workflow_id] = None
        return left

    def _turns(self) -> Callable[[ParkedRecord | ParkedHead], int]:
        """Return the order in which answers are judged: workflows that wait come last, the last tried behind them."""
        turns = {workflow_id: number for number, workflow_id in enumerate(self._waiting, 1)}
        return lambda answer: turns.get(answer.workflow_id, 0)

    def _try(self, rows: list[ParkedRecord]) -> bool:
        try:
            self._apply(rows)
        except (WorkflowConflict, SchemaUnavailable):
            return False
        except (NotStorable, NotEvaluable):
            free_memory(self._context)
            return False
        return True

    def _apply(self, rows: list[ParkedRecord]) -> None:
        unit = UnitOfWork(self._context)
        with not_evaluable():
            judge_again(unit, rows)
        self._commit(unit)

    def _try_one(self, row: ParkedRecord) -> bool:
        """Judge one answer; return False if it has to be judged later.

        Another writer has its workflow, its schema is unavailable, or not even its end can be stored. No other answer
        waits for it.
        """
        try:
            try:
                self._apply([row])
            except (NotStorable, NotEvaluable) as error:
                self._end_workflow_of(row, error)
        except WorkflowConflict:
            return False
        except SchemaUnavailable as error:
            waits = "a parked answer to step %s waits: %s"
            self._context.warnings.warning("parked answers whose schemas are away", waits, row.step_id, error)
            return False
        except NotStorable as error:
            waits = "a parked answer to step %s waits, because the end of its workflow cannot be stored: %s"
            self._context.warnings.error("parked answers whose workflows cannot be ended", waits, row.step_id, error)
            return False
        return True

    def _end_workflow_of(self, row: ParkedRecord, error: NotStorable | NotEvaluable) -> None:
        def commit(unit: UnitOfWork) -> None:
            unit.batch.unparked.append(row.id)
            self._commit(unit)

        given_up = "the result of a parked answer ends its workflow"
        self._context.warnings.error(
            given_up, "a parked answer to step %s ends its workflow", row.step_id, exc_info=error
        )
        fail_workflow(self._context, record_of(row), None, error, commit)

    def _forget_gone(self, there: Sequence[ParkedWorkflow]) -> None:
        """Drop notes about answers that are no longer parked."""
        if len(self._judged) > 2 * len(there):
            names = {at.workflow_id for at in there}
            self._judged = {name: revision for name, revision in self._judged.items() if name in names}
            self._waiting = {name: None for name in self._waiting if name in names}
        if len(self._early) > 2 * sum(at.records for at in there):
            self._early.clear()

    # --- whose time is over -------------------------------------------------------------------------------------

    def _expire(self, now_ms: int, until_s: float) -> None:
        """Give up expired answers, those of many workflows in one batch."""
        heads = self._context.store.parked_heads(expired_at_ms=now_ms, limit=_HEADS_EXPIRED + len(self._newer))
        if not heads:
            self._newer.clear()
            return
        due = [head for head in heads if head.id not in self._newer and self._context.lanes.owns(head.workflow_id)]
        due.sort(key=self._turns())
        for batch in _by_bytes(due):
            self._dead_letter(batch, until_s)
            self._context.parking.forget_all()
            if self._monotonic_s() > until_s:
                break

    def _dead_letter(self, heads: Sequence[ParkedHead], until_s: float) -> None:
        store = self._context.store
        revisions = store.revisions({head.workflow_id for head in heads})
        # One that has found its step after all is judged as ever.
        found = {head.id for head in store.parked_due(list(revisions))}
        rows = store.parked(ids=[head.id for head in heads], limit=len(heads))
        unit = UnitOfWork(self._context)
        try:
            with not_evaluable():
                self._expire_in(unit, [row for row in rows if row.id not in found], revisions)
                judge_again(unit, [row for row in rows if row.id in found])
            self._commit(unit)
        except (WorkflowConflict, NotStorable, NotEvaluable, SchemaUnavailable) as error:
            _log.info("expired answers are judged one after the other: %s", error)
            self._judge_each(rows, until_s)
            return
        self._newer.update({row.id for row in rows}.difference(unit.batch.unparked))

    def _expire_in(self, unit: UnitOfWork, rows: Iterable[ParkedRecord], revisions: Mapping[str, int]) -> None:
        """Give up answers whose steps were not in the store when their workflows were at these revisions."""
        for row in rows:
            record = record_of(row)
            error: Exception = AnswerExpired(row.step_id, (unit.now_ms - row.parked_at_ms) // 1000)
            try:
                self._context.codec.decode(record.value, record.headers, json_allowed=True)
            except NewerFormat as newer:
                waits = "a parked answer to step %s waits for an upgrade: %s"
                self._context.warnings.error("parked answers that wait for an upgrade", waits, row.step_id, newer)
                continue
            except Unreadable as unreadable:
                error = unreadable
            unit.outputs.dead_letter(record, error)
            unit.batch.confirms[row.workflow_id] = revisions.get(row.workflow_id, 0)
            unit.batch.unparked.append(row.id)


def _by_records(found: Iterable[ParkedWorkflow]) -> Iterator[list[ParkedWorkflow]]:
    """Return slices whose parked records fit one question."""
    asked: list[ParkedWorkflow] = []
    records = 0
    for at in found:
        if asked and records + at.records > _HEADS_ASKED:
            yield asked
            asked, records = [], 0
        asked.append(at)
        records += at.records
    if asked:
        yield asked


def _in_turn(found: Iterable[list[ParkedHead]]) -> list[ParkedHead]:
    """Return one answer of each workflow, then the next of each.

    Within a workflow, the answers whose step has changed last come first; those to one step keep the order in which
    they were parked, because the first of them wins.
    """
    ranked = [
        (rank, head)
        for heads in found
        for rank, head in enumerate(sorted(heads, key=attrgetter("step_revision"), reverse=True))
    ]
    ranked.sort(key=itemgetter(0))
    return [head for _, head in ranked]


def _by_bytes(heads: Iterable[ParkedHead]) -> Iterator[list[ParkedHead]]:
    """Return slices whose values fit in memory together."""
    batch: list[ParkedHead] = []
    size_bytes = 0
    for head in heads:
        if batch and (len(batch) >= _BATCH_RECORDS or size_bytes + head.size_bytes > _BATCH_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append(head)
        size_bytes += head.size_bytes
    if batch:
        yield batch


def judge_again(unit: UnitOfWork, rows: Sequence[ParkedRecord]) -> None:
    """Judge parked records again.

    Those that have found their step are settled; the others stay until they expire.
    """
    for row in rows:
        record = record_of(row)
        try:
            outcome = unit.parked_answer(record)
        except NewerFormat as error:
            waits = "a parked answer to step %s waits for an upgrade: %s"
            unit.warnings.error("parked answers that wait for an upgrade", waits, row.step_id, error)
            continue
        if outcome in PARKED:
            if row.expires_at_ms > unit.now_ms:
                continue
            unit.outputs.dead_letter(record, AnswerExpired(row.step_id, (unit.now_ms - row.parked_at_ms) // 1000))
        else:
            unit.note_parked(row, outcome)
        unit.batch.unparked.append(row.id)
