"""Dispatch mode `task`: each event becomes a task in the store, for pollers and runners to claim."""

from __future__ import annotations

import copy

from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.execution import Execution
from afl.runtime.persistence import Batch
from afl.runtime.records import StepRecord
from afl.runtime.types import Value


def payload_of(step: StepRecord) -> dict[str, Value]:
    """What an agent gets: the step's bound attributes, as a copy of its own."""
    return copy.deepcopy(dict(step.params))


class TaskDispatch:
    """Writes a task beside the step that sent the event, in the same commit."""

    def __init__(self, task_list: str = "default") -> None:
        self._task_list = task_list

    def dispatch(self, execution: Execution, step: StepRecord, event_id: str, effects: Batch) -> None:
        assert step.facet is not None
        effects.tasks.append(
            TaskDefinition(
                # The event's id: sending it again after a crash is the same task.
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
                data=dict(payload_of(step)),
            )
        )

    def ended(self, execution: Execution, effects: Batch) -> None:
        """Nobody subscribes to tasks."""
