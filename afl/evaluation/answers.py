"""Answers to steps: their effect on a step of the engine, and on one that was stored with `save_step`.

A saved step without a workflow of the engine is only written, because the engine does not run it: a result becomes its
returns and requests its next state, a failure ends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from afl.core.text.exception_text import exception_class, exception_text
from afl.core.values import ValueRefused, describe_value, plain_values
from afl.engine.errors import LimitReached, WorkflowConflict
from afl.engine.execution.answer_acceptance import is_superseded, late_answer, takes_answer
from afl.engine.execution.events import fail_with
from afl.engine.execution.execution import Execution
from afl.engine.execution.results import take_result
from afl.engine.execution.stored_steps import find_step
from afl.engine.model.records import StepRecord
from afl.engine.model.store import ErrorRecord
from afl.engine.states import StepState
from afl.engine.types import Value
from afl.engine.values.bounds import check_given
from afl.stores.public.persistence import EngineStore, PersistenceAPI
from afl.stores.public.step import StepDefinition, StepTransition
from afl.stores.public.views import view_error


class Answer(Protocol):
    """The effect of an answer."""

    def take(self, execution: Execution, step: StepRecord) -> None:
        """Apply it to a step of a workflow that the engine has loaded."""

    def write(self, step: StepDefinition) -> None:
        """Write it into a step that was saved."""


class ResultAnswer:
    """A result, or a part of one, that is merged into the returns. `max_bytes` limits the size of a value.

    With `is_checked`, a result that does not fit the declared returns fails the step; a saved step has no known ones.
    """

    __slots__ = ("is_checked", "is_partial", "max_bytes", "values")

    def __init__(self, values: Mapping[str, Value], max_bytes: int, is_checked: bool, is_partial: bool = False) -> None:
        self.values = values
        self.max_bytes = max_bytes
        self.is_checked = is_checked
        self.is_partial = is_partial

    def take(self, execution: Execution, step: StepRecord) -> None:
        take_result(execution, step, self.values, is_checked=self.is_checked, is_partial=self.is_partial)

    def write(self, step: StepDefinition) -> None:
        """Write it into the returns; a result that is too large fails the step. Raises ValueRefused for a non-value."""
        try:
            path = "partial" if self.is_partial else "result"
            check_given(f"the result of {step.facet_name or step.id}", self.values, self.max_bytes, path)
        except LimitReached as error:
            step.mark_error(error)
            return
        for name, value in plain_values(self.values, path).items():
            step.set_attribute(name, value, is_return=True)
        if not self.is_partial:
            step.transition = StepTransition(step.state, step.state)
            step.request_state_change(True)


class FailureAnswer:
    """A failure: a text and a type, or an exception, which has both. Raises ValueRefused for other objects."""

    __slots__ = ("error_type", "message")

    def __init__(self, error: str | BaseException, error_type: str) -> None:
        if isinstance(error, BaseException):
            self.error_type, self.message = exception_class(error), exception_text(error)
            return
        for path, given in (("error_message", error), ("error_type", error_type)):
            if not isinstance(given, str):
                raise ValueRefused(path, "String", describe_value(given))
        self.error_type, self.message = error_type, error

    def take(self, execution: Execution, step: StepRecord) -> None:
        fail_with(execution, step, self.error_type, self.message)

    def write(self, step: StepDefinition) -> None:
        step.mark_error(view_error(ErrorRecord(type=self.error_type, message=self.message, step_id=step.id)))


def answer_step(
    store: EngineStore, execution: Execution, step_id: str, answer: Answer, event_id: str | None = None
) -> bool:
    """Give an answer to a step, and say whether it took it. Does nothing for a step that no longer waits.

    Raises ValueError for an unknown step and for one that has not reached its event, and WorkflowConflict for one that
    is being created at this moment.
    """
    step = find_step(execution, step_id)
    if step is None:
        if store.get_step(step_id) is None:
            if execution.is_superseded(step_id):
                return False  # It was given up when its workflow continued as new.
            raise ValueError(f"step {step_id} not found")
        if store.load_steps(execution.id, newer_than=execution.revision):
            # It belongs to a commit that is just becoming visible: read again.
            raise WorkflowConflict(workflow_ids=(execution.id,))
        return False  # It is complete, and never waited for an answer.
    if event_id is not None and is_superseded(step, event_id):
        return False
    if not takes_answer(execution, step):
        late = late_answer(execution, step)
        if late is not None:
            store.commit_batch(late)
        return False
    answer.take(execution, step)
    return True


def answer_saved_step(store: PersistenceAPI, step_id: str, answer: Answer) -> None:
    """Write an answer into a step as it was saved; a repeat does nothing.

    Raises ValueError for a missing step, and for one that does not wait at its event.
    """
    step = store.get_step(step_id)
    if step is None:
        raise ValueError(f"step {step_id} not found")
    if _is_answered(step):
        return
    if step.state != StepState.EVENT_TRANSMIT:
        raise ValueError(f"step {step_id} is at {step.state}, expected {StepState.EVENT_TRANSMIT}")
    answer.write(step)
    store.save_step(step)


def _is_answered(step: StepDefinition) -> bool:
    """Say whether a saved step has its answer: it has failed, or has requested its next state since its event."""
    transition = step.transition
    if step.state == StepState.EVENT_TRANSMIT:
        # A newly made step also requests its next state, but from Created.
        return transition.request_transition and transition.original_state == StepState.EVENT_TRANSMIT
    return step.is_error and transition.error is not None
