"""What an agent has answered, taken into its step: first it is checked, and what is wrong with it fails the step."""

from __future__ import annotations

from collections.abc import Mapping

from afl.core.declared_returns import RESULT_MISMATCH
from afl.core.exception_text import exception_class, exception_text
from afl.runtime.errors import LimitReached, RunLimitReached
from afl.runtime.execution import Execution
from afl.runtime.records import StepRecord
from afl.runtime.types import Value, copy_values
from afl.runtime.values import check_result


def take_result(
    execution: Execution,
    step: StepRecord,
    given: Mapping[str, Value],
    *,
    is_partial: bool = False,
    is_checked: bool = False,
) -> None:
    """Let a waiting step take a result, or the next part of one, as a copy; one over a limit fails the step by name, or
    ends the run where it is one of the run's.

    So does one that does not fit the returns which the facet declares, when `is_checked`: as ResultMismatch. What was
    told before counts as given.
    """
    what = f"the result of {step.facet_name}"
    try:
        # First: it may hold one value so often that walking through it takes for ever.
        size = execution.bounds.check_given(what, given)
        if is_checked and step.facet is not None:
            facet, required = step.facet, (step.statement or step.facet).required_returns
            # What a script has set is the value of a return that nobody else sets.
            told = step.returns if facet.pre_script is None else {**step.params, **step.returns}
            problem = check_result(facet, execution.plan.schemas, given, required, told, is_partial)
            if problem is not None:
                execution.fail_with(step, RESULT_MISMATCH, problem)
                return
        # What was told before counts, too: all of it is kept.
        kept = {**step.returns, **given} if step.returns else given
        if not execution.bounds.is_small(kept, step.size + size):
            execution.bounds.check_values(execution, what, kept)
        result = copy_values(given)
        if is_partial:
            execution.update_with(step, result, size)
        else:
            execution.continue_with(step, result, size)
    except RunLimitReached as error:
        execution.exceed(error)
    except LimitReached as error:
        execution.fail_with(step, exception_class(error), exception_text(error))
