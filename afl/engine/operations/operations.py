"""Actions of operators on runs: retry failed work, run again from a step, and reset.

An action works on the rows of one revision, by the tables of the kinds of its steps (retry.py, rerun.py), and the
workflow is read back from what it made of them, as it is after a restart: there is no second way to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from afl.core.ids import event_id_of
from afl.engine.execution.execution import Execution
from afl.engine.execution.step_log import note
from afl.engine.model.entities import LogDefinition, NoteType, TaskState
from afl.engine.model.store import StepDocument, TaskEnd, WorkflowRow
from afl.engine.operations.operation_errors import StepSuperseded, UnknownStep
from afl.engine.operations.rerun import rerun, reset
from afl.engine.operations.retry import retry
from afl.engine.operations.run_rows import RunRows

#: Loads a workflow from rows.
Restore = Callable[[WorkflowRow, Sequence[StepDocument]], Execution]


class LogStore(Protocol):
    """The store of runs' log entries."""

    def get_logs_by_runner(self, runner_id: str) -> Sequence[LogDefinition]: ...


class Kind(StrEnum):
    """The kinds of actions on a run."""

    RETRY = "retry"
    RERUN = "rerun"
    RESET = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An operator's action on one run. Without a step it is about the whole run.

    `command_id` identifies it: with one, the run's log keeps it, and a repeated action has its effect only once.
    """

    kind: Kind
    step_id: str | None = None
    reason: str = ""
    command_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A run after an action, to be committed, and the steps that are repeated."""

    execution: Execution
    steps: Sequence[str]


def open_again(row: WorkflowRow, documents: Sequence[StepDocument], action: Action, restore: Restore) -> Opened:
    """Do an action on the stored rows of a run. Nothing is written: commit the returned run.

    Raises OperationRefused: UnknownStep, StepSuperseded, StepNotFailed, StepWasCaught.
    """
    rows = RunRows(restore(row, documents), row, documents)
    if action.kind is Kind.RESET:
        made = reset(rows)
    else:
        step_id = _known_step(rows, action.step_id or rows.root.id)
        is_whole_run = action.step_id is None
        made = retry(rows, step_id, is_whole_run=is_whole_run) if action.kind is Kind.RETRY else rerun(rows, step_id)
    rows.ask_again()
    is_later = action.kind is not Kind.RETRY
    execution = restore(rows.opened(row.execution + is_later), _with_changes(documents, rows.changed))
    _put_down(execution, rows)
    _note(execution, action, made)
    return Opened(execution=execution, steps=made)


def _known_step(rows: RunRows, step_id: str) -> str:
    if step_id in rows.documents:
        return step_id
    if any(document.id == step_id for document in rows.stored):
        raise StepSuperseded(step_id=step_id)
    raise UnknownStep(step_id=step_id)


def _with_changes(documents: Sequence[StepDocument], changed: dict[str, StepDocument]) -> list[StepDocument]:
    known = {document.id for document in documents}
    everything = [changed.get(document.id, document) for document in documents]
    everything += [document for document in changed.values() if document.id not in known]
    everything.sort(key=lambda document: document.number)
    return everything


def _put_down(execution: Execution, rows: RunRows) -> None:
    """Add the changes to the next commit, and end the tasks that are no longer needed."""
    for document in rows.changed.values():
        before = rows.documents.get(document.id)
        if before is not None and before.deadline_ms is not None and document.deadline_ms is None:
            execution.effects.timers_done.append(document.id)
        if execution.trace is not None:
            execution.trace.put_down(document, None if before is None else before.state)
        step = execution.steps.get(document.id)
        if step is not None:
            execution.touch(step)
        else:
            execution.documents.append(document._replace(revision=execution.revision + 1))
    execution.effects.task_ends += [
        TaskEnd(event_id_of(step_id, attempt), TaskState.CANCELED) for step_id, attempt in rows.withdrawn
    ]


def was_done(store: LogStore, workflow_id: str, command_id: str) -> bool:
    """Say whether a command has had its effect on a run already."""
    wanted = command_log_id(workflow_id, command_id)
    return any(entry.uuid == wanted for entry in store.get_logs_by_runner(workflow_id))


def command_log_id(workflow_id: str, command_id: str) -> str:
    """Return the id of the entry that a command leaves in the log of its run."""
    return f"{workflow_id}/command/{command_id}"


def _note(execution: Execution, action: Action, made: Sequence[str]) -> None:
    """Add an entry about the action to the run's log."""
    root = execution.root
    key = f"{action.kind}-{execution.revision + 1}"
    about = f" from {action.step_id}" if action.step_id else ""
    details: dict[str, object] = {"action": action.kind, "step": action.step_id, "steps": list(made[:_MOST_TOLD])}
    if action.reason:
        details["reason"] = action.reason
    note(execution, root, key, NoteType.INFO, f"{action.kind} of {execution.plan.name}{about}", details)
    if action.command_id is not None:
        note_command(execution, action.command_id)


def note_command(execution: Execution, command_id: str) -> None:
    """Let the entry that was just added to the log of a run say which command it is about: `was_done` finds it."""
    entry = execution.effects.logs[-1]
    entry.uuid = command_log_id(execution.id, command_id)
    # A fixed place, independent of other entries.
    entry.runner_id = execution.id


#: The most steps that the log entry of an action names.
_MOST_TOLD = 100
