"""The end of a workflow that cannot be evaluated or stored: the loop continues, and no evaluator meets it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from afl.engine.values import sizes as value_sizes
from afl_stream.errors import NotEvaluable, NotStorable, StreamError
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.outcomes import Outcome
from afl_stream.evaluator.unit_of_work import UnitOfWork
from afl_stream.transport import Record

#: Errors that may occur while a workflow is read or evaluated, besides failures of a step or a record.
EXHAUSTED: Final = (MemoryError, RecursionError, OverflowError)


@contextmanager
def not_evaluable(workflow_id: str | None = None) -> Iterator[None]:
    """Raise NotEvaluable in place of errors of exhaustion inside: for that workflow, or for that of a record."""
    try:
        yield
    except EXHAUSTED as error:
        raise NotEvaluable(workflow_id, "", error) from error


def free_memory(context: EvaluatorContext) -> None:
    """Drop the caches, the store's too: memory may have been short."""
    value_sizes.forget()
    context.workflows.evict_all()


def fail_workflow(
    context: EvaluatorContext,
    record: Record | None,
    workflow_id: str | None,
    error: StreamError,
    commit: Callable[[UnitOfWork], None],
) -> None:
    """End the workflow of a record, or of a turn. If not even that can be stored, the workflow is left as it is.

    Raises WorkflowConflict when another writer came first: the caller tries again. Raises what `commit` raises when not
    even the record's dead letter can be stored.
    """
    free_memory(context)
    unit = UnitOfWork(context)
    try:
        unit.fail_workflow(record, workflow_id, error)
        commit(unit)
    except (NotStorable, NotEvaluable, *EXHAUSTED) as again:
        text = "workflow %s cannot be ended, and stays as it is stored: %s"
        context.warnings.error("workflows that cannot be ended", text, workflow_id or "of a record", again)
        unit = UnitOfWork(context)
        if record is not None:
            unit.outputs.dead_letter(record, error)
            unit.outcomes[Outcome.REJECTED] += 1
        commit(unit)
