"""What happened to a run in order of time, as far as the store knows it, and the topics where they were read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from afl.engine.model.history import HistoryKind, HistoryRow
from afl.stores.public.history import history_rows
from afl.stores.public.persistence import EngineStore
from afl_stream.visibility.records import Answer, PublishedEvent
from afl_stream.visibility.runs import RunDetail

#: What no store of this release keeps, and a timeline therefore lacks.
NOT_KEPT: Final = (
    "when a step changed its state: the store has when it was created, and its state now",
    "steps of executions that continued as new, and of those that were run again",
)
_STARTED, _ENDED = "WorkflowStarted", "WorkflowEnded"
#: Of what happened at the same time, what comes first.
_ORDER: Final = {_STARTED: 0, _ENDED: 9}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """Something that happened to a run.

    `kind` is WorkflowStarted, StepCreated, EventPublished, AnswerWritten, AnswerRefused, LogEntry, WorkflowEnded, or a
    kind of the store's history: ExternalEvent, ExternalSubscribed, ContinuedAsNew.
    """

    at_ms: int
    kind: str
    execution: int
    step_id: str = ""
    #: In words what it is about.
    text: str = ""
    details: Mapping[str, object] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {
            "at_ms": self.at_ms,
            "kind": self.kind,
            "execution": self.execution,
            "step_id": self.step_id or None,
            "text": self.text,
            **self.details,
        }


def timeline_of(store: EngineStore, run: RunDetail, execution: int | None = None) -> list[Transition]:
    """Return what happened to a run, in order of time; with `execution`, only to that one."""
    found = [*_of_steps(run), *_of_records(run), *_of_log(store, run)]
    found += [_of_history(row) for row in history_rows(store, run.row.id, execution)]
    if execution is not None:
        kept = {kind.value for kind in HistoryKind}
        found = [one for one in found if one.execution == execution or one.kind in kept]
    return sorted(found, key=lambda one: (one.at_ms, _ORDER.get(one.kind, 5)))


def _of_steps(run: RunDetail) -> Iterator[Transition]:
    row, now = run.row, run.row.execution_number
    yield Transition(at_ms=row.created_at_ms, kind=_STARTED, execution=1, text=row.name)
    for _, step in run.steps()[1:]:
        attempts = f", attempt {step.attempt}" if step.attempt > 1 else ""
        yield Transition(
            at_ms=step.created_at_ms,
            kind="StepCreated",
            execution=now,
            step_id=step.step_id,
            text=f"{step.label}: now {step.status}{attempts}",
            details={"label": step.label, "facet": step.facet, "status": step.status, "attempt": step.attempt},
        )
    if row.ended_at_ms:
        error = "" if row.error is None else f": {row.error.type}: {row.error.message}"
        yield Transition(at_ms=row.ended_at_ms, kind=_ENDED, execution=now, text=f"{run.summary.status}{error}")


def _of_records(run: RunDetail) -> Iterator[Transition]:
    if run.records is None:
        return
    labels = {step.step_id: step.label for _, step in run.steps()}
    for record in run.records.in_order():
        label = labels.get(record.step_id, "")
        kind, text = _words_of(record)
        yield Transition(
            at_ms=record.at_ms,
            kind=kind,
            execution=run.row.execution_number,
            step_id=record.step_id,
            text=f"{label}: {text}" if label else text,
            details={"label": label, "record": record.to_dict()},
        )


def _words_of(record: PublishedEvent | Answer) -> tuple[str, str]:
    place = f"{record.topic}[{record.partition}]@{record.offset}"
    if isinstance(record, PublishedEvent):
        return "EventPublished", f"attempt {record.attempt} at {place}"
    by = answered_by(record)
    if record.refused:
        return "AnswerRefused", f"{record.answer} at {place}{by}: {record.refused}"
    return "AnswerWritten", f"{record.answer} at {place}{by}{f': {record.error}' if record.error else ''}"


def answered_by(answer: Answer) -> str:
    """Return in words who gave an answer; "" where it does not say."""
    by = f" by {answer.agent}" if answer.agent else ""
    return by + (f" of {answer.group}" if answer.group else "")


def _of_log(store: EngineStore, run: RunDetail) -> Iterator[Transition]:
    for entry in store.get_logs_by_runner(run.row.runner_id or run.row.id):
        if entry.object_id == run.row.id:
            yield Transition(
                at_ms=entry.time,
                kind="LogEntry",
                execution=run.row.execution_number,
                step_id=entry.step_id or "",
                text=f"{entry.note_type}: {entry.message}",
            )


def _of_history(row: HistoryRow) -> Transition:
    return Transition(at_ms=row.at_ms, kind=row.kind.value, execution=row.execution, step_id=row.step_id, text=row.name)
