"""Results of agents for a step: each is checked first, and a fault in it fails the step."""

from __future__ import annotations

from collections.abc import Mapping

from afl.core.declared_returns import RESULT_MISMATCH
from afl.core.text.exception_text import exception_class, exception_text
from afl.core.values import ValueRefused, plain_values
from afl.engine.errors import LimitReached, RunLimitReached
from afl.engine.execution.events import continue_with, fail_with, update_with
from afl.engine.execution.execution import Execution
from afl.engine.execution.library import answer_by_hand
from afl.engine.expressions.exact_doubles import refuse_inexact_doubles
from afl.engine.model.plan import FacetPlan
from afl.engine.model.records import StepRecord
from afl.engine.planning.value_checks import check_result
from afl.engine.states import EventState
from afl.engine.types import Value


def take_result(
    execution: Execution,
    step: StepRecord,
    given: Mapping[str, object],
    *,
    is_partial: bool = False,
    is_checked: bool = False,
) -> None:
    """Let a waiting step take a result, or the next part of one, as a copy.

    A result over a limit fails the step by name, or ends the run if it is a limit of the run. So do objects that are
    not values (ValueRefused), and a result that does not fit the returns which the facet declares (ResultMismatch),
    when `is_checked`; earlier parts count as given. Otherwise ValueRefused is raised, and nothing was changed.
    """
    what, path = f"the result of {step.facet_name}", "partial" if is_partial else "result"
    try:
        # Checked first: it may hold one value so often that walking through it would never end.
        size = execution.bounds.check_given(what, given, path)
        result: dict[str, Value] = plain_values(given, path)
        if step.event_state == EventState.WAITING and not is_partial:
            result = answer_by_hand(execution, step, result)
        if step.facet is not None:
            if not is_checked:
                refuse_inexact_doubles(result, step.facet.return_looks, path)
            elif (problem := _mismatch(execution, step, step.facet, result, is_partial)) is not None:
                fail_with(execution, step, RESULT_MISMATCH, problem)
                return
        # Earlier parts count too: all of them are kept.
        kept = {**step.returns, **result} if step.returns else result
        if not execution.bounds.is_small(kept, step.size + size):
            execution.bounds.check_values(execution, what, kept)
        if is_partial:
            update_with(execution, step, result, size)
        else:
            continue_with(execution, step, result, size)
    except ValueRefused as error:
        if not is_checked:
            raise
        fail_with(execution, step, exception_class(error), exception_text(error))
    except RunLimitReached as error:
        execution.exceed(error)
    except LimitReached as error:
        fail_with(execution, step, exception_class(error), exception_text(error))


def _mismatch(
    execution: Execution, step: StepRecord, facet: FacetPlan, result: Mapping[str, Value], is_partial: bool
) -> str | None:
    required = (step.statement or facet).required_returns
    # A value that a script has set is that of a return without another source.
    reported = step.returns if facet.pre_script is None else {**step.params, **step.returns}
    return check_result(facet, execution.plan.schemas, result, required, reported, is_partial)
