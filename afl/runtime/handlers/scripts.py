"""The script states: a facet's own script runs before its mixins, event and blocks."""

from __future__ import annotations

from afl.runtime.execution import Execution
from afl.runtime.handlers.base import StateHandler
from afl.runtime.records import StepRecord


class FacetScriptsBeginHandler(StateHandler):
    """A facet with a script waits here until it has ended; everything else passes.

    The script's end itself moves the step on to its next state, in the one write that stores the result.
    """

    @staticmethod
    def work(execution: Execution, step: StepRecord) -> bool:
        facet = step.facet
        if facet is None or facet.pre_script is None:
            return True
        execution.await_script(step)
        return False


class FacetScriptsEndHandler(StateHandler):
    """Nothing to do after the script."""


class StatementScriptsBeginHandler(StateHandler):
    """A state that no table reaches."""


class StatementScriptsEndHandler(StateHandler):
    """A state that no table reaches."""
