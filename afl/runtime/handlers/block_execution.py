"""A block: creates the steps whose dependencies are complete, then its yields, and ends when all have."""

from __future__ import annotations

from afl.engine.states import StepState
from afl.runtime.handlers.base import StateHandler


class BlockExecutionBeginHandler(StateHandler):
    """Set the block up. A foreach and a `when` evaluate what they go by, once, and make the blocks that are to run."""

    state = StepState.BLOCK_EXECUTION_BEGIN


class BlockExecutionContinueHandler(StateHandler):
    """Create what has become ready; yields once every other statement is complete, none after a failure."""

    state = StepState.BLOCK_EXECUTION_CONTINUE


class BlockExecutionEndHandler(StateHandler):
    """Nothing to do after the statements."""
