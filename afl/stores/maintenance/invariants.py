"""Invariants of one workflow's rows: on their own, and against the program that it runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from afl.core.ids import derived_id, id_of_place
from afl.core.text.exception_text import exception_line
from afl.engine.errors import VersionMismatchError
from afl.engine.execution.execution import Execution
from afl.engine.execution.generations import current_steps
from afl.engine.execution.ports import RunEnvironment
from afl.engine.execution.restore import restore
from afl.engine.execution.run_bounds import RunBounds
from afl.engine.model.plan import WorkflowPlan
from afl.engine.model.records import StepRecord
from afl.engine.model.store import (
    CANCELLED,
    COMPLETED,
    ENDED_STATUSES,
    ERROR,
    PAUSED,
    RUNNING,
    Batch,
    StepDocument,
    WorkflowRow,
)
from afl.engine.model.upkeep import StepEntry
from afl.engine.states import CATCH_TRANSITIONS, EventState, StepState, select_transitions
from afl.engine.types import ObjectType
from afl.errors import AFLError
from afl.stores.maintenance.findings import Finding

_STATUSES: Final = frozenset({RUNNING, PAUSED, *ENDED_STATUSES})
_EVENT_STATES: Final = frozenset(
    {
        "",
        EventState.CREATED,
        EventState.DISPATCHED,
        EventState.PROCESSING,
        EventState.COMPLETED,
        EventState.ERROR,
        EventState.CANCELED,
        EventState.EXPIRED,
        EventState.RETRYING,
        EventState.WAITING,
    }
)
#: Errors that reading damaged rows may raise besides the specific ones.
_UNFIT: Final = (AFLError, LookupError, AssertionError, AttributeError, TypeError, ValueError, RecursionError)


def unreadable(kind: str, workflow_id: str, subject: str, error: Exception) -> Finding:
    """Return the finding of an artifact that cannot be read: one of another release, or a damaged one."""
    if isinstance(error, VersionMismatchError):
        expected = f"up to {error.expected_version}: {error.remedy}"
        return Finding(f"{kind}.version", workflow_id, subject, error.found, expected)
    return Finding(f"{kind}.unreadable", workflow_id, subject, str(error), "what was written")


def check_rows(row: WorkflowRow, entries: Sequence[StepEntry]) -> Iterator[Finding]:
    """Return the faults in a workflow's row and steps that do not depend on its program."""
    documents = {entry.step_id: entry.document for entry in entries if entry.document is not None}
    for entry in entries:
        if entry.error is not None:
            yield unreadable("step", row.id, entry.step_id, entry.error)
    bearers = defaultdict(set)
    for document in documents.values():
        bearers[document.number].add(_place_of(row, document.id))
    lost = len(entries) - len(documents)
    yield from _check_row(row, lost + (len(documents) if row.execution == 1 else len(bearers)))
    current = _counting(row, documents)
    yield from _check_root(row, current)
    for document in documents.values():
        yield from _check_step(row, document)
        yield from _check_relatives(row, document, documents)
        times = len(bearers[document.number])
        if not 0 <= document.number < max(row.steps, 1) or times > 1:
            found = f"number {document.number}, {times} times"
            yield Finding("step.number", row.id, document.id, found, f"one of 0 to {row.steps - 1}, once")
    for document in current.values():
        yield from _check_finished(row, document, current)


def _place_of(row: WorkflowRow, step_id: str) -> str:
    """Return the place of a row's step: rows of all generations share it, and have the number of the first."""
    return id_of_place(step_id) if row.execution > 1 and step_id.startswith(f"{row.id}:") else step_id


def _counting(row: WorkflowRow, documents: dict[str, StepDocument]) -> dict[str, StepDocument]:
    """Return the valid rows, of a workflow of which a part was run again; all rows where that cannot be decided."""
    try:
        in_order = sorted(documents.values(), key=lambda document: document.number)
        return {document.id: document for document in current_steps(in_order, row.execution)}
    except _UNFIT:
        return documents


