"""What an agent has answered, taken into its step: checked first, so that what is too large or too deep fails it."""

from __future__ import annotations

from collections.abc import Mapping

from afl.runtime.errors import LimitReached
from afl.runtime.execution import Execution
from afl.runtime.records import StepRecord
from afl.runtime.types import Value, copy_values


def take_result(
    execution: Execution, step: StepRecord, given: Mapping[str, Value], *, is_partial: bool = False
) -> None:
    """Let a waiting step take a result, or the next part of one, as a copy; one over a limit fails the step by name."""
    try:
        # What was told before counts, too: all of it is kept.
        execution.bounds.check_values(execution, f"the result of {step.facet_name}", {**step.returns, **given})
    except LimitReached as error:
        execution.fail_with(step, type(error).__name__, str(error))
        return
    result = copy_values(given)
    if is_partial:
        execution.update_with(step, result)
    else:
        execution.continue_with(step, result)
