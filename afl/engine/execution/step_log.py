"""The step log: messages of workflows to their operators, stored with the steps that wrote them."""

from __future__ import annotations

import logging

from afl.engine.execution.execution import Execution
from afl.engine.model.entities import LogDefinition, NoteType
from afl.engine.model.records import StepRecord
from afl.engine.types import Value

#: The same messages in the log of the process. A record has `workflow`, `step`, `facet`, `path` and `position`, and
#: those of sys.log their pairs in `event`.
workflow_log = logging.getLogger("afl.workflow")


def log_fields(execution: Execution, step: StepRecord) -> dict[str, Value]:
    """Return the place of a step for logs: workflow, step, the facet around it, path, and position (line)."""
    owner = step.container if step.container is not None else step
    plan = step.statement if step.statement is not None else step.plan
    return {
        "workflow": execution.id,
        "step": step.id,
        "facet": owner.facet_name,
        "path": execution.step_path(step),
        "position": plan.line if plan is not None else 0,
    }


def note(
    execution: Execution, step: StepRecord, key: str, note_type: str, message: str, details: dict[str, object]
) -> None:
    """Add an entry to the current commit. `key` distinguishes it from other entries of the step."""
    execution.effects.logs.append(
        LogDefinition(
            uuid=f"{step.id}/{key}",
            order=step.number,
            # Entries are found by the runner of the workflow; without a runner, by the workflow itself.
            runner_id=execution.runner_id or execution.id,
            step_id=step.id,
            object_id=execution.id,
            object_type=step.object_type,
            note_type=note_type,
            message=message,
            state=step.state,
            line=int(str(details.get("position", 0))),
            details=details,
            time=execution.now_ms,
        )
    )


def warn(execution: Execution, step: StepRecord, key: str, message: str) -> None:
    """Log a warning about a step, in the process's log and in the step log."""
    fields = log_fields(execution, step)
    workflow_log.warning("%s: %s", fields["path"], message, extra=fields)
    note(execution, step, key, NoteType.WARNING, message, {**fields})
