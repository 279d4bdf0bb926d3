"""Binding: a new step evaluates its arguments, and what fills in those that the call left out."""

from __future__ import annotations

from afl.engine.states import StepState
from afl.runtime.handlers.base import StateHandler


class StatementBeginHandler(StateHandler):
    """Created: nothing to do before binding."""


class FacetInitializationBeginHandler(StateHandler):
    """Evaluate all attribute expressions. A schema's become returns; everything else gets params.

    A yield takes no defaults. A root step was bound when the workflow was started.
    """

    state = StepState.FACET_INIT_BEGIN


class FacetInitializationEndHandler(StateHandler):
    """Nothing to do after binding."""
