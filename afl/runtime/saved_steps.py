"""Answers to steps that were put in with `save_step` and belong to no workflow of the engine: they are written only.

Nobody runs such a step. A result becomes its returns and it asks for its next state; a failure ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from afl.runtime.errors import LimitReached
from afl.runtime.persistence import ErrorRecord, PersistenceAPI
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition, StepTransition
from afl.runtime.types import Value
from afl.runtime.value_bounds import check_given
from afl.runtime.views import view_error

#: Puts an answer into a step that waits for one.
SavedAnswer = Callable[[StepDefinition], None]


def answer_saved_step(store: PersistenceAPI, step_id: str, answer: SavedAnswer) -> None:
    """Write an answer into a step as it was saved; a repeat does nothing.

    Raises ValueError for a step that is not there, or does not wait at its event.
    """
    step = store.get_step(step_id)
    if step is None:
        raise ValueError(f"step {step_id} not found")
    if _is_answered(step):
        return
    if step.state != StepState.EVENT_TRANSMIT:
        raise ValueError(f"step {step_id} is at {step.state}, expected {StepState.EVENT_TRANSMIT}")
    answer(step)
    store.save_step(step)


def result_of(values: Mapping[str, Value], max_bytes: int, *, is_partial: bool = False) -> SavedAnswer:
    """The answer that merges a result, or a part of one, into the returns. One that is too large fails the step."""

    def answer(step: StepDefinition) -> None:
        try:
            check_given(f"the result of {step.facet_name or step.id}", values, max_bytes)
        except LimitReached as error:
            step.mark_error(error)
            return
        for name, value in values.items():
            step.set_attribute(name, value, is_return=True)
        if not is_partial:
            step.transition = StepTransition(step.state, step.state)
            step.request_state_change(True)

    return answer


def failure_of(error_type: str, message: str) -> SavedAnswer:
    """The answer that fails the step."""
    return lambda step: step.mark_error(view_error(ErrorRecord(type=error_type, message=message, step_id=step.id)))


def _is_answered(step: StepDefinition) -> bool:
    """Whether a step has an answer: it has failed, or asks for the state behind its event since it came to that."""
    transition = step.transition
    if step.state == StepState.EVENT_TRANSMIT:
        # A step as it was made asks for its next state, too, but from Created.
        return transition.request_transition and transition.original_state == StepState.EVENT_TRANSMIT
    return step.is_error and transition.error is not None
