"""The commands of operators that work on a stored workflow: it runs again, or moves to another version of its program.

What they do to the workflow is the engine's; here are their place in a unit of work, and their answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from afl.compiled.program import ProgramError
from afl.engine.operations.migration import Move
from afl.engine.operations.operations import Action, Kind, was_done
from afl_stream.errors import NothingToRunAgain
from afl_stream.evaluator.outcomes import Outcome
from afl_stream.evaluator.run_commands import check_topics
from afl_stream.registry.errors import SchemaRefused
from afl_stream.run_errors import NothingToMigrate
from afl_stream.wire.bounded_texts import kept_id, kept_reason
from afl_stream.wire.messages import Lifecycle, MigrateWorkflow, RerunStep, ResetWorkflow, RetryStep, RunAgain
from afl_stream.wire.milestone_kinds import WORKFLOW_MIGRATED

if TYPE_CHECKING:
    from afl_stream.evaluator.context import EvaluatorContext
    from afl_stream.evaluator.unit_of_work import UnitOfWork

_KINDS: Final = {RetryStep: Kind.RETRY, RerunStep: Kind.RERUN, ResetWorkflow: Kind.RESET}
#: The milestone of each action.
MILESTONES: Final = {
    Kind.RETRY: "workflow.retried",
    Kind.RERUN: "workflow.rerun",
    Kind.RESET: "workflow.reset",
}


class BatchOfItsOwn(Exception):
    """A command works on a stored workflow that the batch has changed, so its records are applied one by one."""


def action_of(command: RunAgain) -> Action:
    """Return the action that a command asks of the engine."""
    return Action(
        kind=_KINDS[type(command)],
        step_id=None if isinstance(command, ResetWorkflow) else command.step_id,
        reason=kept_reason(command.reason),
        command_id=kept_id(command.command_id),
    )


def run_again(context: EvaluatorContext, unit: UnitOfWork, command: RunAgain) -> Outcome:
    """Open a workflow again.

    It is committed as it was opened, and continues in a later batch. A command whose id is in the log of its run has
    been carried out: the entry is written in the commit that opens the workflow.

    Raises NothingToRunAgain, OperationRefused, BatchOfItsOwn, and what reading the workflow raises.
    """
    action, workflow_id = action_of(command), command.workflow_id
    if _was_done(context, unit, command):
        return Outcome.DUPLICATE
    known = _is_there(unit, workflow_id)
    opened = context.workflows.open_again(workflow_id, action) if known else None
    if opened is None:  # Also one that was purged in this moment.
        is_purged = context.store.tombstone(workflow_id) is not None
        raise NothingToRunAgain(workflow_id, is_purged=is_purged)
    # Later than the cancel that it may follow, whatever the clocks say: agents skip events that are not later.
    opened.execution.now_ms = max(unit.now_ms, opened.execution.now_ms) + 1
    unit.add(opened.execution)
    unit.over_budget.append(workflow_id)
    # Between earlier and later questions: agents tell the two apart by it.
    at_ms = opened.execution.now_ms - 1
    milestone, command_id = MILESTONES[action.kind], command.command_id
    unit.outputs.tell(workflow_id, milestone, step_id=action.step_id, at_ms=at_ms, command_id=command_id)
    return Outcome.APPLIED


def migrate(context: EvaluatorContext, unit: UnitOfWork, command: MigrateWorkflow) -> Outcome:
    """Move a workflow that has not ended to another version of its program.

    In this order:
      1. look for the command in the log of the run: one that is there has been carried out,
      2. find the version, announce the schemas of its events, and look for their topics,
      3. read the run as it is stored, compare it with the version, and read it back by that, with an entry in its log
         (`migrate.moved`),
      4. tell subscribers (`control.applied`),
      5. persist as changes of this unit, if the run still has the revision that 3 has read: the run's row, the program,
         the entry, the milestone, and the position behind the command (`control.persisted`).

    A crash before 5 leaves the run on the version that it had, and the command is read again: the same run fits, or
    does not, as before. After 5 the log has the command, and a copy of it does nothing. An answer that comes first
    raises the revision, so that 3 begins anew; one that comes later is applied to the step as the version has it.
    What can run by now continues in a later batch.

    Raises OperationRefused, NothingToMigrate, UnknownProgram, TopicMissing, BatchOfItsOwn, and what reading raises.
    """
    workflow_id = command.workflow_id
    if _was_done(context, unit, command):
        return Outcome.DUPLICATE
    row = unit.row(workflow_id) if _is_there(unit, workflow_id) else None
    if row is None:
        is_purged = context.store.tombstone(workflow_id) is not None
        raise NothingToMigrate(workflow_id, is_purged=is_purged)
    program, _ = context.definitions.find(row.name, command.program)
    try:
        plan = context.workflows.plan(program, row.name)
    except SchemaRefused as error:
        # As for a start: a run that has the version would wait for such a schema.
        raise ProgramError(f"run {workflow_id} is not moved: {error}") from error
    check_topics(context, plan)
    move = Move(plan=plan, reason=kept_reason(command.reason), command_id=kept_id(command.command_id))
    execution = context.workflows.migrate(workflow_id, move)
    if execution is None:
        raise NothingToMigrate(workflow_id, is_purged=True)
    context.probe("migrate.moved")
    execution.now_ms = max(unit.now_ms, execution.now_ms)
    unit.add(execution)
    if execution.queue:
        unit.over_budget.append(workflow_id)
    milestone = Lifecycle(
        workflow_id=workflow_id,
        kind=WORKFLOW_MIGRATED,
        at=execution.now_ms,
        workflow=plan.name,
        outputs={"from": row.program, "to": plan.fingerprint},
        command_id=move.command_id,
    )
    context.dispatch.tell(unit.batch, milestone)
    return Outcome.APPLIED


def _was_done(context: EvaluatorContext, unit: UnitOfWork, command: RunAgain | MigrateWorkflow) -> bool:
    """Return whether the log of a run has a command, which is then answered so."""
    command_id, workflow_id = kept_id(command.command_id), command.workflow_id
    if command_id is None or not was_done(context.store, workflow_id, command_id):
        return False
    execution = unit.execution(workflow_id)
    unit.confirm(workflow_id)
    unit.outputs.repeat(command, "" if execution is None else execution.status)
    return True


def _is_there(unit: UnitOfWork, workflow_id: str) -> bool:
    """Return whether the store has a workflow, which this unit has not changed. Raises BatchOfItsOwn if it has."""
    if workflow_id in unit.changed:
        raise BatchOfItsOwn
    return unit.execution(workflow_id, is_checked=True) is not None
