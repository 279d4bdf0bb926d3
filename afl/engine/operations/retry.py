"""Retry: failed work is repeated where it failed, and work that its failure had stopped continues.

A failed step is not complete: its row is changed in place. It goes back to the state of its table in which its work is
repeated, and all enclosing steps go back to the state in which they wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from afl.engine.model.step_rows import ErrorRecord, StepDocument
from afl.engine.model.workflow_rows import PAUSED
from afl.engine.operations.operation_errors import StepNotFailed, StepWasCaught
from afl.engine.operations.run_rows import RunRows, asking_again, is_catch, start_of, waits_for
from afl.engine.states import EventState, StepState
from afl.engine.types import ObjectType


def retry(rows: RunRows, step_id: str, *, is_whole_run: bool = False) -> list[str]:
    """Open a failed step again; if it failed, or will fail, because of steps inside it, open all failed ones there.

    With `is_whole_run` the step is the run's root, and the action named the run.

    Returns the ids of the repeated steps. Raises StepNotFailed, and StepWasCaught for a failure that a catch handled.
    """
    step = rows.documents[step_id]
    by = _caught_by(rows, step)
    if by is not None:
        raise StepWasCaught(
            step_id=step_id, path=rows.step_path(step), catching_id=by.id, catching_path=rows.step_path(by)
        )
    causes = [] if step.state == StepState.STATEMENT_COMPLETE else _open_below(rows, step)
    if not causes:
        shown = "WAITING" if rows.row.status == PAUSED else rows.row.status
        status = shown if is_whole_run else None
        raise StepNotFailed(step_id=step_id, path=rows.step_path(step), state=step.state, run_status=status)
    _open_around(rows, step)
    open_those_that_waited(rows, set(causes))
    # Blocks that had waited for one of these have failed with its error.
    return [cause for cause in causes if _is_own(rows.documents[cause])] or causes


def _is_failed(document: StepDocument) -> bool:
    return document.state == StepState.STATEMENT_ERROR


def _is_own(document: StepDocument) -> bool:
    return document.error is not None and document.error.step_id == document.id


def _outwards(rows: RunRows, document: StepDocument) -> Iterator[tuple[StepDocument, StepDocument]]:
    """Yield each enclosing step, from the nearest to the root, with its part that contains this step."""
    part, outer = document, rows.around(document)
    while outer is not None:
        yield outer, part
        part, outer = outer, rows.around(outer)


def _caught_by(rows: RunRows, document: StepDocument) -> StepDocument | None:
    """Return the enclosing step whose catch has handled, or is handling, its failure."""
    for outer, part in _outwards(rows, document):
        if outer.state == StepState.STATEMENT_COMPLETE:
            return outer
        if not is_catch(part) and (rows.catch_of(outer) is not None or StepState.is_catching(outer.state)):
            return outer
    return None


def _open_below(rows: RunRows, top: StepDocument) -> list[str]:
    """Open a step that has failed or is unfinished, and all failed steps inside it that were not caught there.

    Returns the ids of those that failed by themselves.
    """
    causes: list[str] = []
    pending = [top]
    while pending:
        step = pending.pop()
        parts = _open_parts(rows, step)
        pending += parts
        if not _is_failed(step):
            _forget_error(rows, step)
        elif parts:
            _open(rows, step, waits_for(step, parts[0]))
            if not any(map(_is_failed, parts)):
                causes.append(step.id)  # The run was ended while these were unfinished.
        else:
            _open_cause(rows, step)
            causes.append(step.id)
    return causes


def _open_parts(rows: RunRows, step: StepDocument) -> list[StepDocument]:
    """Return the parts inside a step that are not complete; when its catch runs or has run, only those of the catch."""
    catch = rows.catch_of(step)
    parts = rows.inside(step.id) if catch is None else [catch]
    return [part for part in parts if part.state != StepState.STATEMENT_COMPLETE]


def _open(rows: RunRows, step: StepDocument, state: str) -> None:
    error = rows.caught_for(step) if StepState.is_catching(state) else None
    rows.change(step._replace(state=state, error=error))


def _open_cause(rows: RunRows, step: StepDocument) -> None:
    """Open a step that failed by itself, in the state in which its own work is repeated."""
    parts = rows.inside(step.id)
    if ObjectType.is_block(step.object_type):
        plan = rows.record_of(step).plan
        assert plan is not None
        starts_over = not parts and (plan.splits or plan.script is not None)
        _open(rows, step, start_of(step.object_type) if starts_over else StepState.BLOCK_EXECUTION_CONTINUE)
        return
    facet = rows.facet_of(step)
    blocks = [part for part in parts if ObjectType.is_block(part.object_type)]
    if blocks:
        # They are complete: the capture of their yields has failed. Or the run was ended while they ran.
        _open(rows, step, waits_for(step, rows.catch_of(step) or blocks[0]))
    elif step.event_state == EventState.COMPLETED:
        _open(rows, step, StepState.STATEMENT_BLOCKS_BEGIN)
    elif facet is not None and facet.is_event and (step.event_state or step.attempt):
        again = asking_again(step)._replace(returns=rows.returns_before_event(step))
        _open(rows, again, StepState.EVENT_TRANSMIT)
    elif parts:
        _open(rows, step, StepState.MIXIN_BLOCKS_CONTINUE)
    else:
        _open(rows, step._replace(returns={}), start_of(step.object_type))


def _open_around(rows: RunRows, step: StepDocument) -> None:
    """Make all enclosing steps wait for a step again."""
    for outer, part in _outwards(rows, step):
        known = rows.changed.get(outer.id, outer)
        if _is_failed(known):
            _open(rows, known, waits_for(known, part))
        else:
            _forget_error(rows, known)


def _forget_error(rows: RunRows, step: StepDocument) -> None:
    """Clear the error with which an unfinished step will fail when the rest of it has ended.

    Other failures inside it are found again.
    """
    if step.error is not None and not StepState.is_catching(step.state):
        rows.change(step._replace(error=None))


def open_those_that_waited(rows: RunRows, causes: set[str]) -> None:
    """Open steps elsewhere that failed, or will fail, because they waited for one of these."""

    def is_of_these(error: ErrorRecord | None) -> bool:
        return error is not None and error.step_id in causes

    for document in rows.documents.values():
        if document.id in rows.changed or document.id in rows.gone:
            continue
        if not ObjectType.is_block(document.object_type) or not is_of_these(document.error):
            continue
        if not _is_failed(document):
            _forget_error(rows, document)
        elif not _open_parts(rows, document) and _caught_by(rows, document) is None:
            _open_cause(rows, document)
            _open_around(rows, document)
