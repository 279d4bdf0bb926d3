"""The script states: a facet's own script runs before its mixins, event and blocks."""

from __future__ import annotations

from afl.engine.execution.execution import Execution
from afl.engine.execution.scripts import wait_for_script
from afl.engine.model.records import StepRecord


def await_script(execution: Execution, step: StepRecord) -> bool:
    """Wait until the script of the step's facet has ended; everything else passes.

    The script's end itself moves the step on to its next state, in the one write that stores the result.
    """
    facet = step.facet
    if facet is None or facet.pre_script is None:
        return True
    wait_for_script(execution, step)
    return False
