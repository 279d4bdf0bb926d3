"""The context of a task's handler: information about its event, and actions besides answering."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from afl.core.handlers.calling import CallShape, Deferred, HandlerOver, call_shape
from afl.core.ids import generation_of, split_event_id
from afl.engine.model.entities import TaskDefinition

__all__ = ["CallShape", "Deferred", "HandlerOver", "TaskContext", "call_shape"]


class TaskContext:
    """A handler's second argument, if it takes one: the same attributes as on Kafka.

    `event_id` is the idempotency key: a repeated task has the same one. `headers` are empty here, there are no answer
    tokens, and the engine watches the deadline.
    """

    def __init__(
        self,
        task: TaskDefinition,
        send_update: Callable[[Mapping[str, Any]], None],
        is_stopping: Callable[[], bool],
        is_over: Callable[[], bool],
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        event = split_event_id(task.uuid)
        self.facet = task.name
        self.event_id = task.uuid
        self.step_id = task.step_id
        self.workflow_id = task.workflow_id
        generation = 1 if event is None else generation_of(task.step_id).number
        self.execution_id = f"{task.workflow_id}/{generation}"
        self.attempt = event[1] if event is not None else 1
        self.deadline_ms: int | None = None
        self.answer_token: str | None = None
        self.headers: Mapping[str, bytes | None] = {}
        self._send_update = send_update
        self._is_stopping = is_stopping
        self._is_over = is_over
        self._is_cancelled = is_cancelled

    @property
    def is_cancelled(self) -> bool:
        """Whether the answer is no longer needed: the workflow was cancelled, or the step is run again.

        It is looked up when this is read, at most once a second.
        """
        return self._is_cancelled()

    @property
    def is_stopping(self) -> bool:
        """Whether the handler should end.

        The reason is that its poller stops, its workflow was cancelled, its claim is lost, or its time is up.
        """
        return self._is_stopping() or self._is_over()

    def update(self, partial: Mapping[str, Any]) -> None:
        """Report partial results; the step keeps waiting. Raises HandlerOver after the answer."""
        if self._is_over():
            raise HandlerOver(self.step_id)
        self._send_update(partial)
