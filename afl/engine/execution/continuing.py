"""Continue as new: an execution ends, and its workflow goes on as the next one, with new inputs and no steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from afl.core.ids import event_id_of
from afl.core.values import plain_values
from afl.engine.errors import ScriptsNotAllowed
from afl.engine.execution.commit_rows import keep_program
from afl.engine.execution.execution import Execution
from afl.engine.execution.external_events import EventLimits
from afl.engine.execution.inbox import Inbox
from afl.engine.execution.ports import RunEnvironment
from afl.engine.execution.run_bounds import RunBounds
from afl.engine.execution.runtime_waits import withdraw_all
from afl.engine.model.entities import TaskState
from afl.engine.model.history import HistoryKind, HistoryRow
from afl.engine.model.plan import WorkflowPlan
from afl.engine.model.store import RUNNING, Batch, TaskEnd, WorkflowRow
from afl.engine.planning.binding import bind_inputs
from afl.engine.planning.value_checks import INPUTS, check_inputs
from afl.engine.states import EventState
from afl.engine.types import Value

#: The most abandoned steps that the history names.
_MOST_TOLD: Final = 1_000


class StartInputs(NamedTuple):
    """The inputs of an execution, and the params of its root: these, with the workflow's defaults for the rest."""

    inputs: dict[str, Value]
    params: dict[str, Value]


def checked_inputs(plan: WorkflowPlan, bounds: RunBounds, inputs: Mapping[str, object]) -> StartInputs:
    """Return a copy of the inputs of a new execution.

    Raises ValueTooLarge and ValueRefused for inputs that no run may have, InputError, and the errors of its defaults.
    """
    # Checked first: a value that contains another one often may be too much to walk through.
    bounds.check_given(f"the inputs of {plan.name}", inputs, INPUTS)
    plain = plain_values(inputs, INPUTS)
    check_inputs(plan.facet, plan.schemas, plain)
    return StartInputs(plain, bind_inputs(plan.facet, plain))


class Continued(NamedTuple):
    """The next execution, to be evaluated and committed in place of the one before."""

    execution: Execution
    #: Events that were not carried into it, as rows of its history: for dead letters.
    dropped: tuple[HistoryRow, ...]


def next_execution(
    execution: Execution,
    plan: WorkflowPlan,
    environment: RunEnvironment,
    inputs: Mapping[str, Value],
    now_ms: int,
    limits: EventLimits,
) -> Continued:
    """Return the next execution of a workflow that has not ended, with the uncommitted effects of the one before.

    The driver calls it when `execution.next_inputs` is set after an iteration, before it commits anything of that; or
    for an operator. The execution before cannot be used afterwards. The next number of its history must be known.
    Raises what a start raises, and changes nothing then; the inputs of a step fit, because it has failed otherwise.
    """
    if plan.scripted and not environment.runs_scripts:
        raise ScriptsNotAllowed(declaration=plan.scripted[0])
    environment.bounds.begin()
    given = checked_inputs(plan, environment.bounds, inputs)
    row = WorkflowRow(
        execution.id,
        execution.revision,
        plan.fingerprint,
        plan.name,
        RUNNING,
        runnable=True,
        inputs=given.inputs,
        runner_id=execution.runner_id,
        lane=execution.lane,
        created_at_ms=execution.created_at_ms,
        updated_at_ms=max(execution.now_ms, now_ms),
        executions_before=execution.number,
        trace_context=execution.trace_context,
    )
    following = Execution.started(plan, row, environment, given.params)
    following.root.created_at_ms = following.now_ms
    following.replaces = True
    dropped = _carry_events(execution, following, limits.max_carried_executions)
    _hand_over(execution, following, limits.kept_executions)
    if following.trace is not None:
        following.trace.started(following)
        following.trace.created(following, following.root)
    return Continued(following, dropped)


def _carry_events(execution: Execution, following: Execution, most_executions: int) -> tuple[HistoryRow, ...]:
    """Give the next execution the pending events that are not too old; return the others, as dropped."""
    carried, dropped = [], []
    for event in execution.inbox:
        if following.number - event.execution <= most_executions:
            carried.append(event)
            continue
        reason = f"raised in execution {event.execution}, and carried into {most_executions} others"
        dropped.append(event._replace(is_pending=False, until_execution=execution.number, dropped=reason))
    following.inbox = Inbox(carried, execution.inbox.next_number)
    execution.effects.history_changes += dropped
    return tuple(dropped)


def _hand_over(execution: Execution, following: Execution, kept_executions: int) -> None:
    """End what the steps of an execution wait for, note it in the history, and give its effects to the next one."""
    asked = [step for step in execution.steps.values() if EventState.is_asked(step.event_state)]
    withdraw_all(execution)
    effects = execution.effects
    _take_back(effects, [(step.id, step.attempt) for step in asked])
    value: Value = {
        "inputs": dict(following.inputs),
        "steps": execution.count,
        "abandoned": [step.id for step in asked[:_MOST_TOLD]],
    }
    number, at_ms = following.inbox.number(), following.now_ms
    effects.history.append(
        HistoryRow(execution.id, number, HistoryKind.CONTINUED_AS_NEW, execution.number, at_ms, value=value)
    )
    first_kept = following.number - kept_executions + 1
    if first_kept > 1:
        effects.history_trims[execution.id] = first_kept
    if following.plan.program is not execution.plan.program:
        keep_program(following.plan.program, effects)
    following.take_effects()
    following.give_effects(effects)


def _take_back(effects: Batch, asked: list[tuple[str, int]]) -> None:
    """Take back the events of steps: those of this very commit are not sent, and the tasks of others end."""
    keys = {step_id.encode() for step_id, _ in asked}
    effects.outbox = [record for record in effects.outbox if record.key not in keys]
    effects.tasks.clear()
    effects.task_ends += [TaskEnd(event_id_of(*event), TaskState.CANCELED) for event in asked]