def _check_row(row: WorkflowRow, steps: int) -> Iterator[Finding]:
    if row.status not in _STATUSES:
        yield Finding("workflow.status", row.id, "", row.status, f"one of {', '.join(sorted(_STATUSES))}")
    if row.revision < 1:
        yield Finding("workflow.revision", row.id, "", str(row.revision), "1 or more")
    if row.steps != steps:
        yield Finding("workflow.steps", row.id, "", f"{steps} steps", f"{row.steps}, as its row says")
    ended = row.status in ENDED_STATUSES
    if ended != (row.ended_at_ms > 0):
        expected = "the time of its end" if ended else "0: it has not ended"
        yield Finding("workflow.ended", row.id, "", f"{row.status}, ended_at_ms {row.ended_at_ms}", expected)
    if row.runnable != (row.status == RUNNING):
        found = f"{row.status}, {'' if row.runnable else 'not '}runnable"
        yield Finding("workflow.runnable", row.id, "", found, "runnable when it is RUNNING, and only then")


def _check_root(row: WorkflowRow, current: dict[str, StepDocument]) -> Iterator[Finding]:
    roots = [document for document in current.values() if document.container_id is None and document.root_id is None]
    if len(roots) != 1:
        yield Finding("workflow.root", row.id, "", f"{len(roots)} root steps", "one")
        return
    (root,) = roots
    wanted = {StepState.STATEMENT_COMPLETE: COMPLETED, StepState.STATEMENT_ERROR: ERROR}.get(root.state)
    found = ERROR if row.status == CANCELLED else row.status
    if (found if found in ENDED_STATUSES else None) != wanted:
        expected = wanted or "a status of an unfinished workflow"
        yield Finding("workflow.status", row.id, "", f"{row.status}, its root at {root.state}", expected)


def _check_step(row: WorkflowRow, document: StepDocument) -> Iterator[Finding]:
    if not 1 <= document.revision <= row.revision:
        found, expected = f"revision {document.revision}", f"1 to {row.revision}, the workflow's own"
        yield Finding("step.revision", row.id, document.id, found, expected)
    table = select_transitions(document.object_type)
    ends = (StepState.STATEMENT_COMPLETE, StepState.STATEMENT_ERROR)
    if document.state not in table and document.state not in CATCH_TRANSITIONS and document.state not in ends:
        expected = f"a state of the table of {document.object_type}"
        yield Finding("step.state", row.id, document.id, document.state, expected)
    if document.state == StepState.STATEMENT_ERROR and document.error is None:
        yield Finding("step.error", row.id, document.id, "no error at a failed step", "why it failed")
    yield from _check_event(row, document)


def _check_event(row: WorkflowRow, document: StepDocument) -> Iterator[Finding]:
    state = document.event_state
    if not state:
        return
    if state not in _EVENT_STATES:
        yield Finding("event.state", row.id, document.id, state, "a state of an event")
    if document.attempt < 1:
        yield Finding("event.attempt", row.id, document.id, f"attempt {document.attempt}", "1 or more")
    if not EventState.is_terminal(state) and document.state != StepState.EVENT_TRANSMIT:
        found = f"{state} at {document.state}"
        yield Finding("event.step", row.id, document.id, found, f"a step at {StepState.EVENT_TRANSMIT}")
    if not EventState.is_terminal(state) and row.status in ENDED_STATUSES:
        yield Finding("event.ended", row.id, document.id, f"{state}, the workflow {row.status}", EventState.CANCELED)


def _check_relatives(row: WorkflowRow, document: StepDocument, documents: dict[str, StepDocument]) -> Iterator[Finding]:
    for role in ("container_id", "block_id", "root_id"):
        named = getattr(document, role)
        if named is None:
            continue
        other = documents.get(named)
        if other is None:
            yield Finding(
                "step.parent", row.id, document.id, f"{role} {named}, which does not exist", "a step of the workflow"
            )
        elif role == "block_id" and not ObjectType.is_block(other.object_type):
            yield Finding("step.parent", row.id, document.id, f"block_id of a {other.object_type}", "a block")
    if document.container_id is None and document.object_type != ObjectType.WORKFLOW:
        yield Finding("step.parent", row.id, document.id, f"a {document.object_type} without container", "a container")


