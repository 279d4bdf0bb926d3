"""The actions of a step in each state: a table of functions, by state.

`work(execution, step)` returns whether the step continues to its next state now. With False it stays in its state: its
event waits for an answer, or a step inside has not ended, and that end wakes the step. An exception makes the step
fail; the machine catches it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from afl.engine.execution.execution import Execution
from afl.engine.execution.states.block_execution import begin_block, continue_block
from afl.engine.execution.states.blocks import await_parts, begin_blocks, begin_mixins
from afl.engine.execution.states.capture import capture_mixins, capture_yields
from afl.engine.execution.states.catching import begin_catch
from afl.engine.execution.states.completion import complete, transmit_event
from afl.engine.execution.states.initialization import bind_attributes
from afl.engine.execution.states.scripts import await_script
from afl.engine.model.records import StepRecord
from afl.engine.states import StepState

Work = Callable[[Execution, StepRecord], bool]

#: The states that have work. A step walks through any other one without a call.
STATE_WORK: Final[Mapping[str, Work]] = {
    StepState.FACET_INIT_BEGIN: bind_attributes,
    StepState.FACET_SCRIPTS_BEGIN: await_script,
    StepState.MIXIN_BLOCKS_BEGIN: begin_mixins,
    StepState.MIXIN_BLOCKS_CONTINUE: await_parts,
    StepState.MIXIN_CAPTURE_BEGIN: capture_mixins,
    StepState.EVENT_TRANSMIT: transmit_event,
    StepState.STATEMENT_BLOCKS_BEGIN: begin_blocks,
    StepState.STATEMENT_BLOCKS_CONTINUE: await_parts,
    StepState.BLOCK_EXECUTION_BEGIN: begin_block,
    StepState.BLOCK_EXECUTION_CONTINUE: continue_block,
    StepState.CATCH_BEGIN: begin_catch,
    StepState.CATCH_CONTINUE: await_parts,
    StepState.STATEMENT_CAPTURE_BEGIN: capture_yields,
    StepState.STATEMENT_COMPLETE: complete,
}

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "initialization",
    "system",
)
