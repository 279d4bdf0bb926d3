"""Milestones of steps that ask agents, where the settings want them: started, completed, failed."""

from __future__ import annotations

from collections.abc import Mapping

from afl.engine.execution.execution import Execution
from afl.engine.model.plan import WorkflowPlan
from afl.engine.model.records import StepRecord
from afl.engine.model.store import Batch
from afl.engine.states import EventState
from afl_stream.evaluator.dispatch_modes import DispatchByMode
from afl_stream.evaluator.outbox import OutboxDispatch
from afl_stream.wire.bounded_texts import kept_failure
from afl_stream.wire.messages import Lifecycle
from afl_stream.wire.milestone_kinds import STEP_COMPLETED, STEP_FAILED, STEP_STARTED


class StepMilestones:
    """The engine's port for outgoing events, around another one: each event and its end are told to subscribers, too.

    The milestones are outbox rows of the commit in which a step moves, behind its event. Without the setting this class
    is not in the way of any event.
    """

    def __init__(self, inner: DispatchByMode, outbox: OutboxDispatch, *, with_results: bool) -> None:
        self._inner = inner
        self._outbox = outbox
        self._with_results = with_results

    def prepare(self, plan: WorkflowPlan) -> None:
        """Announce the schemas of the events. Raises SchemaUnavailable."""
        self._inner.prepare(plan)

    def serves(self, execution: Execution) -> bool:
        return self._inner.serves(execution)

    def dispatch(self, execution: Execution, step: StepRecord, event_id: str, effects: Batch) -> None:
        """Add the event, and tell that its step asks. Raises what the other port raises."""
        self._inner.dispatch(execution, step, event_id, effects)
        self._outbox.tell(effects, _milestone(execution, step, STEP_STARTED, outputs={"attempt": step.attempt}))

    def answered(self, execution: Execution, step: StepRecord, effects: Batch) -> None:
        """Add what the answer means for the event, and tell how its step has ended.

        Of an attempt that another one follows there is a milestone already.
        """
        self._inner.answered(execution, step, effects)
        if step.event_state == EventState.COMPLETED:
            outputs = dict(step.returns) if self._with_results else None
            milestone = _milestone(execution, step, STEP_COMPLETED, outputs=outputs)
            self._outbox.tell_outputs(effects, milestone, execution.plan.fingerprint)
        elif step.event_state != EventState.RETRYING:
            self._outbox.tell(effects, _milestone(execution, step, STEP_FAILED))

    def ended(self, execution: Execution, effects: Batch) -> None:
        self._inner.ended(execution, effects)


def _milestone(
    execution: Execution, step: StepRecord, kind: str, *, outputs: Mapping[str, object] | None = None
) -> Lifecycle:
    # A failure that is caught is kept beside the catch that runs for it.
    error = (step.error or step.caught) if kind == STEP_FAILED else None
    return Lifecycle(
        workflow_id=execution.id,
        kind=kind,
        at=execution.now_ms,
        workflow=execution.plan.name,
        step_id=step.id,
        facet=step.facet_name,
        outputs=outputs,
        error=kept_failure(error.type, error.message) if error is not None else None,
    )
