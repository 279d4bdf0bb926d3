"""The event, and the end of a step."""

from __future__ import annotations

from afl.runtime.execution import Execution
from afl.runtime.handlers.base import StateHandler
from afl.runtime.records import StepRecord


class EventTransmitHandler(StateHandler):
    """An event facet sends its event and blocks here until it is answered; everything else passes.

    The answer itself moves the step on to its next state, in the one write that stores it.
    """

    @staticmethod
    def work(execution: Execution, step: StepRecord) -> bool:
        facet = step.facet
        if facet is None or not facet.is_event:
            return True
        if not step.event_state:
            execution.send_event(step)
        return False


class StatementEndHandler(StateHandler):
    """Nothing to do before completion."""


class StatementCompleteHandler(StateHandler):
    """The step is complete; those who wait for it learn of it when the iteration is over."""

    @staticmethod
    def work(execution: Execution, step: StepRecord) -> bool:
        execution.complete(step)
        return False
