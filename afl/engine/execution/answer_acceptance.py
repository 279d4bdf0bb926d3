"""The decision whether a step takes an answer, and the record of a late answer."""

from __future__ import annotations

from afl.core.ids import event_id_of
from afl.engine.execution.execution import Execution
from afl.engine.execution.step_log import log_fields, note
from afl.engine.model.entities import NoteType
from afl.engine.model.records import KIND_SLOTS, StepRecord
from afl.engine.model.store import Batch
from afl.engine.states import STEP_TRANSITIONS, StepState

#: States of a step that has not reached its event yet.
_BEFORE_EVENT = frozenset(list(STEP_TRANSITIONS)[: list(STEP_TRANSITIONS).index(StepState.EVENT_TRANSMIT)])
#: Kinds of steps that may send an event.
_HAVE_EVENTS = frozenset(kind for kind, slots in KIND_SLOTS.items() if "event_state" in slots)


def is_superseded(step: StepRecord, event_id: str) -> bool:
    """Return whether the event of an answer is out of date: the step has sent another event since, or is about to."""
    is_asking_again = step.attempt > 0 and not step.event_state
    return is_asking_again or event_id != event_id_of(step.id, step.attempt)


def takes_answer(execution: Execution, step: StepRecord) -> bool:
    """Return whether an answer changes the step. Raises ValueError before the step's event, which may be held."""
    if step.is_waiting:
        # In a workflow that was ended meanwhile an answer is late, like one to a step that has gone on.
        return not execution.is_ended
    if step.kind not in _HAVE_EVENTS or step.state in _BEFORE_EVENT:
        raise ValueError(f"step {step.id} is at {step.state}, expected {StepState.EVENT_TRANSMIT}")
    if step.state == StepState.EVENT_TRANSMIT:
        if step.retry is not None:
            return False  # The attempt that it was for has failed: there is a next one.
        raise ValueError(f"step {step.id} has not sent its event yet, expected one at {StepState.EVENT_TRANSMIT}")
    return False


def late_answer(execution: Execution, step: StepRecord) -> Batch | None:
    """Return what to store of an answer to a step whose workflow has ended before it: an entry of the run log, the
    same for a repeat. None for an answer that is not late.
    """
    if not (execution.is_ended and step.is_waiting):
        return None
    fields: dict[str, object] = {**log_fields(execution, step), "attempt": step.attempt}
    text = f"an answer to attempt {step.attempt} has come after the workflow had ended: it is {execution.status}"
    note(execution, step, f"late-{step.attempt}", NoteType.WARNING, text, fields)
    logs, execution.effects.logs = execution.effects.logs, []
    return Batch(logs=logs, confirms={execution.id: execution.revision}, now_ms=execution.now_ms, values_checked=True)
