"""Migration: a run that has not ended moves to another version of its program, with all that it has done.

Its rows stay: their ids, states, values and attempts. Events in flight are answered as before, and what has not begun
yet is done as the new version says. Like other actions of operators it works on the rows of one revision, and the
workflow is read back from them, by the new version's plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from afl.engine.errors import ScriptsNotAllowed
from afl.engine.execution.commit_rows import keep_program
from afl.engine.execution.execution import Execution
from afl.engine.execution.making import make_block
from afl.engine.execution.step_log import note
from afl.engine.model.entities import NoteType
from afl.engine.model.plan import BlockPlan, FacetPlan, StatementPlan, WorkflowPlan
from afl.engine.model.store import ENDED_STATUSES, StepDocument, WorkflowRow
from afl.engine.operations.misfits import misfits_of
from afl.engine.operations.operation_errors import AlreadyOnVersion, NothingToMove, VersionDoesNotFit
from afl.engine.operations.operations import note_command
from afl.engine.operations.version_parts import calling, places_of
from afl.engine.planning.binding import with_defaults
from afl.engine.states import StepState

#: Loads a workflow from rows, by this plan.
RestoreBy = Callable[[WorkflowPlan, WorkflowRow, Sequence[StepDocument]], Execution]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """An operator's wish that a run moves to the version of this plan. `command_id` as in `Action`."""

    plan: WorkflowPlan
    reason: str = ""
    command_id: str | None = None


def migrate(
    was: WorkflowPlan, row: WorkflowRow, documents: Sequence[StepDocument], move: Move, restore: RestoreBy
) -> Execution:
    """Move a run, whose plan is `was`, to another version. Nothing is written: commit the returned run.

    Raises OperationRefused: NothingToMove, AlreadyOnVersion, VersionDoesNotFit; and ScriptsNotAllowed.
    """
    now = move.plan
    if row.status in ENDED_STATUSES:
        raise NothingToMove(workflow_id=row.id, status=row.status)
    if row.program == now.fingerprint:
        raise AlreadyOnVersion(workflow_id=row.id, program=row.program)
    if misfits := misfits_of(was, now, row, documents):
        raise VersionDoesNotFit(workflow_id=row.id, program=now.fingerprint, misfits=misfits)
    changed = _changed(was, now, row, documents)
    moved = [changed.get(document.id, document) for document in documents]
    execution = restore(now, row._replace(program=now.fingerprint), moved)
    if now.scripted and not execution.runs_scripts:
        raise ScriptsNotAllowed(declaration=now.scripted[0])
    for step_id, document in changed.items():
        step = execution.steps.get(step_id)
        if step is not None:
            execution.touch(step)
        else:
            execution.documents.append(document._replace(revision=execution.revision + 1))
    _begin_further_blocks(execution)
    keep_program(now.program, execution.effects)
    _note(execution, move, was.fingerprint)
    return execution


def _changed(
    was: WorkflowPlan, now: WorkflowPlan, row: WorkflowRow, documents: Sequence[StepDocument]
) -> dict[str, StepDocument]:
    """Return the rows that differ under the new version: names of the compiler's own, and inputs with new defaults."""
    changed = {}
    for place in places_of(was, now, row, documents):
        document, part = place.document, place.now
        after = document
        if isinstance(part, StatementPlan):
            after = after._replace(statement_id=part.id)
        elif isinstance(part, BlockPlan):
            variable = part.variable if document.foreach_index is not None else None
            after = after._replace(foreach_var=variable)
        elif isinstance(part, FacetPlan):
            params = with_defaults(dict(document.params), part.parameter_defaults, None)
            after = after._replace(params=params)
        if after != document:
            changed[document.id] = after
    return changed


def _begin_further_blocks(execution: Execution) -> None:
    """Make the andThen blocks that the new version adds to calls which wait for theirs, the run itself among them."""
    for step in list(execution.steps.values()):
        part = step.statement or step.mixin or step.facet
        call = None if part is None or step.state != StepState.STATEMENT_BLOCKS_CONTINUE else calling(part)
        if call is None:
            continue
        there = {block.plan.name for block in step.blocks or () if block.plan is not None}
        for plan in call.blocks:
            if plan.name not in there:
                step.blocks = [*(step.blocks or ()), make_block(execution, step, plan)]
                step.blocks_open += 1
    if execution.made:
        execution.leave_made()


def _note(execution: Execution, move: Move, before: str) -> None:
    """Add an entry about the move to the run's log."""
    name, after = execution.plan.name, execution.plan.fingerprint
    details: dict[str, object] = {"action": "migrate", "from": before, "to": after}
    if move.reason:
        details["reason"] = move.reason
    key = f"migrate-{execution.revision + 1}"
    note(execution, execution.root, key, NoteType.INFO, f"migrate of {name} from {before} to {after}", details)
    if move.command_id is not None:
        note_command(execution, move.command_id)
