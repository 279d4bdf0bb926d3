"""Mixins with an alias: each runs as a step of its own, and becomes one attribute of the step around it.

All of them start together, before the step's event and blocks. Each sees only its own attributes. A value that is
yielded to an alias comes too late for the step's own body; readers of the step see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from afl.core.ids import derived_id
from afl.engine.errors import ValueTooLarge
from afl.engine.model.plan import MixinPlan
from afl.engine.types import Value
from afl.engine.values.sizes import LEAST_ENTRY_BYTES, bytes_of, counting

if TYPE_CHECKING:
    from afl.engine.execution.execution import Execution
    from afl.engine.model.records import StepRecord


def mixin_step_id(workflow_id: str, owner_id: str, plan: MixinPlan) -> str:
    """Return the id of a mixin's step: `derived_id` of the step that it is part of, and its alias."""
    return derived_id(workflow_id, owner_id, plan.name)


def mixin_of(owner: StepRecord, name: str | None) -> MixinPlan | None:
    """Return the mixin whose own step has this statement id."""
    mixins = owner.facet.mixins if owner.facet is not None else ()
    return next((plan for plan in mixins if plan.name == name), None)


def with_mixin_attributes(execution: Execution, step: StepRecord) -> dict[str, Value]:
    """Return a step's params with an attribute for each mixin of its signature: the mixin's returns over its params.

    A map of arguments that the call gives under the same alias goes over that.
    """
    assert step.facet is not None
    params = dict(step.params)
    for plan in step.facet.mixins:
        mixin = execution.step_at(mixin_step_id(execution.id, step.id, plan))
        given = params.get(plan.alias)
        params[plan.alias] = {**mixin.params, **mixin.returns, **(given if isinstance(given, dict) else {})}
    return params


def with_yields_to_mixins(
    params: Mapping[str, Value], yields: Iterable[tuple[str, Mapping[str, Value]]]
) -> dict[str, Value]:
    """Return a step's params after the yields to aliases, in order, were merged into the attributes of these."""
    merged = dict(params)
    by_alias: dict[str, list[Mapping[str, Value]]] = {}
    for alias, values in yields:
        by_alias.setdefault(alias, []).append(values)
    for alias, all_values in by_alias.items():
        before = merged.get(alias)
        merged[alias] = merge_yields(before if isinstance(before, dict) else {}, all_values)
    return merged


def merge_yields(before: Mapping[str, Value], yields: Iterable[Mapping[str, Value]]) -> dict[str, Value]:
    """Return values with yielded ones merged into them, in order.

    For each field the first yielded value sets it, over an earlier value; then array and array concatenate, anything
    else replaces. Raises ValueTooLarge.
    """
    merged = dict(before)
    #: Arrays that this merge has made: all others are shared, and must not be changed.
    own: dict[str, list[Value]] = {}
    set_here: set[str] = set()
    for values in yields:
        for name, value in values.items():
            if isinstance(value, list) and name in set_here and isinstance(merged[name], list):
                if name not in own:
                    own[name] = list(merged[name])  # type: ignore[arg-type]  # checked in the line above
                    merged[name] = own[name]
                own[name].extend(value)
                if len(own[name]) * LEAST_ENTRY_BYTES > counting.max_bytes:
                    size = bytes_of(own[name])
                    raise ValueTooLarge(f"{name}, of all that was yielded so far,", size, counting.max_bytes)
                continue
            own.pop(name, None)
            merged[name] = value
            set_here.add(name)
    return merged
