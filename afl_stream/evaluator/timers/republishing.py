"""Events without an answer are published again before their topic deletes them.

An event is due at half of its topic's retention after its step was created, at the full retention, and so on. Of an
event that is due several times, because no evaluator ran, one copy is published.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import Final, NamedTuple

from afl.core.ids import event_id_of
from afl.core.probes import Probe, no_probe
from afl.engine.errors import StoreCorrupt, VersionMismatchError, WorkflowConflict
from afl.engine.execution.execution import Execution
from afl.engine.model.records import StepRecord
from afl.engine.model.store import ScheduleChange, ScheduleRow, StepDocument
from afl.engine.model.upkeep import Created
from afl.engine.states import EventState, StepState
from afl_stream.errors import EventTooLarge, NotStorable, SchemaUnavailable, ValueRefused
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.refusals import REFUSALS
from afl_stream.evaluator.timers.topic_retention import TopicRetention
from afl_stream.evaluator.unit_of_work import UnitOfWork
from afl_stream.evaluator.workflow_failure import EXHAUSTED
from afl_stream.partitioner import partition_for
from afl_stream.transport import Admin

_log = logging.getLogger(__name__)

#: Workflows that one turn passes by, those of them that it looks at, and events that one turn publishes.
_MOST_PASSED: Final = 1_000
_MOST_LOOKED_AT: Final = 100
_MOST_PUBLISHED: Final = 100
#: Due events that one pass remembers: those due first. The next pass finds the others.
_MOST_REMEMBERED: Final = 10_000
#: The shortest time between two passes, as a part of half of the shortest retention.
_PASSES_A_HALF: Final = 100
#: When a pass that could not be ended is tried again.
_AFTER_ERROR_MS: Final = 60_000
#: Behind every time.
_NEVER_MS: Final = (1 << 63) - 1
#: The end of an iterator.
_OVER: Final = object()
#: Events in these states wait for an agent.
_UNANSWERED: Final = frozenset({EventState.CREATED, EventState.DISPATCHED, EventState.PROCESSING})


class _DueEvent(NamedTuple):
    """An event to publish again. They are published in this order."""

    #: When it was due last, ms since the epoch.
    due_ms: int
    step_id: str
    workflow_id: str
    attempt: int


class Republishing:
    """Looks through old unfinished workflows, and publishes their unanswered events again, a little in each turn.

    For the due events of one control partition, in this order:
      1. find them in the store (`republish.found`),
      2. encode some of them again, each under its id (`republish.encoded`),
      3. write them to the outbox, and in the same transaction how far that has come (`control.persisted`).

    A crash before 3 leaves all of it to the next owner. From 3 on nobody publishes them again before they are due
    again: how far it has come is a row that is advanced by compare-and-set. Revisions guard against an answer that
    comes meanwhile.

    Belongs to the loop's thread; nothing depends on when it runs.
    """

    def __init__(
        self,
        context: EvaluatorContext,
        admin: Admin,
        commit: Callable[[UnitOfWork], None],
        probe: Probe = no_probe,
    ) -> None:
        """Take the context; `commit` persists a unit and publishes it."""
        self._context = context
        self._commit = commit
        self._probe = probe
        self._retention = TopicRetention(admin, context.topology, context.clock)
        self._partitions: frozenset[int] = frozenset()
        #: When the next pass begins, ms since the epoch.
        self._next_ms = 0
        #: The pass that is under way: what is left to look at; None: there is none.
        self._pass: Iterator[None] | None = None
        #: The due events of partitions, and up to where the store says that they were published.
        self._due: dict[int, list[_DueEvent]] = {}
        self._told: dict[int, ScheduleRow | None] = {}
        #: Events that one commit publishes: fewer of them where they are too large together.
        self._most_published = _MOST_PUBLISHED
        #: Copies that were published.
        self.count = 0

    @property
    def is_busy(self) -> bool:
        """Return whether a pass is under way, or events are still to be published."""
        return self._pass is not None or bool(self._due)

    def run_due(self) -> None:
        """Do a little of what is due."""
        partitions, now_ms = self._context.lanes.owned, self._context.clock.now_ms()
        if partitions != self._partitions:
            self._partitions, self._pass, self._next_ms = partitions, None, 0
            self._due.clear()
        try:
            if not self.is_busy and partitions and now_ms >= self._next_ms:
                self._begin(now_ms)
            if self._pass is not None:
                self._pass = self._pass if next(self._pass, _OVER) is None else None
            elif self._due:
                self._publish_some()
        except (StoreCorrupt, VersionMismatchError) as error:
            self._context.warnings.error("events that are not published again", "%s", error)
            self._pass, self._next_ms = None, now_ms + _AFTER_ERROR_MS

    # --- looking for what is due --------------------------------------------------------------------------------

    def _begin(self, now_ms: int) -> None:
        halves = self._retention.halves_ms()
        shortest_ms = min(halves.values(), default=None)
        if shortest_ms is None:
            # Asked again then: topics may be created, and settings changed.
            self._next_ms = now_ms + _AFTER_ERROR_MS
            return
        store = self._context.store
        self._most_published = _MOST_PUBLISHED
        self._told = {number: store.schedule(_row_id(number)) for number in self._partitions}
        self._pass = self._look(now_ms, halves, shortest_ms)

    def _look(self, now_ms: int, halves: Mapping[str, int], shortest_ms: int) -> Iterator[None]:
        """Look at some workflows in each step, and at the end note what is due, and when the next pass begins."""
        store, count = self._context.store, self._context.config.topics.control_partitions
        found: dict[int, list[_DueEvent]] = {}
        next_ms, looked_at = now_ms + shortest_ms, 0
        after: Created | None = None
        while page := store.unfinished_workflows(
            created_before_ms=now_ms - shortest_ms + 1, after=after, limit=_MOST_PASSED
        ):
            after = page[-1]
            for created in page:
                partition = partition_for(created.workflow_id.encode(), count)
                if partition not in self._partitions:
                    continue
                for step in self._waiting_steps(created.workflow_id):
                    half_ms = self._half_ms(step, halves)
                    if half_ms is None:
                        continue
                    due_ms = step.created_at_ms + (now_ms - step.created_at_ms) // half_ms * half_ms
                    next_ms = min(next_ms, due_ms + half_ms)
                    event = _DueEvent(due_ms, step.id, created.workflow_id, step.attempt)
                    if due_ms > step.created_at_ms and event[:2] > _told_in(self._told[partition]):
                        found.setdefault(partition, []).append(event)
                looked_at += 1
                if not looked_at % _MOST_LOOKED_AT:
                    yield
            if sum(map(len, found.values())) > 2 * _MOST_REMEMBERED:
                found = {number: nsmallest(_MOST_REMEMBERED, events) for number, events in found.items()}
                next_ms = now_ms
            yield
        for younger in store.unfinished_workflows(created_before_ms=_NEVER_MS, after=after, limit=1):
            next_ms = min(next_ms, younger.created_at_ms + shortest_ms)
        self._next_ms = max(next_ms, now_ms + shortest_ms // _PASSES_A_HALF)
        self._due = {number: sorted(events) for number, events in found.items()}
        if found:
            self._probe("republish.found")

    def _waiting_steps(self, workflow_id: str) -> list[StepDocument]:
        """Return the steps of a run that wait; none of one that cannot be read, which holds up no other."""
        try:
            return self._context.store.load_steps(workflow_id, state=StepState.EVENT_TRANSMIT)
        except (StoreCorrupt, VersionMismatchError) as error:
            text = "run %s cannot be read, and its events are not published again: %s"
            self._context.warnings.error("runs whose events are not published again", text, workflow_id, error)
            return []

    def _half_ms(self, step: StepDocument, halves: Mapping[str, int]) -> int | None:
        """Return half of the time that the topic keeps the step's unanswered event; None: it is not to be repeated."""
        if step.event_state not in _UNANSWERED or not self._context.topology.carries(step.facet_name):
            return None
        return halves.get(self._context.topology.facet(step.facet_name))

    # --- publishing it ------------------------------------------------------------------------------------------

    def _publish_some(self) -> None:
        partition, events = next(iter(self._due.items()))
        some, rest = events[: self._most_published], events[self._most_published :]
        try:
            self._publish(partition, some)
        except SchemaUnavailable as error:
            self._context.warnings.warning("events to publish again whose schemas are away", "%s", error)
            return
        except WorkflowConflict:
            # Answered meanwhile, or another owner was faster: look again.
            rest = []
            self._next_ms = 0
        except NotStorable as error:
            if len(some) > 1:
                self._most_published = len(some) // 2  # Together they are too large, or one of them is.
                return
            text = "the event of step %s is not published again for now: %s"
            self._context.warnings.error("events that are not published again", text, some[0].step_id, error)
        if rest:
            self._due[partition] = rest
        else:
            del self._due[partition]

    def _publish(self, partition: int, events: Sequence[_DueEvent]) -> None:
        unit, told = UnitOfWork(self._context), self._told[partition]
        for event in events:
            self._repeat(unit, event)
        self._probe("republish.encoded")
        copies = len(unit.batch.outbox)
        row = ScheduleRow(
            _row_id(partition),
            1 if told is None else told.revision + 1,
            # Nobody is woken for it.
            None,
            {"due_ms": events[-1].due_ms, "step_id": events[-1].step_id},
        )
        unit.batch.schedules.append(ScheduleChange(row.id, row.revision - 1, row))
        self._commit(unit)
        self._told[partition] = row
        self.count += copies
        if copies:
            _log.info("%d events without an answer were published again", copies)

    def _repeat(self, unit: UnitOfWork, event: _DueEvent) -> None:
        """Add a copy of an event, if it is still unanswered."""
        try:
            execution = unit.execution(event.workflow_id, is_checked=True)
            step = execution.steps.get(event.step_id) if execution is not None and not execution.is_ended else None
            if execution is not None and execution.lane and step is not None and _waits(step, event.attempt):
                event_id = event_id_of(step.id, step.attempt)
                self._context.dispatch.repeat(execution, step, event_id, sent_at_ms(execution, step), unit.batch)
        except (*REFUSALS, *EXHAUSTED, VersionMismatchError, ValueRefused, EventTooLarge) as error:
            text = "the event of step %s cannot be published again: %s"
            unit.warnings.error("events that cannot be published again", text, event.step_id, error)
            return
        unit.confirm(event.workflow_id)


def sent_at_ms(execution: Execution, step: StepRecord) -> int:
    """Return when the step's event was sent, in milliseconds since the epoch, as far as that is known.

    That of a later attempt is not known, and the copy is of now: agents skip events that are older than a cancellation
    of the run, which may have been run again since.
    """
    return step.created_at_ms if step.attempt == 1 and execution.later is None else execution.now_ms


def _waits(step: StepRecord, attempt: int) -> bool:
    return step.attempt == attempt and step.event_state in _UNANSWERED


def _row_id(partition: int) -> str:
    return f"#republish/{partition}"


def _told_in(row: ScheduleRow | None) -> tuple[int, str]:
    """Return up to which event, by time and step id, a row says that all were published again."""
    if row is None:
        return 0, ""
    due_ms, step_id = row.document.get("due_ms"), row.document.get("step_id")
    return (due_ms if isinstance(due_ms, int) else 0), (step_id if isinstance(step_id, str) else "")
