"""Binding: arguments become a step's attributes, and the callee's defaults fill in arguments that the call left out."""

from __future__ import annotations

from collections.abc import Mapping

from afl.engine.expressions.expression import gives_number
from afl.engine.model.plan import Binder, Default, FacetPlan, MixinPlan, StatementPlan
from afl.engine.model.records import Frame
from afl.engine.model.step_values import LinkedParams, StepLookup
from afl.engine.types import Value

#: The initial params and returns of a step.
Bound = tuple[Mapping[str, Value], Mapping[str, Value]]

_NOTHING: Mapping[str, Value] = {}

ParameterDefaults = tuple[tuple[str, Default], ...]


def bind_arguments(plan: StatementPlan, frame: Frame) -> Bound:
    """Return a step's initial params and returns. A schema's arguments become returns; a yield has nothing else."""
    args = plan.args
    if len(args) == 1:
        # By far the most common call; a comprehension would add a frame of its own.
        name, value = args[0]
        bound: dict[str, Value] = {name: value(frame)}
    else:
        bound = {name: value(frame) for name, value in args}
    callee = plan.callee
    if callee is None or plan.is_yield:
        return bound, _NOTHING
    if callee.is_schema:
        return _NOTHING, bound
    parameter_defaults = plan.parameter_defaults
    if parameter_defaults:
        if callee.reads_steps:
            bound = with_defaults(bound, parameter_defaults, frame.lookup)
        else:
            for name, default in parameter_defaults:
                bound[name] = default(bound)
    return bound, _NOTHING


def binder_of(plan: StatementPlan) -> Binder:
    """Return a function that binds a step which only binds: its params, and its returns with the callee's defaults.

    Made once for each statement. Most calls have one argument, and callees with one return default or none: these cases
    need no checks at run time. Calls with only numbers as arguments need none either: their sizes need not be counted.
    """
    callee = plan.callee
    return_defaults = callee.return_defaults if callee is not None else ()
    bind = _fastest_binder(plan, return_defaults)
    given = (value for values in (plan.args, plan.parameter_defaults, return_defaults) for _, value in values)
    if all(map(gives_number, given)):
        return bind

    def bind_counted(frame: Frame) -> Bound:
        bound = bind(frame)
        frame.bounds.admit(*bound)
        return bound

    return bind_counted


def _fastest_binder(plan: StatementPlan, return_defaults: ParameterDefaults) -> Binder:
    callee = plan.callee
    is_special = callee is not None and (callee.is_schema or (callee.reads_steps and bool(return_defaults)))
    if len(plan.args) != 1 or plan.parameter_defaults or len(return_defaults) > 1 or is_special:
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
    callee = plan.callee
    if callee is not None and callee.return_defaults:
        returns = bind_return_defaults(callee, params, returns, frame.lookup if callee.reads_steps else None)
    return params, returns


def bind_inputs(facet: FacetPlan, inputs: Mapping[str, Value]) -> dict[str, Value]:
    """Return a workflow's params: the given inputs, and its declaration's values for the rest."""
    return with_defaults(dict(inputs), facet.parameter_defaults, None)


def bind_mixin(plan: MixinPlan, around: Mapping[str, Value], lookup: StepLookup) -> dict[str, Value]:
    """Return the params of a mixin's step: its arguments in the scope of the step around it, the rest in its own."""
    scope = LinkedParams(around, lookup)
    return with_defaults({name: value(scope) for name, value in plan.args}, plan.parameter_defaults, lookup)


def with_defaults(
    given: dict[str, Value], parameter_defaults: ParameterDefaults, lookup: StepLookup | None
) -> dict[str, Value]:
    """Return the given values and the defaults for the rest, each evaluated in the callee's own scope."""
    bound = LinkedParams(given, lookup) if lookup is not None else given
    for name, default in parameter_defaults:
        if name not in bound:
            bound[name] = default(bound)
    return dict(bound) if lookup is not None else bound


def bind_return_defaults(
    facet: FacetPlan, params: Mapping[str, Value], returns: Mapping[str, Value], lookup: StepLookup | None
) -> dict[str, Value]:
    """Return a new map of the returns, with the facet's return defaults for those that are not set."""
    bound = dict(returns)
    if lookup is not None:
        params = LinkedParams(params, lookup)
    for name, default in facet.return_defaults:
        if name not in bound:
            bound[name] = default(params)
    return bound
