"""The event, and the end of a step."""

from __future__ import annotations

from afl.engine.states import StepState
from afl.runtime.handlers.base import StateHandler


class EventTransmitHandler(StateHandler):
    """Send the event of an event facet and wait here for the answer; other steps pass.

    The answer itself moves the step on to its next state, in the one write that stores it.
    """

    state = StepState.EVENT_TRANSMIT


class StatementEndHandler(StateHandler):
    """No work before completion."""


class StatementCompleteHandler(StateHandler):
    """Complete the step; waiting steps learn of it when the iteration is over."""

    state = StepState.STATEMENT_COMPLETE
