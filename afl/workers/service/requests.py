"""Requests to start a workflow, for the first runner that is free."""

from __future__ import annotations

from collections.abc import Mapping

from afl.compiled.program import CompiledProgram
from afl.core.clock import Clock, SystemClock
from afl.core.values import plain_values
from afl.engine.errors import RuntimeError as EngineError
from afl.engine.execution.commit_rows import keep_program
from afl.engine.model.entities import RunnerDefinition, TaskDefinition
from afl.engine.model.store import Batch
from afl.engine.planning.programs import is_pinned_by
from afl.engine.types import Value, workflow_id_v7
from afl.engine.values.operators import values_equal
from afl.stores.public.persistence import EngineStore
from afl.workers.service.task_names import EXECUTE_TASK_NAME


class WorkflowIdTaken(EngineError):
    """A workflow was requested under an id that already belongs to another request."""

    def __init__(self, workflow_id: str, name: str) -> None:
        super().__init__(
            f"workflow {name} cannot be requested as {workflow_id}: another workflow, program or inputs were "
            "requested under this id; choose another id"
        )
        self.workflow_id = workflow_id


def request_workflow(
    store: EngineStore,
    program: CompiledProgram,
    workflow_name: str,
    inputs: Mapping[str, Value] | None = None,
    *,
    workflow_id: str | None = None,
    run: RunnerDefinition | None = None,
    task_list: str = "default",
    clock: Clock | None = None,
) -> TaskDefinition:
    """Save an `afl:execute` task for a workflow of a program, save the program with it, and return the task.

    The workflow gets the task's id, which is `workflow_id` or a generated one: the same request twice starts it once.
    `run` is saved too; its record shows the state of the workflow. Raises UnknownName and AmbiguousName for the
    workflow, ValueRefused for an input that is not an AFL value, and WorkflowIdTaken when its id belongs to another
    request.
    """
    name = program.workflow(workflow_name).qualified_name
    now_ms = (clock or SystemClock()).now_ms()
    task_id = workflow_id or workflow_id_v7(now_ms)
    run_id = "" if run is None else run.uuid
    given = plain_values(inputs or {}, "inputs")
    asked = {"flow_id": program.fingerprint, "workflow_name": name, "inputs": given}
    known = store.get_task(task_id)
    if known is not None:
        given = {key: (known.data or {}).get(key) for key in asked}
        if is_pinned_by(program, str(given["flow_id"]), store):
            given["flow_id"] = program.fingerprint
        if not values_equal(given, asked):
            raise WorkflowIdTaken(task_id, name)
        return known
    if run is not None:
        store.save_runner(run)
    task = TaskDefinition(
        uuid=task_id,
        name=EXECUTE_TASK_NAME,
        runner_id=run_id,
        workflow_id="",
        flow_id=program.fingerprint,
        step_id="",
        created=now_ms,
        updated=now_ms,
        task_list_name=task_list,
        data={**asked, "runner_id": run_id},
    )
    batch = Batch(tasks=[task], now_ms=now_ms)
    keep_program(program, batch)
    store.commit_batch(batch)
    return task
