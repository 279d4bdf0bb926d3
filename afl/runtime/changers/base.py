"""Drives a public step through the states of its kind, for programs that have steps and no engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from afl.engine.execution.machine import STATE_MACHINES
from afl.runtime.handlers import get_handler
from afl.runtime.handlers.base import StateChangeResult as StateChangeResult
from afl.stores.public.step import StepDefinition

if TYPE_CHECKING:
    from afl.evaluation.context import ExecutionContext


class StateChanger(ABC):
    """Drives one public step; `Evaluator` does not use it."""

    def __init__(self, step: StepDefinition, context: ExecutionContext) -> None:
        self.step = step
        self.context = context

    @abstractmethod
    def select_state(self) -> str | None:
        """Return the state that the step goes to from here; None at the end."""

    @abstractmethod
    def execute_state(self, state: str) -> StateChangeResult:
        """Do the work of a state."""

    def process(self) -> StateChangeResult:
        """Move the step as far as it can go now, running the handler of each state that it reaches.

        A failure leaves the step in state Error, for the caller to save.
        """
        if self.step.is_complete:
            return StateChangeResult(step=self.step, continue_processing=False)
        try:
            while True:
                if self.step.is_requesting_state_change:
                    following = self.select_state()
                    if following is None or following == self.step.current_state:
                        break
                    self.step.change_state(following)
                result = self.execute_state(self.step.current_state)
                self.step = result.step
                if not result.success:
                    return self._failed(result.error)
                if self.step.is_terminal:
                    return StateChangeResult(step=self.step, continue_processing=False)
                if not self.step.is_requesting_state_change:
                    break
        except Exception as error:  # noqa: BLE001 - told in the result
            return self._failed(error)
        return StateChangeResult(step=self.step, continue_processing=self.step.transition.is_requesting_push)

    def _failed(self, error: Exception | None) -> StateChangeResult:
        self.step.mark_error(error)
        return StateChangeResult(step=self.step, success=False, error=error, continue_processing=False)


class TableStateChanger(StateChanger):
    """A changer that uses the engine's machine for its kind of step."""

    #: A step's kind, an ObjectType constant: the machine is that of the kind.
    kind: ClassVar[str]

    def select_state(self) -> str | None:
        return STATE_MACHINES[self.kind].next_state(self.step.current_state)

    def execute_state(self, state: str) -> StateChangeResult:
        handler = get_handler(state, self.step, self.context)
        if handler is None:
            self.step.request_state_change(True)
            return StateChangeResult(step=self.step)
        return handler.process()
