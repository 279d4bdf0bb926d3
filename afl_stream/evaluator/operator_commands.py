"""The commands by which operators run a workflow again, or part of it: the engine's action and the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from afl.engine.operations.operations import Action, Kind, was_done
from afl_stream.errors import NothingToRunAgain
from afl_stream.evaluator.outcomes import Outcome
from afl_stream.wire.bounded_texts import kept_id, kept_reason
from afl_stream.wire.messages import RerunStep, ResetWorkflow, RetryStep, RunAgain

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
    if action.command_id is not None and was_done(context.store, workflow_id, action.command_id):
        execution = unit.execution(workflow_id)
        unit.confirm(workflow_id)
        unit.outputs.repeat(command, "" if execution is None else execution.status)
        return Outcome.DUPLICATE
    if not unit.open_again(workflow_id, action):
        is_purged = context.store.tombstone(workflow_id) is not None
        raise NothingToRunAgain(workflow_id, is_purged=is_purged)
    opened = unit.execution(workflow_id)
    # Between earlier and later questions: agents tell the two apart by it.
    at_ms = None if opened is None else opened.now_ms - 1
    milestone, command_id = MILESTONES[action.kind], command.command_id
    unit.outputs.tell(workflow_id, milestone, step_id=action.step_id, at_ms=at_ms, command_id=command_id)
    return Outcome.APPLIED
