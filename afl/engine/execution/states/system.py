"""The statements of `sys`: log messages go to the runtime's log and the step log; assertions that are false fail."""

from __future__ import annotations

import json

from afl.engine.errors import EvaluationError
from afl.engine.execution.execution import Execution
from afl.engine.execution.step_log import log_fields, note, workflow_log
from afl.engine.model.entities import NoteType
from afl.engine.model.records import StepRecord
from afl.engine.types import ObjectType, Value
from afl.engine.values.operators import OperationError, condition


def run_system_statement(execution: Execution, step: StepRecord) -> bool:
    """Evaluate a statement of `sys` and perform it; its params keep the evaluated values."""
    statement, block = step.statement, step.block
    assert statement is not None
    assert block is not None
    frame = block.frame
    assert frame is not None
    values = {name: value(frame) for name, value in statement.args}
    execution.give(step, values, step.returns)
    if statement.object_type == ObjectType.SYS_LOG:
        _log(execution, step, values)
    elif not _is_true(values["condition"], statement.source_text):
        raise AssertionError(f"sys.assert failed: {statement.source_text}")
    return True


def _is_true(value: Value, text: str) -> bool:
    try:
        return condition("sys.assert", value)
    except OperationError as error:
        raise EvaluationError(expression=text, message=str(error)) from None


def _log(execution: Execution, step: StepRecord, values: dict[str, Value]) -> None:
    assert step.statement is not None
    try:
        text = json.dumps(values, ensure_ascii=False, default=str)
    except ValueError:
        text = ", ".join(values)  # An integer with more digits than Python converts to text.
    fields = log_fields(execution, step)
    workflow_log.info("%s: %s", fields["path"], text, extra={"event": values, **fields})
    note(execution, step, "log", NoteType.INFO, text, {"event": values, **fields})
