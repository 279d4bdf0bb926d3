"""Binding: arguments become a step's attributes, with the callee's defaults for what the call left out."""

from __future__ import annotations

from collections.abc import Mapping

from afl.runtime.plan import Binder, FacetPlan, StatementPlan
from afl.runtime.records import Frame
from afl.runtime.types import Value

#: The params and returns that a step begins with.
Bound = tuple[Mapping[str, Value], Mapping[str, Value]]

_NOTHING: Mapping[str, Value] = {}


def bind_arguments(plan: StatementPlan, frame: Frame) -> Bound:
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


def binder_of(plan: StatementPlan) -> Binder:
    """What binds a step that does nothing but bind: its params, and its returns with the callee's return defaults.

    Made once a statement. Most calls have one argument, and callees with one return default or none: these are spared
    all questions at run time.
    """
    callee = plan.callee
    given = {name for name, _ in plan.args}
    asks_defaults = callee is not None and any(name not in given for name, _ in callee.defaults)
    return_defaults = callee.return_defaults if callee is not None else ()
    if len(plan.args) != 1 or asks_defaults or len(return_defaults) > 1 or (callee is not None and callee.is_schema):
        return lambda frame: _bind(plan, frame)
    name, value = plan.args[0]
    if not return_defaults:
        return lambda frame: ({name: value(frame)}, _NOTHING)
    return_name, default = return_defaults[0]

    def bind_one(frame: Frame) -> Bound:
        params = {name: value(frame)}
        return params, {return_name: default(params)}

    return bind_one


def _bind(plan: StatementPlan, frame: Frame) -> Bound:
    params, returns = bind_arguments(plan, frame)
    if plan.callee is not None and plan.callee.return_defaults:
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
