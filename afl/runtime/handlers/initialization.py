"""Binding: a new step evaluates its arguments, and its callee's defaults for what the call left out."""

from __future__ import annotations

from collections.abc import Mapping

from afl.runtime.execution import Execution
from afl.runtime.handlers.base import StateHandler
from afl.runtime.plan import FacetPlan
from afl.runtime.records import Frame, StepRecord
from afl.runtime.types import Value


class StatementBeginHandler(StateHandler):
    """Created: nothing to do before binding."""


class FacetInitializationBeginHandler(StateHandler):
    """Evaluate all attribute expressions. A schema's become returns; everything else gets params.

    A yield takes no defaults. A root step was bound when the workflow was started.
    """

    @staticmethod
    def work(execution: Execution, step: StepRecord) -> bool:
        statement = step.statement
        if statement is None:
            return True
        frame: Frame = step.block.frame  # type: ignore[union-attr,assignment]  # a statement's block has begun
        args = statement.args
        if len(args) == 1:
            # The most common call by far; a comprehension would cost a frame of its own.
            name, value = args[0]
            bound: dict[str, Value] = {name: value(frame)}
        else:
            bound = {name: value(frame) for name, value in args}
        callee = statement.callee
        if callee is None or statement.is_yield:
            step.params = bound
        elif callee.is_schema:
            step.returns = bound
        else:
            step.params = bind_defaults(callee, bound) if callee.defaults else bound
        return True


class FacetInitializationEndHandler(StateHandler):
    """Nothing to do after binding."""


def bind_defaults(facet: FacetPlan, given: Mapping[str, Value]) -> dict[str, Value]:
    """What was given, with the facet's defaults for the rest, each evaluated in the facet's own scope."""
    bound = dict(given)
    for name, default in facet.defaults:
        if name not in bound:
            bound[name] = default(bound)
    return bound
