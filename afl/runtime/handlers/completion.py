"""The event, and the end of a step."""

from __future__ import annotations

from afl.engine.states import StepState
from afl.runtime.handlers.base import StateHandler


class EventTransmitHandler(StateHandler):
    """An event facet sends its event and blocks here until it is answered; everything else passes.

    The answer itself moves the step on to its next state, in the one write that stores it.
    """

    state = StepState.EVENT_TRANSMIT


class StatementEndHandler(StateHandler):
    """Nothing to do before completion."""


class StatementCompleteHandler(StateHandler):
    """The step is complete; those who wait for it learn of it when the iteration is over."""

    state = StepState.STATEMENT_COMPLETE
