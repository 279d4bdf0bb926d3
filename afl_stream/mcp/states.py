"""Where a run stands, as every tool that moves a run tells it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from pydantic import Field

from afl.core.clock import monotonic_s
from afl.core.errors import AFLError
from afl.core.types import type_name
from afl.engine.model.plan import WorkflowPlan
from afl.engine.model.store import ENDED_STATUSES, PAUSED, WorkflowRow
from afl.engine.operations.unanswered import WaitingStep, waiting_steps
from afl.stores.public.persistence import EngineStore
from afl_stream.client.client import NotAnswered
from afl_stream.commands.invocation import NothingThere
from afl_stream.commands.programs import program_of, stored_plan
from afl_stream.mcp.bounds import RUN_VALUE_CHARS, bounded_values, value_uri
from afl_stream.mcp.deployment import Connected, Deployment
from afl_stream.mcp.shapes import Failure, Waiting, failure_of, waiting_of
from afl_stream.mcp.tool import Result
from afl_stream.visibility.waiting.described import described_steps
from afl_stream.visibility.workflows import WAITING, NoSuchWorkflow, full_id
from afl_stream.wire.messages import check_workflow_id

#: Waiting steps of one answer.
MOST_WAITING: Final = 20
_LOOK_INTERVAL_S: Final = 0.2
#: How long an evaluator may take to describe a run whose store is elsewhere.
_DESCRIBE_TIMEOUT_S: Final = 5.0


class RunState(Result):
    """Where a run stands now, and what would move it on."""

    run_id: str
    workflow: str
    status: str = Field(
        description="RUNNING, WAITING, COMPLETED, ERROR, CANCELLED, or UNKNOWN: no evaluator has taken it yet."
    )
    outputs: dict[str, Any] | None = None
    error: Failure | None = None
    waiting: list[Waiting] = Field(default=[], description=f"Steps that wait; at most {MOST_WAITING}.")
    waiting_total: int = 0
    next: str = Field(description="What to do next.")


def state_of(deployment: Deployment, run_id: str, wait_s: float = 0.0) -> RunState:
    """Return where a run stands; wait for so long until it has ended, or waits itself."""
    deadline_s = monotonic_s() + wait_s
    if not deployment.is_shared:
        # Nothing moves it but `settle`.
        try:
            with deployment.store() as store:
                return _in_store(deployment, store, run_id, 0.0)
        except NothingThere:
            return _unknown(deployment, run_id)
    with deployment.connected() as connected:
        with deployment.store_beside(connected) as store:
            if store is not None:
                return _in_store(deployment, store, run_id, deadline_s)
        return _described(deployment, connected, run_id)


def _in_store(deployment: Deployment, store: EngineStore, run_id: str, deadline_s: float) -> RunState:
    stop = deployment.stop
    while True:
        row = store.load_workflow(run_id)
        is_at_rest = row is not None and (row.status in ENDED_STATUSES or (row.status == PAUSED and not row.runnable))
        if is_at_rest or monotonic_s() >= deadline_s or stop.wait(_LOOK_INTERVAL_S):
            break
    if row is None:
        return _unknown(deployment, run_id)
    plan = stored_plan(program_of(store, row), row)
    return _state(deployment, row, waiting_steps(store, run_id), plan)


def _state(
    deployment: Deployment, row: WorkflowRow, steps: Sequence[WaitingStep], plan: WorkflowPlan | None
) -> RunState:
    outputs = None
    if row.outputs is not None:
        outputs = bounded_values(row.outputs, RUN_VALUE_CHARS, lambda name: value_uri(row.id, "-", "outputs", name))
    status = WAITING if row.status == PAUSED else row.status
    return RunState(
        run_id=row.id,
        workflow=row.name,
        status=status,
        outputs=outputs,
        error=failure_of(row.error),
        waiting=[waiting_of(step, returns_of(plan, step.facet)) for step in steps[:MOST_WAITING]],
        waiting_total=len(steps),
        next=_next(deployment, status, steps),
    )


def returns_of(plan: WorkflowPlan | None, facet: str) -> str | None:
    """Return what an answer to a facet's event has to have, as AFL writes it."""
    found = None if plan is None else next((one for one in plan.facets if one.name == facet), None)
    if found is None:
        return None
    return f"({', '.join(f'{name}: {type_name(kind)}' for name, kind in found.return_types.items())})"


def _next(deployment: Deployment, status: str, steps: Sequence[WaitingStep]) -> str:
    answer = "afl_continue_step" if deployment.may_write else "an agent, or a person with afl-stream continue"
    if status == "COMPLETED":
        return "nothing: it is complete, and `outputs` has its result"
    if status in ENDED_STATUSES:
        return "afl_show tells which step failed first; afl_manage_runner can retry it"
    if steps and all(step.asks_nobody for step in steps):
        named = [step.event_name for step in steps if step.event_name]
        return f"it waits for event {named[0]}: afl_raise" if named else "it waits for a time; look again later"
    if steps:
        return f"agents answer the waiting steps; one is answered by hand with {answer}; afl_why says what is missing"
    return "look again with afl_show; afl_why says what it waits for"


def _unknown(deployment: Deployment, run_id: str) -> RunState:
    evaluator = deployment.command("evaluator")
    return RunState(
        run_id=run_id,
        workflow="",
        status="UNKNOWN",
        next=f"no evaluator has taken it yet ({evaluator} runs one); afl_dlq tells whether it was refused",
    )


def _described(deployment: Deployment, connected: Connected, run_id: str) -> RunState:
    """Return what an evaluator says of a run: the store is on another machine."""
    answer = None
    with suppress(NotAnswered, AFLError):
        answer = connected.client.describe(run_id, answer_timeout_s=_DESCRIBE_TIMEOUT_S)
    if answer is None or answer.status is None:
        return _unknown(deployment, run_id)
    steps = described_steps(run_id, answer.outputs or {})
    status = WAITING if answer.status == PAUSED else answer.status
    error = None if answer.error is None else Failure(type=answer.error.type, message=answer.error.message)
    return RunState(
        run_id=run_id,
        workflow=answer.workflow or "",
        status=status,
        error=error,
        waiting=[waiting_of(step, None) for step in steps[:MOST_WAITING]],
        waiting_total=len(steps),
        next=f"{_next(deployment, status, steps)}; values are in the store of the evaluators, which is elsewhere",
    )


def meant_run(deployment: Deployment, connected: Connected, given: str) -> str:
    """Return the id of the run that is meant, also by its beginning or its runner's id. Raises NoSuchWorkflow."""
    with deployment.store_beside(connected) as store:
        return check_workflow_id(given) if store is None else _stored_run(store, given)


def known_run(deployment: Deployment, given: str) -> str:
    """Return the id of the run that is meant, without a look at the broker. Raises NoSuchWorkflow."""
    try:
        with deployment.store() as store:
            return _stored_run(store, given)
    except NothingThere:
        if not deployment.config.is_kafka:
            raise
        return check_workflow_id(given)


def _stored_run(store: EngineStore, given: str) -> str:
    try:
        return full_id(store, given)
    except NoSuchWorkflow:
        runner = store.get_runner(given)
        if runner is None:
            raise
        return runner.workflow_id
