"""The engine's work on one public step, called by handlers of states that have work."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from afl.core.clock import SystemClock
from afl.engine.execution.commit_rows import add_rows
from afl.engine.execution.execution import Execution
from afl.engine.execution.machine import STATE_MACHINES
from afl.engine.execution.ports import RunEnvironment
from afl.engine.execution.restore import restore
from afl.engine.execution.run_bounds import RunBounds
from afl.engine.execution.task_dispatch import TaskDispatch
from afl.engine.model.plan import WorkflowPlan
from afl.engine.model.store import Batch
from afl.engine.planning.planner import plan_workflow
from afl.engine.planning.programs import stored_program
from afl.evaluation.context import ExecutionContext
from afl.stores.public.persistence import EngineStore
from afl.stores.public.step import StepDefinition
from afl.stores.public.views import document_of

#: The most plans kept in memory, of the workflows whose steps were worked on last.
_PLANS_KEPT: Final = 16

_lock = threading.Lock()
_plans: OrderedDict[tuple[str, str], WorkflowPlan] = OrderedDict()


def work_on(step: StepDefinition, context: ExecutionContext) -> bool:
    """Do the work of the step's state in its stored workflow; return whether the step may continue to its next state.

    In this order:
      1. the workflow is loaded, with `step` in place of the stored step,
      2. the engine works on it, in memory,
      3. the results are committed: the step, in its next state if it continues, new steps, their tasks,
      4. `step` gets the committed values; the caller moves it on.

    A crash before 3 changes nothing; after it, the workflow is stored, ready for `Evaluator.resume`. Raises ValueError
    for a step without a workflow of the engine, WorkflowConflict when another writer has changed it meanwhile, and the
    errors of the work itself, which change nothing.
    """
    store: EngineStore = context.persistence  # type: ignore[assignment]  # what else it may be, is refused there
    execution = _execution(step, store)
    record = execution.steps.get(step.id)
    if record is None:
        return False  # It is complete, and belongs to the steps that never change.
    execution.now_ms = SystemClock().now_ms()
    execution.bounds.begin()
    machine, state = STATE_MACHINES[record.object_type], record.state
    work = machine.work_in(state)
    continues = work is None or work(execution, record)
    if continues:
        record.state = machine.next_state(state) or state
    execution.touch(record)
    batch = Batch(values_checked=True)
    batch.now_ms = execution.now_ms
    add_rows(execution, batch)
    store.commit_batch(batch)
    _become(step, store, state if continues else record.state)
    return continues


def _execution(step: StepDefinition, store: EngineStore) -> Execution:
    row = store.load_workflow(step.workflow_id) if hasattr(store, "load_workflow") else None
    if row is None:
        raise ValueError(f"step {step.id} is of workflow {step.workflow_id}, which the engine's store does not have")
    documents = store.load_steps(step.workflow_id)
    at = next((index for index, document in enumerate(documents) if document.id == step.id), None)
    if at is None:
        raise ValueError(f"step {step.id} is not in the store yet: only the engine makes steps of its workflows")
    before = documents[at]
    documents[at], _ = document_of(step, number=before.number, revision=before.revision, before=before)
    execution = restore(
        _plan(store, row.program, row.name), row, documents, RunEnvironment(TaskDispatch(), RunBounds())
    )
    record = execution.steps.get(step.id)
    if record is not None and documents[at].event_state != before.event_state:
        # The code that moved the step on has answered its event.
        execution.dispatch.answered(execution, record, execution.effects)
    return execution


def _plan(store: EngineStore, fingerprint: str, name: str) -> WorkflowPlan:
    """Return the plan of a stored workflow, made once: a fingerprint means the same program in every store."""
    with _lock:
        plan = _plans.get((fingerprint, name))
    if plan is None:
        program = stored_program(store, fingerprint)
        assert program is not None, "a workflow's program is stored with it"
        plan = plan_workflow(program, name)
    with _lock:
        _plans[fingerprint, name] = plan
        _plans.move_to_end((fingerprint, name))
        while len(_plans) > _PLANS_KEPT:
            _plans.popitem(last=False)
    return plan


def _become(step: StepDefinition, store: EngineStore, state: str) -> None:
    """Copy the committed values into a public step, except its own request and transition time."""
    stored = store.get_step(step.id)
    assert stored is not None
    step.attributes = stored.attributes
    step.attempt = stored.attempt
    step.foreach_var, step.foreach_value = stored.foreach_var, stored.foreach_value
    if step.state != state:
        step.change_state(state)
