"""A step's mixins and its blocks: made together when the step reaches them, and awaited."""

from __future__ import annotations

from afl.engine.states import StepState
from afl.runtime.handlers.base import StateHandler


class MixinBlocksBeginHandler(StateHandler):
    """Make a step for each mixin of the facet's signature that has an alias."""

    state = StepState.MIXIN_BLOCKS_BEGIN


class MixinBlocksContinueHandler(StateHandler):
    """Wait until every mixin has ended. A failed one makes the step fail, after the others have finished."""

    state = StepState.MIXIN_BLOCKS_CONTINUE


class MixinBlocksEndHandler(StateHandler):
    """No work after the mixins."""


class StatementBlocksBeginHandler(StateHandler):
    """Make a block step for each andThen block: the statement's own, or else its callee's."""

    state = StepState.STATEMENT_BLOCKS_BEGIN


class StatementBlocksContinueHandler(StateHandler):
    """Wait until every block has ended. A failed one makes the step fail, after the others have finished."""

    state = StepState.STATEMENT_BLOCKS_CONTINUE


class StatementBlocksEndHandler(StateHandler):
    """No work after the blocks."""
