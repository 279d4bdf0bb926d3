"""What a handler of tasks may know about its event, and what it may do besides answering."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from afl.runtime.entities import TaskDefinition
from afl.runtime.errors import RuntimeError as EngineError
from afl.runtime.identity import split_event_id
from afl.runtime.tool_registry import Handler

_CONTEXT_NAMES: Final = frozenset({"context", "ctx"})


class Deferred:
    """Returned by a handler whose answer comes later, from anyone: `continue_step` or `fail_step` of its step.

    Until then its task stays claimed, by nobody's lease.
    """

    #: Any object that says so is one: handlers written for Kafka bring their own.
    answers_later: Final = True


class HandlerOver(EngineError):
    """A handler speaks for its step after its answer was given or its time was up."""

    def __init__(self, step_id: str) -> None:
        super().__init__(f"step {step_id} has its answer already; a handler may send updates only while it runs")
        self.step_id = step_id


class TaskContext:
    """
    A handler's second argument, if it takes one: the same attributes as on Kafka.

    `event_id` is the idempotency key: a task that is run again has it again. `headers` are empty here, there are no
    answer tokens, and a deadline is the engine's business.
    """

    def __init__(
        self,
        task: TaskDefinition,
        send_update: Callable[[Mapping[str, Any]], None],
        is_stopping: Callable[[], bool],
        is_over: Callable[[], bool],
    ) -> None:
        event = split_event_id(task.uuid)
        self.facet = task.name
        self.event_id = task.uuid
        self.step_id = task.step_id
        self.workflow_id = task.workflow_id
        #: A workflow has one execution under its id.
        self.execution_id = f"{task.workflow_id}/1"
        self.attempt = event[1] if event is not None else 1
        self.deadline_ms: int | None = None
        self.answer_token: str | None = None
        self.headers: Mapping[str, bytes] = {}
        self._send_update = send_update
        self._is_stopping = is_stopping
        self._is_over = is_over

    @property
    def is_stopping(self) -> bool:
        """Whether the handler should come to an end: its poller stops, its workflow was cancelled, its claim is lost
        or its time is up."""
        return self._is_stopping() or self._is_over()

    def update(self, partial: Mapping[str, Any]) -> None:
        """Tell what is known so far; the step goes on waiting. Raises HandlerOver after the answer."""
        if self._is_over():
            raise HandlerOver(self.step_id)
        self._send_update(partial)


@dataclass(frozen=True, slots=True)
class CallShape:
    """How a handler is called: with the payload and maybe the context, and whether that gives a coroutine."""

    takes_context: bool
    is_async: bool


def call_shape(handler: Handler) -> CallShape:
    """Look at a handler's parameters, once for each that can be remembered."""
    try:
        return _known_shape(handler)
    except TypeError:
        # An object that cannot be hashed may still be called.
        return _shape(handler)


def _shape(handler: Handler) -> CallShape:
    is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004 - an object whose __call__ is async
    return CallShape(_takes_context(handler), is_async)


_known_shape = functools.lru_cache(maxsize=1_000)(_shape)


def _takes_context(handler: Handler) -> bool:
    """Whether it wants `(payload, context)`: a second parameter that is required, or named so."""
    try:
        parameters = list(inspect.signature(handler).parameters.values())
    except (TypeError, ValueError):
        # Built-in callables without a signature.
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) < 2:
        return False
    return positional[1].default is inspect.Parameter.empty or positional[1].name in _CONTEXT_NAMES
