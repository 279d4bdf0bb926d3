"""The context of a handler: facts about its event, and its one action besides answering."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from afl.core.declared_returns import DeclaredReturns
from afl.core.handlers.calling import HandlerOver


class HandlerContext:
    """The second argument of a handler that takes one: the same for agents of topics and for pollers of a store.

    `event_id` is the idempotency key: every copy of the event has it, and every try. `deadline_ms` is since the epoch.
    A poller's handlers have no headers, no answer token and no deadline. `returns`: those that the facet declares; None
    where the event does not say. `tries`: which run of the handler for this event it is, from 1; an agent counts those
    of earlier processes, and each of their deaths as one.
    """

    __slots__ = (
        "_is_cancelled", "_is_over", "_is_stopping", "_send_update", "_trace", "answer_token", "attempt", "deadline_ms",
        "event_id", "execution_id", "facet", "headers", "returns", "step_id", "tries", "workflow_id",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - all that a handler may ask of its event
        self,
        *,
        facet: str,
        event_id: str,
        step_id: str,
        workflow_id: str,
        execution_id: str,
        attempt: int,
        deadline_ms: int | None,
        answer_token: str | None,
        headers: Mapping[str, bytes | None],
        send_update: Callable[[Mapping[str, Any]], None],
        is_stopping: Callable[[], bool],
        is_over: Callable[[], bool],
        is_cancelled: Callable[[], bool] = lambda: False,
        returns: DeclaredReturns | None = None,
        tries: int = 1,
        trace: str | None = None,
    ) -> None:
        self.facet = facet
        self.event_id = event_id
        self.step_id = step_id
        self.workflow_id = workflow_id
        self.execution_id = execution_id
        self.attempt = attempt
        self.deadline_ms = deadline_ms
        self.answer_token = answer_token
        self.headers = headers
        self.returns = returns
        self.tries = tries
        self._trace = trace
        self._send_update = send_update
        self._is_stopping = is_stopping
        self._is_over = is_over
        self._is_cancelled = is_cancelled

    @property
    def traceparent(self) -> str:
        """The W3C trace context of this run of the handler, for the `traceparent` header of what it asks of others.

        Where the agent does not trace, it is the event's; empty where the event has none.
        """
        if self._trace is not None:
            return self._trace
        carried = self.headers.get("traceparent")
        return "" if carried is None else carried.decode("ascii", "replace")

    @property
    def is_cancelled(self) -> bool:
        """Return whether the answer is needed no more: the workflow was cancelled or reset, or the step runs again.

        It is looked up when this is asked: twice a second at most by an agent, as far as the lifecycle topic tells, and
        once a second at most by a poller, in the store.
        """
        return self._is_cancelled()

    @property
    def is_stopping(self) -> bool:
        """Return whether the handler should end: its agent or poller stops, its partition or its claim is gone,
        its workflow was cancelled in the store, or its time is up.
        """
        return self._is_stopping() or self._is_over()

    def update(self, partial: Mapping[str, Any]) -> None:
        """Tell what is known so far; the step goes on waiting. Raises HandlerOver after the answer."""
        if self._is_over():
            raise HandlerOver(self.step_id)
        self._send_update(partial)
