"""The base of all state handlers: what a public step does in one state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from afl.engine.execution.states import STATE_WORK
from afl.evaluation.step_driving import work_on
from afl.stores.public.step import StepDefinition

if TYPE_CHECKING:
    from afl.evaluation.context import ExecutionContext


@dataclass
class StateChangeResult:
    """The step's present state, and whether to continue with it.

    `success` False: it could not be processed, for the reason in `error`. `continue_processing`: it asks to be
    processed again.
    """

    step: StepDefinition
    success: bool = True
    error: Exception | None = None
    continue_processing: bool = True


class StateHandler:
    """The action of a public step in one state.

    `process()` does it, and asks for the next state or not. In a state that has work, the engine does that work on the
    stored workflow, in a commit of its own.
    """

    #: The state whose work this is, a StepState constant; empty for a state that has none.
    state: ClassVar[str] = ""

    def __init__(self, step: StepDefinition, context: ExecutionContext) -> None:
        self.step = step
        self.context = context

    @property
    def state_name(self) -> str:
        """The name of the handler in telemetry."""
        return type(self).__name__

    def process(self) -> StateChangeResult:
        """Process the step in its state; an exception becomes a result without success."""
        telemetry = self.context.telemetry
        telemetry.log_state_begin(self.step, self.state_name)
        try:
            result = self.process_state()
        except Exception as error:  # noqa: BLE001 - told in the result
            result = self.error(error)
        if result.success or result.error is None:
            telemetry.log_state_end(self.step, self.state_name)
        else:
            telemetry.log_error(self.step, self.state_name, result.error)
        return result

    def process_state(self) -> StateChangeResult:
        """Do what the state does. What keeps it from that is a result without success."""
        if self.state not in STATE_WORK:
            return self.transition()
        try:
            continues = work_on(self.step, self.context)
        except Exception as error:  # noqa: BLE001 - told in the result
            return self.error(error)
        return self.transition() if continues else self.stay()

    def transition(self) -> StateChangeResult:
        """Request the next state."""
        self.step.request_state_change(True)
        return StateChangeResult(step=self.step)

    def stay(self, push: bool = False) -> StateChangeResult:
        """Stay in this state; with `push`, request another processing."""
        self.step.request_state_change(False)
        self.step.transition.set_push_me(push)
        return StateChangeResult(step=self.step, continue_processing=push)

    def error(self, error: Exception) -> StateChangeResult:
        """Return the result for a step that could not be processed: it has failed, for the caller to save."""
        self.step.mark_error(error)
        return StateChangeResult(step=self.step, success=False, error=error, continue_processing=False)
