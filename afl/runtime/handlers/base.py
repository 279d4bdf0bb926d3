"""The base of all state handlers: what a step does in one state."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from afl.runtime.execution import Execution
from afl.runtime.records import StepRecord
from afl.runtime.state_change import StateChangeResult

if TYPE_CHECKING:
    from afl.runtime.context import ExecutionContext
    from afl.runtime.step import StepDefinition


class StateHandler:
    """
    What a step does in one state.

    The engine calls `work` on the class: for it, handlers have no state of their own. `work(execution, step)` says
    whether the step goes on to its next state now. False leaves it where it is: an event is out, or something inside
    has not ended, and whoever ends it wakes the step. An exception makes the step fail; that is caught in one place,
    the changer.

    An instance is for a public step: `process()` does what the state does, and asks for the next state or not. A state
    with work has the engine do it on the stored workflow, in a commit of its own.
    """

    #: Whether the state has any work. States without are walked through without a call.
    passes: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        cls.passes = "work" not in cls.__dict__

    @staticmethod
    def work(execution: Execution, step: StepRecord) -> bool:
        return True

    def __init__(self, step: StepDefinition, context: ExecutionContext) -> None:
        self.step = step
        self.context = context

    @property
    def state_name(self) -> str:
        """The name that telemetry knows the handler by."""
        return type(self).__name__

    def process(self) -> StateChangeResult:
        """Process the step in its state; an exception is a result without success."""
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
        if self.passes:
            return self.transition()
        # The engine's loop stands above its handlers.
        engine: Any = import_module("afl.runtime.public_driving")
        try:
            goes_on = engine.work_on(self.step, self.context)
        except Exception as error:  # noqa: BLE001 - told in the result
            return self.error(error)
        return self.transition() if goes_on else self.stay()

    def transition(self) -> StateChangeResult:
        """Ask for the next state."""
        self.step.request_state_change(True)
        return StateChangeResult(step=self.step)

    def stay(self, push: bool = False) -> StateChangeResult:
        """Stay in this state; with `push`, ask to be processed again."""
        self.step.request_state_change(False)
        self.step.transition.set_push_me(push)
        return StateChangeResult(step=self.step, continue_processing=push)

    def error(self, error: Exception) -> StateChangeResult:
        """The step could not be processed: it has failed, for the caller to save."""
        self.step.mark_error(error)
        return StateChangeResult(step=self.step, success=False, error=error, continue_processing=False)
