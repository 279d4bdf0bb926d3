"""Capture: the yields of the blocks become the step's returns, and defaults fill the returns that are still unset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from afl.engine.errors import EvaluationError, ReferenceError
from afl.engine.execution.captures import capture_order, is_kept
from afl.engine.execution.execution import Execution
from afl.engine.execution.leaving import forget_yields, with_left_yields
from afl.engine.execution.mixins import merge_yields, with_mixin_attributes, with_yields_to_mixins
from afl.engine.model.plan import FacetPlan
from afl.engine.model.records import LeftYield, StepRecord
from afl.engine.model.step_values import LinkedParams, StepLookup
from afl.engine.planning.binding import bind_return_defaults
from afl.engine.types import Value


def capture_mixins(execution: Execution, step: StepRecord) -> bool:
    """Make the outcome of each mixin with an alias an attribute of the step."""
    if step.facet is not None and step.facet.mixins:
        execution.give(step, with_mixin_attributes(execution, step), step.returns)
    return True


def capture_yields(execution: Execution, step: StepRecord) -> bool:
    """Merge the yields addressed to this step and its mixins, in the order of the program whatever completed first.

    Per field: the first value sets it; then array and array concatenate, anything else replaces.
    """
    # All or nothing: when a default fails and is caught, what was captured is merged again, after more has come.
    returns, params, facet = step.returns, step.params, step.facet
    if step.captured is not None:
        captured = step.captured if execution.leaving is None else with_left_yields(execution, step)
        yields = _in_order(captured, only_kept=execution.has_caught)
        if facet is not None and facet.yield_targets:
            params = with_yields_to_mixins(params, _to_mixins(yields))
            returns = merge_yields(returns, _to_step(yields, facet))
        else:
            returns = merge_yields(returns, [yielded.params for yielded in yields])
    if facet is not None and facet.return_defaults:
        lookup = execution if facet.reads_steps else None
        bind = bind_return_defaults if step.caught is None else _defaults_that_can_be
        returns = bind(facet, params, returns, lookup)
    if params is not step.params or returns is not step.returns:
        execution.give(step, params, returns)
    step.captured = None
    if execution.leaving is not None:
        forget_yields(execution, step)
    return True


def _defaults_that_can_be(
    facet: FacetPlan, params: Mapping[str, Value], returns: Mapping[str, Value], lookup: StepLookup | None
) -> dict[str, Value]:
    """Return defaults of a step that was caught: what it failed before it was bound may be missing for some, and
    these returns stay unset.
    """
    bound = dict(returns)
    scope = params if lookup is None else LinkedParams(params, lookup)
    for name, default in facet.return_defaults:
        if name not in bound:
            with suppress(EvaluationError, ReferenceError):
                bound[name] = default(scope)
    return bound


def _in_order(captured: Sequence[StepRecord | LeftYield], *, only_kept: bool) -> list[StepRecord | LeftYield]:
    yields = [yielded for yielded in captured if is_kept(yielded)] if only_kept else list(captured)
    if len(yields) > 1:
        yields.sort(key=capture_order)
    return yields


def _to_mixins(yields: list[StepRecord | LeftYield]) -> Iterator[tuple[str, Mapping[str, Value]]]:
    """Return the values that yields give to aliases."""
    for yielded in yields:
        statement = yielded.statement
        assert statement is not None
        if statement.yield_alias is not None:
            yield statement.yield_alias, yielded.params


def _to_step(yields: list[StepRecord | LeftYield], facet: FacetPlan) -> Iterator[Mapping[str, Value]]:
    """Return the values that yields give to the step; of a mixin without alias, the declared returns only."""
    for yielded in yields:
        statement = yielded.statement
        assert statement is not None
        if statement.yields_declared:
            yield {name: value for name, value in yielded.params.items() if name in facet.return_types}
        elif statement.yield_alias is None:
            yield yielded.params
