"""The steps that requests of workflows answer: kept in the context of the request, and answered when that has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from afl.core.declared_returns import DeclaredReturns
from afl.core.handlers.context import HandlerContext
from afl.core.text.exception_text import exception_class, exception_text
from afl_stream.bridge.resources import BridgeResources
from afl_stream.pubsub import InvokeContext
from afl_stream.wire.bounded_texts import kept_failure
from afl_stream.wire.messages import StepContinue, StepFailed

#: The attribute of a request's context that has the step.
_STEP = "afl_step"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredStep:
    """An attempt of a step, with all that an answer to it has to say."""

    facet: str
    step_id: str
    workflow_id: str
    event_id: str
    attempt: int
    answer_token: str | None
    returns: DeclaredReturns | None

    @classmethod
    def of(cls, context: HandlerContext) -> AnsweredStep:
        """Return the step whose event a handler was called for."""
        return cls(
            facet=context.facet,
            step_id=context.step_id,
            workflow_id=context.workflow_id,
            event_id=context.event_id,
            attempt=context.attempt,
            answer_token=context.answer_token,
            returns=context.returns,
        )

    @classmethod
    def kept_in(cls, context: InvokeContext) -> AnsweredStep | None:
        """Return the step that a stored request answers; None: it answers none."""
        kept: Any = context.attributes.get(_STEP)
        if not isinstance(kept, Mapping):
            return None
        returns = kept["returns"]
        return cls(
            **{**kept, "returns": None if returns is None else DeclaredReturns(*(tuple(names) for names in returns))}
        )

    def context(self, request_id: str, call_id: str) -> InvokeContext:
        """Return the context of the request that answers the step. `call_id`: what is given with it counts once."""
        kept = {name: getattr(self, name) for name in self.__dataclass_fields__}
        returns = self.returns
        kept["returns"] = None if returns is None else [list(returns.required), list(returns.optional)]
        return InvokeContext(
            assistant_request_id=request_id,
            conversation_id=self.workflow_id,
            invoke_id=call_id,
            attributes={_STEP: kept},
        )

    async def continue_with(self, result: Mapping[str, object], resources: BridgeResources) -> None:
        """Send the result. Raises ValueRefused, EventTooLarge, and what publishing raises."""
        await self._send(
            StepContinue(
                step_id=self.step_id,
                result=result,
                workflow_id=self.workflow_id,
                event_id=self.event_id,
                attempt=self.attempt,
                answer_token=self.answer_token,
                agent=resources.agent,
            ),
            resources,
        )

    async def fail_with(self, error: Exception, resources: BridgeResources) -> None:
        """Send the failure."""
        await self._send(
            StepFailed(
                step_id=self.step_id,
                error=kept_failure(exception_class(error), exception_text(error)),
                workflow_id=self.workflow_id,
                event_id=self.event_id,
                attempt=self.attempt,
                answer_token=self.answer_token,
                agent=resources.agent,
            ),
            resources,
        )

    async def _send(self, answer: StepContinue | StepFailed, resources: BridgeResources) -> None:
        await resources.publisher.publish_and_wait(resources.topology.control(), answer, key=self.workflow_id)
        resources.counters.add("answered")
        resources.probe("bridge.answered")