def _check_finished(row: WorkflowRow, document: StepDocument, current: dict[str, StepDocument]) -> Iterator[Finding]:
    """Yield unfinished steps inside a complete step."""
    for named in (document.container_id, document.block_id):
        outer = None if named is None else current.get(named)
        if (
            outer is not None
            and outer.state == StepState.STATEMENT_COMPLETE
            and not StepState.is_terminal(document.state)
        ):
            found = f"{document.state} inside of {named}, which is complete"
            yield Finding("step.unfinished", row.id, document.id, found, "all of it ended")


def check_against_program(row: WorkflowRow, documents: Sequence[StepDocument], plan: WorkflowPlan) -> Iterator[Finding]:
    """Return the faults that appear when otherwise valid rows are compared with the program."""
    try:
        # No event that is held back is to be released: nothing happens here.
        environment = RunEnvironment(_NoDispatch(), RunBounds(), max_open_events=0, runs_scripts=True)
        execution = restore(plan, row, documents, environment)
    except _UNFIT as error:
        yield Finding("workflow.program", row.id, "", exception_line(error), "rows that fit the program")
        return
    yield from _check_ids(row, documents, execution)
    if execution.is_ended:
        return
    can_continue = bool(execution.queue or execution.scripts)
    if can_continue and not row.runnable:
        waiting = [step.id for step in execution.queue] + list(execution.scripts)
        found = f"not runnable, and {waiting[0]} can continue"
        yield Finding("workflow.runnable", row.id, "", found, "runnable: otherwise no process continues it")
    if not can_continue and row.runnable and not execution.held_events:
        yield Finding("workflow.runnable", row.id, "", "runnable, and no step can continue", "not runnable")


def _check_ids(row: WorkflowRow, documents: Sequence[StepDocument], execution: Execution) -> Iterator[Finding]:
    start = f"{row.id}:"
    for document in documents:
        wanted = _derived(row, document, execution) if document.id.startswith(start) else None
        if wanted is not None and id_of_place(document.id) != wanted:
            yield Finding("step.id", row.id, document.id, document.id, f"{wanted}, derived from its place")


def _derived(row: WorkflowRow, document: StepDocument, execution: Execution) -> str | None:
    """Return the id that follows from a step's place; None where that cannot be decided."""
    if document.container_id is None:
        numbers = range(row.executions_before + 1, row.execution_number + 1)
        ids = [derived_id(row.id, row.id, f"execution-{number}") for number in numbers]
        return next((known for known in ids if known == id_of_place(document.id)), ids[0])
    if document.block_id is None:
        return derived_id(row.id, document.container_id, str(document.statement_id))
    if document.foreach_index is not None:
        return derived_id(row.id, document.block_id, str(document.foreach_index))
    if ObjectType.is_block(document.object_type):
        return derived_id(row.id, document.block_id, str(document.statement_id))
    key = _key_of(execution.steps.get(document.block_id), document)
    return None if key is None else derived_id(row.id, document.block_id, key)


def _key_of(block: StepRecord | None, document: StepDocument) -> str | None:
    plan = None if block is None else block.plan
    if plan is None:
        return None
    for statement in (*plan.statements, *plan.yields):
        if statement.id == document.statement_id:
            return statement.key.decode("utf-8", "surrogatepass")
    return None


class _NoDispatch:
    """A dispatch that sends nothing, while a workflow is only inspected."""

    def serves(self, execution: Execution) -> bool:  # noqa: ARG002 - the port's signature
        return True

    def dispatch(self, execution: Execution, step: StepRecord, event_id: str, effects: Batch) -> None: ...
    def answered(self, execution: Execution, step: StepRecord, effects: Batch) -> None: ...
    def ended(self, execution: Execution, effects: Batch) -> None: ...
