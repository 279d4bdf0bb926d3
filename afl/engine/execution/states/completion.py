"""The event, or what the runtime does in its place, and the end of a step."""

from __future__ import annotations

from afl.engine.execution.events import send_event
from afl.engine.execution.execution import Execution
from afl.engine.execution.library import begin_library_step
from afl.engine.model.records import StepRecord


def transmit_event(execution: Execution, step: StepRecord) -> bool:
    """Send the event of an event facet, and wait here until it is answered; everything else passes.

    The answer itself moves the step on to its next state, in the one write that stores it.
    """
    facet = step.facet
    if facet is None or not facet.is_event:
        return True
    if not step.event_state:
        if facet.library is not None:
            return begin_library_step(execution, step)
        send_event(execution, step)
    return False


def complete(execution: Execution, step: StepRecord) -> bool:
    """Complete the step; steps that wait for it learn of it when the iteration is over."""
    execution.complete(step)
    return False
