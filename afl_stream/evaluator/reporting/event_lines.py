"""The evaluator's lines about what it has committed: one for each answer, command and external event, and each end.

They are written once the commit is durable: a batch that is computed again does not tell of its records twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from afl.engine.execution.execution import Execution
from afl.engine.model.store import ParkedRecord
from afl_stream.errors import StreamError
from afl_stream.evaluator.answer_identity import attempt_of_answer, workflow_of_answer
from afl_stream.evaluator.outcomes import Outcome
from afl_stream.evaluator.sensitive.outgoing import OutgoingValues
from afl_stream.settings.config import StreamConfig
from afl_stream.wire.messages import Answer, Command, ExternalEvent, StepContinue, StepFailed, StepUpdate

log: Final = logging.getLogger("afl_stream.evaluator.events")

#: What an answer that was applied has done to its step.
_DONE: Final = {StepContinue: "completed", StepFailed: "failed", StepUpdate: "updated"}


class _Line(NamedTuple):
    """A line to be written, and the fields of its record."""

    text: str
    arguments: tuple[object, ...]
    fields: Mapping[str, object]


class EventLines:
    """The lines of one unit of work. Make one only where they are written: `wanted` says so, once a batch."""

    def __init__(self, now_ms: int, *, with_values: bool, sensitive: OutgoingValues | None = None) -> None:
        """`sensitive` says which values are shown; None: all are."""
        self._now_ms = now_ms
        self._sensitive = sensitive
        self._with_values = with_values
        self._lines: list[_Line] = []

    def note(self, message: object, outcome: Outcome, executions: Mapping[str, Execution | None]) -> None:
        """Note the outcome of a record; `executions` are the workflows that its unit has."""
        if isinstance(message, Answer):
            workflow_id = _workflow_of(message)
            self._answer(message, outcome, None if workflow_id is None else executions.get(workflow_id))
        elif isinstance(message, Command):
            self._other(type(message).__name__, message.workflow_id, outcome, {})
        elif isinstance(message, ExternalEvent):
            value = {"value": self._event_value(message, executions)} if self._with_values else {}
            self._other(f"external event {message.name}", message.workflow_id, outcome, value)

    def note_parked(self, row: ParkedRecord, outcome: Outcome, executions: Mapping[str, Execution | None]) -> None:
        """Note the outcome of an answer that had come before its step."""
        facet, attempt, took_ms = self._step(executions.get(row.workflow_id), row.step_id)
        fields = {"workflow_id": row.workflow_id, "step_id": row.step_id, "facet": facet, "attempt": attempt}
        fields |= {"outcome": outcome.value, "duration_ms": took_ms}
        text = "%s step %s: an answer that had come before it is %s"
        self._lines.append(_Line(text, (facet or "answer to", row.step_id, outcome.value), fields))

    def write(self, changed: Iterable[Execution]) -> None:
        """Write the lines; `changed` are the workflows that the unit has written, of which some may have ended."""
        self._ends(changed)
        for text, arguments, fields in self._lines:
            log.info(text, *arguments, extra=fields)
        self._lines.clear()

    def _ends(self, executions: Iterable[Execution]) -> None:
        for execution in executions:
            if not execution.is_ended:
                continue
            error = execution.root.error
            status = "cancelled" if execution.cancelled else "completed" if error is None else "failed"
            took_ms = max(0, execution.ended_at_ms - execution.created_at_ms)
            fields: dict[str, object] = {
                "workflow_id": execution.id,
                "workflow": execution.plan.name,
                "outcome": status,
                "duration_ms": took_ms,
                "steps": execution.count,
            }
            why = ""
            if error is not None and status == "failed":
                fields |= {"error_type": error.type, "step_id": error.step_id or None}
                why = f": {error.type}: {error.message}"
            text = "run %s (%s): %s after %.3f s, %d steps%s"
            arguments = (execution.id, execution.plan.name, status, took_ms / 1000, execution.count, why)
            self._lines.append(_Line(text, arguments, fields))

    def _answer(self, answer: Answer, outcome: Outcome, execution: Execution | None) -> None:
        facet, attempt, took_ms = self._step(execution, answer.step_id)
        attempt = _attempt_of(answer) or attempt
        done = _DONE[type(answer)] if outcome is Outcome.APPLIED else outcome.value
        fields: dict[str, object] = {
            "workflow_id": _workflow_of(answer),
            "step_id": answer.step_id,
            "facet": facet,
            "attempt": attempt,
            "outcome": done,
            "duration_ms": took_ms,
            "group": answer.group,
            "agent": answer.agent,
        }
        why = ""
        if isinstance(answer, StepFailed):
            fields["error_type"] = answer.error.type
            why = f": {answer.error.type}{_text_of(answer, execution)}"
        elif self._with_values:
            given = answer.partial if isinstance(answer, StepUpdate) else answer.result
            fields["result"] = self._result(execution, facet, given)
        took = "" if took_ms is None else f" after {took_ms / 1000:.3f} s"
        text = "%s step %s attempt %s: %s%s%s"
        self._lines.append(
            _Line(text, (facet or "answer to", answer.step_id, attempt or "-", done, took, why), fields)
        )  # fmt: skip

    def _result(self, execution: Execution | None, facet: str | None, given: Mapping[str, object]) -> object:
        """Return a result as a log may have it; None for a step that is not known: its facet may have marks."""
        if self._sensitive is None:
            return given
        return None if execution is None or facet is None else self._sensitive.shown_result(execution, facet, given)

    def _event_value(self, event: ExternalEvent, executions: Mapping[str, Execution | None]) -> object:
        if self._sensitive is None:
            return event.value
        return self._sensitive.shown_event(executions.get(event.workflow_id), event.name, event.value)

    def _step(self, execution: Execution | None, step_id: str) -> tuple[str | None, int | None, int | None]:
        """Return a step's facet and attempt, and the time since it was made, in ms, as far as they are known."""
        step = None if execution is None else execution.steps.get(step_id)
        if step is None:
            return None, None, None
        facet = None if step.facet is None else step.facet.name
        return facet, step.attempt or None, max(0, self._now_ms - step.created_at_ms)

    def _other(self, what: str, workflow_id: str, outcome: Outcome, more: Mapping[str, object]) -> None:
        fields = {"workflow_id": workflow_id, "record": what, "outcome": outcome.value, **more}
        self._lines.append(_Line("%s of run %s: %s", (what, workflow_id, outcome.value), fields))


def lines_for(now_ms: int, config: StreamConfig, sensitive: OutgoingValues | None) -> EventLines | None:
    """Return what notes the lines of a unit of work; None where nobody reads them."""
    if not log.isEnabledFor(logging.INFO):
        return None
    return EventLines(now_ms, with_values=config.logging.values, sensitive=sensitive)


def _text_of(answer: StepFailed, execution: Execution | None) -> str:
    """Return the text of a failure as its step keeps it: without sensitive values. Of a step that is not known, none:
    an agent may have quoted anything.
    """
    step = None if execution is None else execution.steps.get(answer.step_id)
    if execution is None or step is None:
        return ""
    return f": {execution.kept_text(step, answer.error.message)}"


def _workflow_of(answer: Answer) -> str | None:
    try:
        return workflow_of_answer(answer)
    except StreamError:
        return answer.workflow_id


def _attempt_of(answer: Answer) -> int | None:
    try:
        return attempt_of_answer(answer)
    except StreamError:
        return answer.attempt
