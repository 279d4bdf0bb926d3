"""Binding: arguments become a step's attributes, with the callee's defaults for what the call left out."""

from __future__ import annotations

from collections.abc import Mapping

from afl.runtime.plan import FacetPlan, StatementPlan
from afl.runtime.records import Frame
from afl.runtime.types import Value

_NOTHING: Mapping[str, Value] = {}


def bind_arguments(plan: StatementPlan, frame: Frame) -> tuple[Mapping[str, Value], Mapping[str, Value]]:
    """The params and returns that a step begins with. A schema's arguments are returns; a yield takes no defaults."""
    args = plan.args
    if len(args) == 1:
        # The most common call by far; a comprehension would cost a frame of its own.
        name, value = args[0]
        bound: dict[str, Value] = {name: value(frame)}
    else:
        bound = {name: value(frame) for name, value in args}
    callee = plan.callee
    if callee is None or plan.is_yield:
        return bound, _NOTHING
    if callee.is_schema:
        return _NOTHING, bound
    return (bind_defaults(callee, bound) if callee.defaults else bound), _NOTHING


def bind_statement(plan: StatementPlan, frame: Frame) -> tuple[Mapping[str, Value], Mapping[str, Value]]:
    """The params and returns of a step that does nothing but bind: its callee's return defaults are in."""
    params, returns = bind_arguments(plan, frame)
    if plan.has_return_defaults:
        assert plan.callee is not None
        returns = bind_return_defaults(plan.callee, params, returns)
    return params, returns


def bind_defaults(facet: FacetPlan, given: Mapping[str, Value]) -> dict[str, Value]:
    """What was given, with the facet's defaults for the rest, each evaluated in the facet's own scope."""
    bound = dict(given)
    for name, default in facet.defaults:
        if name not in bound:
            bound[name] = default(bound)
    return bound


def bind_return_defaults(
    facet: FacetPlan, params: Mapping[str, Value], returns: Mapping[str, Value]
) -> dict[str, Value]:
    """The returns, as a map of their own, with the facet's return defaults for those that nobody has set."""
    bound = dict(returns)
    for name, default in facet.return_defaults:
        if name not in bound:
            bound[name] = default(params)
    return bound
