"""Dispatch mode `task`: each event becomes a task in the store, for pollers and runners to claim."""

from __future__ import annotations

from typing import cast

from afl.core.ids import event_id_of
from afl.core.values import Flaw, Refused, segment
from afl.engine.execution.execution import Execution
from afl.engine.model.entities import TaskDefinition, TaskState
from afl.engine.model.plan import FacetPlan
from afl.engine.model.records import StepRecord
from afl.engine.model.store import Batch, ErrorRecord, TaskEnd
from afl.engine.planning.value_checks import fitted
from afl.engine.states import EventState
from afl.engine.types import Value, copy_value
from afl.engine.values.declared import Unsure, fit_json


def payload_of(execution: Execution, step: StepRecord) -> dict[str, Value]:
    """Return the payload for an agent: a copy of the step's bound attributes.

    Numbers are the same as for an agent on topics: a Double is a float, and a number that its declared type cannot hold
    raises ValueRefused.
    """
    assert step.facet is not None
    fits = step.facet.param_fits
    payload: dict[str, Value] = {}
    for name, value in step.params.items():
        kind = type(value)
        if kind is str or kind is bool or value is None:
            payload[name] = value
            continue
        try:
            payload[name] = fits.get(name, fit_json)(value)
        except Unsure:
            payload[name] = _checked(execution, step.facet, name, value)
    return payload


def _checked(execution: Execution, facet: FacetPlan, name: str, value: Value) -> Value:
    try:
        return fitted(value, facet.param_types.get(name, "Json"), execution.plan.schemas)
    except Refused as refused:
        if refused.flaw is Flaw.NUMBER_OUT_OF_RANGE:
            raise refused.inside(segment(name)).at("payload") from None
        # The value has another kind than the declared one: Python handlers have always received it unchanged.
        return cast(Value, copy_value(value))


class TaskDispatch:
    """A dispatch that writes a task beside the step that sent the event, in the same commit."""

    def __init__(self, task_list: str = "default") -> None:
        self._task_list = task_list

    def serves(self, execution: Execution) -> bool:
        """Say whether events can be dispatched here: a workflow with a lane belongs to evaluators of a deployment."""
        return not execution.lane

    def dispatch(self, execution: Execution, step: StepRecord, event_id: str, effects: Batch) -> None:
        assert step.facet is not None
        effects.tasks.append(
            TaskDefinition(
                # The event's id: sending it again after a crash gives the same task.
                uuid=event_id,
                name=step.facet.name,
                runner_id=execution.runner_id,
                workflow_id=execution.id,
                flow_id="",
                step_id=step.id,
                state=TaskState.PENDING,
                created=execution.now_ms,
                updated=execution.now_ms,
                task_list_name=self._task_list,
                data=dict[str, object](payload_of(execution, step)),
            )
        )

    def answered(self, execution: Execution, step: StepRecord, effects: Batch) -> None:  # noqa: ARG002 - the port's signature
        """End the task in the answer's commit, wherever the answer came from."""
        if step.event_state == EventState.RETRYING and step.retry is not None:
            error: ErrorRecord | None = step.retry.error
        else:
            error = None if step.event_state == EventState.COMPLETED else step.caught or step.error
        effects.task_ends.append(TaskEnd.of_answer(event_id_of(step.id, step.attempt), error))

    def ended(self, execution: Execution, effects: Batch) -> None:
        """Cancel the remaining tasks: they cannot be answered any more."""
        if execution.open_events:
            effects.task_ends += [
                TaskEnd(event_id_of(step.id, step.attempt), TaskState.CANCELED)
                for step in execution.steps.values()
                if step.is_waiting
            ]
