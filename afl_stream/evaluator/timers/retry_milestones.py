"""Milestones of further attempts: subscribers learn which attempt of a step has failed, and when the next one is."""

from __future__ import annotations

from collections.abc import Mapping

from afl.engine.execution.execution import Execution
from afl.engine.model.store import Batch, TimerKind
from afl_stream.evaluator.outbox import OutboxDispatch
from afl_stream.wire.bounded_texts import kept_failure
from afl_stream.wire.messages import Lifecycle
from afl_stream.wire.milestone_kinds import STEP_RETRYING


def tell_retries(dispatch: OutboxDispatch, executions: Mapping[str, Execution], batch: Batch, now_ms: int) -> None:
    """Add a milestone for each step that waits for its next attempt since this batch."""
    for timer in batch.timers:
        execution = executions.get(timer.workflow_id) if timer.kind is TimerKind.RETRY else None
        step = execution.steps.get(timer.step_id) if execution is not None else None
        if step is None or step.retry is None:
            continue
        error = step.retry.error
        milestone = Lifecycle(
            workflow_id=timer.workflow_id,
            kind=STEP_RETRYING,
            at=now_ms,
            step_id=step.id,
            facet=step.facet_name,
            # The attempt that has failed, and the time of the next one.
            outputs={"attempt": step.attempt, "next_at_ms": timer.due_at_ms},
            error=kept_failure(error.type, error.message),
        )
        dispatch.tell(batch, milestone)
