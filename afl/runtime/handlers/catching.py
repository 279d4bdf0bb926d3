"""Catch: what runs for a step that has failed, and lets it complete after all."""

from __future__ import annotations

from afl.engine.states import StepState
from afl.runtime.handlers.base import StateHandler


class CatchBeginHandler(StateHandler):
    """Make the block of the catch: the statement's own, or else its facet's."""

    state = StepState.CATCH_BEGIN


class CatchContinueHandler(StateHandler):
    """Wait until the catch has ended. When it fails, the step fails with its error."""

    state = StepState.CATCH_CONTINUE


class CatchEndHandler(StateHandler):
    """Nothing to do after the catch: the step goes on to capture what its blocks and the catch have yielded."""
