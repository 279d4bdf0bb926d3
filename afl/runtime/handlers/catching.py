"""Catch: the block that runs for a failed step, and lets it complete after all."""

from __future__ import annotations

from afl.engine.states import StepState
from afl.runtime.handlers.base import StateHandler


class CatchBeginHandler(StateHandler):
    """Make the block of the catch: the statement's own, or else its facet's."""

    state = StepState.CATCH_BEGIN


class CatchContinueHandler(StateHandler):
    """Wait until the catch has ended. When it fails, the step fails with the catch's error."""

    state = StepState.CATCH_CONTINUE


class CatchEndHandler(StateHandler):
    """No work after the catch: the step continues by capturing the yields of its blocks and of the catch."""
