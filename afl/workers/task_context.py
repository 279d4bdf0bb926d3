"""The context of a task's handler: information about its event, and actions besides answering."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from afl.core.handlers.calling import CallShape, Deferred, HandlerOver, call_shape
from afl.core.handlers.context import HandlerContext
from afl.core.ids import generation_of, split_event_id
from afl.engine.model.entities import TaskDefinition

__all__ = ["CallShape", "Deferred", "HandlerOver", "TaskContext", "call_shape"]


class TaskContext(HandlerContext):
    """A handler's second argument, if it takes one: the same attributes as on Kafka.

    `event_id` is the idempotency key: a repeated task has the same one. `headers` are empty here, there are no answer
    tokens, and the engine watches the deadline.
    """

    __slots__ = ()

    def __init__(
        self,
        task: TaskDefinition,
        send_update: Callable[[Mapping[str, Any]], None],
        is_stopping: Callable[[], bool],
        is_over: Callable[[], bool],
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        event = split_event_id(task.uuid)
        generation = 1 if event is None else generation_of(task.step_id).number
        super().__init__(
            facet=task.name,
            event_id=task.uuid,
            step_id=task.step_id,
            workflow_id=task.workflow_id,
            execution_id=f"{task.workflow_id}/{generation}",
            attempt=event[1] if event is not None else 1,
            deadline_ms=None,
            answer_token=None,
            headers={},
            send_update=send_update,
            is_stopping=is_stopping,
            is_over=is_over,
            is_cancelled=is_cancelled,
        )
