"""The states of a block: create steps whose dependencies are complete, then yields, and end when all have ended."""

from __future__ import annotations

from afl.engine.states import StepState
from afl.runtime.handlers.base import StateHandler


class BlockExecutionBeginHandler(StateHandler):
    """Set the block up. A foreach or `when` evaluates its source or conditions, once, and makes the blocks to run."""

    state = StepState.BLOCK_EXECUTION_BEGIN


class BlockExecutionContinueHandler(StateHandler):
    """Create the steps that are ready; yields once every other statement is complete, none after a failure."""

    state = StepState.BLOCK_EXECUTION_CONTINUE


class BlockExecutionEndHandler(StateHandler):
    """Nothing to do after the statements."""
