"""Workflows as they run in a batch: to their fixed points, and on as their next executions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from afl.engine.errors import StoreUnavailable
from afl.engine.execution.execution import Execution
from afl.engine.execution.iteration import run_iteration
from afl.engine.model.plan import WorkflowPlan
from afl.engine.types import Value
from afl_stream.errors import NotEvaluable
from afl_stream.evaluator.batches.earlier_commit import EarlierCommitFailed
from afl_stream.evaluator.external.executions import note_command
from afl_stream.evaluator.external.external_events import limits_of
from afl_stream.evaluator.outcomes import Outcome
from afl_stream.evaluator.run_commands import check_topics
from afl_stream.event_errors import EventNotCarried, NothingToContinue
from afl_stream.wire.bounded_texts import kept_id
from afl_stream.wire.messages import CONTINUED, ContinueAsNew, Lifecycle

if TYPE_CHECKING:
    from afl_stream.evaluator.context import EvaluatorContext
    from afl_stream.evaluator.unit_of_work import UnitOfWork

#: Steps of a workflow in one batch before its time is counted.
_UNTIMED_STEPS: Final = 16


def run_to_fixed_point(context: EvaluatorContext, unit: UnitOfWork, execution: Execution, budget_ms: int) -> bool:
    """Run a workflow until it waits; False: its budget of this batch was used up first.

    An execution that continues as new is followed by the next one at once, and the budget is that of all of them: a
    workflow that continues without end yields its turn like any other. Its time is that of this thread's work: what
    others on the machine take is not the workflow's. Raises NotEvaluable, and StoreUnavailable of a step that is read
    late: the unit must be dropped.
    """
    settings, busy_s = context.config.evaluator, context.busy_s
    steps, until_s = 0, 0.0
    bounds = execution.bounds
    most_bytes = bounds.state_bytes + settings.workflow_budget_bytes
    bounds.begin()
    while True:
        try:
            steps += run_iteration(execution)
            if execution.next_inputs is not None and not execution.is_ended:
                unit.settle()
                execution = continue_as_new(context, unit, execution, execution.next_inputs)
                bounds = execution.bounds
                most_bytes = bounds.state_bytes + settings.workflow_budget_bytes
                bounds.begin()
        except (EarlierCommitFailed, StoreUnavailable):
            raise
        except Exception as error:
            raise NotEvaluable(execution.id, execution.plan.name, error) from error
        if not execution.queue:
            return True
        if steps >= settings.workflow_budget_steps or bounds.state_bytes > most_bytes:
            return False
        # Most answers move a few steps, which take less than asking for the time.
        if steps > _UNTIMED_STEPS:
            if not until_s:
                until_s = busy_s() + budget_ms / 1_000
            elif busy_s() > until_s:
                return False


def continue_as_new(
    context: EvaluatorContext,
    unit: UnitOfWork,
    execution: Execution,
    inputs: Mapping[str, Value],
    *,
    plan: WorkflowPlan | None = None,
    command: ContinueAsNew | None = None,
) -> Execution:
    """End an execution, and return the next one of its workflow, which takes its place in the unit.

    In this order:
      1. make the next execution, with the events that are carried (`external.continued`),
      2. make dead letters of those that are not, and tell subscribers that the workflow continues,
      3. persist as changes of this unit: the rows of the next execution in place of all of the one before, the history.

    A crash before 3 leaves the execution before as it was stored: the same work makes the same next one, with the same
    ids, and its dead letters were not written. After 3 nothing of the one before is left but its history: answers to
    its events are superseded by what the history says of them.

    Raises what a start raises for inputs that do not fit, and changes nothing then.
    """
    number, has_open_events = execution.number, bool(execution.open_events)
    # Events of the next execution are later than this milestone, which ends all events up to its time. Only events
    # that are abandoned need that: a workflow that continues a thousand times in a second must not outrun its clock.
    now_ms = execution.now_ms + has_open_events
    limits = limits_of(context)
    continued = context.workflows.continue_as_new(execution, inputs, now_ms, limits, plan=plan)
    following = continued.execution
    context.probe("external.continued")
    if command is not None:
        note_command(following, command)
    unit.external.counts.continued += 1
    unit.add(following)
    for row in continued.dropped:
        limit = limits.max_carried_executions
        error = EventNotCarried(row.workflow_id, row.name, row.execution, number + 1, limit)
        unit.external.give_up(row, error)
    milestone = Lifecycle(
        workflow_id=following.id,
        kind=CONTINUED,
        at=now_ms - 1,
        workflow=following.plan.name,
        outputs={"execution": number + 1},
        command_id=None if command is None else kept_id(command.command_id),
    )
    context.dispatch.tell(unit.batch, milestone)
    return following


def continue_by_command(context: EvaluatorContext, unit: UnitOfWork, command: ContinueAsNew) -> Outcome:
    """Continue a workflow as an operator asks. A command whose id is in the history has been carried out.

    Raises NothingToContinue, UnknownProgram, TopicMissing, and what starting raises.
    """
    workflow_id = command.workflow_id
    execution = unit.execution(workflow_id)
    if execution is None:
        is_purged = context.store.tombstone(workflow_id) is not None
        raise NothingToContinue(workflow_id, is_purged=is_purged)
    command_id = kept_id(command.command_id)
    if command_id is not None and execution.executions_before and unit.past.has_done(execution, command_id):
        unit.confirm(workflow_id)
        unit.outputs.repeat(command, execution.status)
        return Outcome.DUPLICATE
    if execution.is_ended:
        raise NothingToContinue(workflow_id, execution.status)
    plan = None
    if command.program is not None:
        program, name = context.definitions.find(execution.plan.name, command.program)
        plan = context.workflows.plan(program, name)
        check_topics(context, plan)
    following_plan = execution.plan if plan is None else plan
    with context.hiding_inputs(following_plan.fingerprint, following_plan.name):
        following = continue_as_new(
            context,
            unit,
            execution,
            dict(command.inputs),  # type: ignore[arg-type]  # decoded values
            plan=plan,
            command=command,
        )
    unit.evaluate(following)
    return Outcome.APPLIED
