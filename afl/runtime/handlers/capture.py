"""Capture: the blocks' yields become the step's returns, and return defaults fill the unset ones."""

from __future__ import annotations

from afl.engine.states import StepState
from afl.runtime.handlers.base import StateHandler


class MixinCaptureBeginHandler(StateHandler):
    """Make the mixins' results attributes of the step, one for each alias."""

    state = StepState.MIXIN_CAPTURE_BEGIN


class MixinCaptureEndHandler(StateHandler):
    """No work after the capture of the mixins."""


class StatementCaptureBeginHandler(StateHandler):
    """Merge the yields addressed to this step and its mixins, in the order of the program whatever completed first.

    For each field the first value sets it; then array and array concatenate, anything else replaces.
    """

    state = StepState.STATEMENT_CAPTURE_BEGIN


class StatementCaptureEndHandler(StateHandler):
    """Nothing to do after the capture."""
