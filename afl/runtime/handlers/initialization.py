"""Binding: a new step evaluates its arguments, and the defaults for those that the call left out."""

from __future__ import annotations

from afl.engine.states import StepState
from afl.runtime.handlers.base import StateHandler


class StatementBeginHandler(StateHandler):
    """Created: no work before binding."""


class FacetInitializationBeginHandler(StateHandler):
    """Evaluate all attribute expressions. A schema's become returns, those of other callees params.

    A yield takes no defaults. A root step was bound when the workflow was started.
    """

    state = StepState.FACET_INIT_BEGIN


class FacetInitializationEndHandler(StateHandler):
    """No work after binding."""
