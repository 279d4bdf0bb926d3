"""The handler for each state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from afl.engine.states import StepState
from afl.runtime.handlers.base import StateHandler
from afl.runtime.handlers.block_execution import (
    BlockExecutionBeginHandler,
    BlockExecutionContinueHandler,
    BlockExecutionEndHandler,
)
from afl.runtime.handlers.blocks import (
    MixinBlocksBeginHandler,
    MixinBlocksContinueHandler,
    MixinBlocksEndHandler,
    StatementBlocksBeginHandler,
    StatementBlocksContinueHandler,
    StatementBlocksEndHandler,
)
from afl.runtime.handlers.capture import (
    MixinCaptureBeginHandler,
    MixinCaptureEndHandler,
    StatementCaptureBeginHandler,
    StatementCaptureEndHandler,
)
from afl.runtime.handlers.catching import CatchBeginHandler, CatchContinueHandler, CatchEndHandler
from afl.runtime.handlers.completion import EventTransmitHandler, StatementCompleteHandler, StatementEndHandler
from afl.runtime.handlers.initialization import (
    FacetInitializationBeginHandler,
    FacetInitializationEndHandler,
    StatementBeginHandler,
)
from afl.runtime.handlers.scripts import (
    FacetScriptsBeginHandler,
    FacetScriptsEndHandler,
    StatementScriptsBeginHandler,
    StatementScriptsEndHandler,
)

if TYPE_CHECKING:
    from afl.evaluation.context import ExecutionContext
    from afl.stores.public.step import StepDefinition

STATE_HANDLERS: Mapping[str, type[StateHandler]] = {
    StepState.CREATED: StatementBeginHandler,
    StepState.FACET_INIT_BEGIN: FacetInitializationBeginHandler,
    StepState.FACET_INIT_END: FacetInitializationEndHandler,
    StepState.FACET_SCRIPTS_BEGIN: FacetScriptsBeginHandler,
    StepState.FACET_SCRIPTS_END: FacetScriptsEndHandler,
    StepState.STATEMENT_SCRIPTS_BEGIN: StatementScriptsBeginHandler,
    StepState.STATEMENT_SCRIPTS_END: StatementScriptsEndHandler,
    StepState.MIXIN_BLOCKS_BEGIN: MixinBlocksBeginHandler,
    StepState.MIXIN_BLOCKS_CONTINUE: MixinBlocksContinueHandler,
    StepState.MIXIN_BLOCKS_END: MixinBlocksEndHandler,
    StepState.MIXIN_CAPTURE_BEGIN: MixinCaptureBeginHandler,
    StepState.MIXIN_CAPTURE_END: MixinCaptureEndHandler,
    StepState.EVENT_TRANSMIT: EventTransmitHandler,
    StepState.STATEMENT_BLOCKS_BEGIN: StatementBlocksBeginHandler,
    StepState.STATEMENT_BLOCKS_CONTINUE: StatementBlocksContinueHandler,
    StepState.STATEMENT_BLOCKS_END: StatementBlocksEndHandler,
    StepState.STATEMENT_CAPTURE_BEGIN: StatementCaptureBeginHandler,
    StepState.STATEMENT_CAPTURE_END: StatementCaptureEndHandler,
    StepState.BLOCK_EXECUTION_BEGIN: BlockExecutionBeginHandler,
    StepState.BLOCK_EXECUTION_CONTINUE: BlockExecutionContinueHandler,
    StepState.BLOCK_EXECUTION_END: BlockExecutionEndHandler,
    StepState.CATCH_BEGIN: CatchBeginHandler,
    StepState.CATCH_CONTINUE: CatchContinueHandler,
    StepState.CATCH_END: CatchEndHandler,
    StepState.STATEMENT_END: StatementEndHandler,
    StepState.STATEMENT_COMPLETE: StatementCompleteHandler,
}


def get_handler(state: str, step: StepDefinition, context: ExecutionContext) -> StateHandler | None:
    """Return the handler of a state, for a public step; None for a terminal error."""
    handler = STATE_HANDLERS.get(state)
    return None if handler is None else handler(step, context)


#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("base",)
