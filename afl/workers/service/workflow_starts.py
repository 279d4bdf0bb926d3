"""The work of an `afl:execute` task: start a workflow of a flow, and keep the record of the run that requested it."""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final

from afl.compiled.program import CompiledProgram, ProgramError
from afl.core.clock import Clock
from afl.core.probes import Probe, no_probe
from afl.engine.errors import RuntimeError as EngineError
from afl.engine.errors import StoreUnavailable, WorkflowConflict
from afl.engine.model.entities import RunnerDefinition, RunnerState
from afl.engine.model.store import WorkflowRow
from afl.engine.types import workflow_id_v7
from afl.engine.values.operators import values_equal
from afl.evaluation.evaluator import Evaluator, ExecutionResult
from afl.stores.public.persistence import EngineStore
from afl.stores.public.run_views import UNDER_WAY
from afl.workers.service.flow_programs import FlowNotRunnable, FlowPrograms
from afl.workers.task_context import TaskContext

_WORKFLOW_ID: Final = re.compile(r"[A-Za-z0-9._~-]{1,128}\Z")
#: Bytes of the digest that replaces a task's id which is not a valid workflow id.
_DIGEST_BYTES: Final = 16


class WorkflowNotStarted(EngineError, builtins.RuntimeError):
    """A requested workflow of which nothing is stored; the text gives the reason."""


class WorkflowStarts:
    """Starter of workflows. Any number of threads may use it.

    For each task, in this order:
      1. note in the run's record, where the task names one, that it runs, and its workflow,
      2. execute the workflow to its end or its first pause, under an id that follows from the task's,
      3. note in the run's record how it ended, if it has ended.

    After a crash between two of them the task is done again: its workflow has the same id and continues from its stored
    state, so that it is started once. The end of a run after a pause comes from the store (run_views).
    """

    def __init__(
        self,
        store: EngineStore,
        evaluator: Evaluator,
        programs: FlowPrograms,
        clock: Clock,
        probe: Probe = no_probe,
    ) -> None:
        self._store = store
        self._evaluator = evaluator
        self._programs = programs
        self._clock = clock
        self._probe = probe

    def start(self, payload: Mapping[str, Any], context: TaskContext | None = None) -> dict[str, Any]:
        """Start the workflow `workflow_name` of the flow `flow_id` with `inputs`, for the run `runner_id` if given.

        Returns its status (`ExecutionStatus`) and `workflow_id`. Raises FlowNotRunnable, WorkflowNotStarted, and
        ParseError for a flow with a faulty text. Without a context, each call starts another workflow.
        """
        run = self._run_of(payload)
        workflow_id = workflow_id_v7(self._clock.now_ms()) if context is None else workflow_id_for(context.event_id)
        try:
            program, name = self._program(payload)
            run = self._noted(run, workflow_id)
            self._probe("execute.noted")
            result = self._execute(program, name, payload, workflow_id, "" if run is None else run.uuid)
            self._probe("execute.executed")
        except StoreUnavailable:
            # The next process that claims it does it again.
            raise
        except Exception:
            self._not_started(run)
            raise
        self._note_end(run)
        return {"status": result.status, "workflow_id": workflow_id}

    def _run_of(self, payload: Mapping[str, Any]) -> RunnerDefinition | None:
        runner_id = payload.get("runner_id")
        return self._store.get_runner(str(runner_id)) if runner_id else None

    def _program(self, payload: Mapping[str, Any]) -> tuple[CompiledProgram, str]:
        flow_id, name = str(payload.get("flow_id") or ""), str(payload.get("workflow_name") or "")
        program = self._programs.load(flow_id)
        try:
            return program, program.workflow(name).qualified_name
        except ProgramError as error:
            raise FlowNotRunnable(f"Workflow '{name}' not found in flow '{flow_id}': {error}") from error

    def _execute(
        self, program: CompiledProgram, name: str, payload: Mapping[str, Any], workflow_id: str, runner_id: str
    ) -> ExecutionResult:
        inputs = payload.get("inputs")
        if inputs is not None and not isinstance(inputs, Mapping):
            raise WorkflowNotStarted(f"the inputs of workflow '{name}' are {inputs!r:.100}, expected an object")
        there = self._store.load_workflow(workflow_id)
        if there is None:
            result = self._evaluator.execute(
                name, inputs, program_ast=program, runner_id=runner_id, workflow_id=workflow_id
            )
            if isinstance(result.error, WorkflowConflict):
                # Another process that took the task over was faster.
                there = self._store.load_workflow(workflow_id)
        if there is not None:
            # An earlier try of the same task has started it.
            if not _is_start_of(there, name, inputs or {}):
                raise WorkflowNotStarted(f"workflow {workflow_id} is another one, of {there.name}: choose another id")
            result = self._evaluator.resume(workflow_id)
        if isinstance(result.error, StoreUnavailable):
            raise result.error
        if result.error is not None and self._store.load_workflow(workflow_id) is None:
            raise WorkflowNotStarted(f"workflow '{name}' could not be started: {result.error}") from result.error
        return result

    def _noted(self, run: RunnerDefinition | None, workflow_id: str) -> RunnerDefinition | None:
        if run is None:
            return None
        start_ms = run.start_time or self._clock.now_ms()
        run = replace(run, state=RunnerState.RUNNING, start_time=start_ms, workflow_id=workflow_id)
        self._store.save_runner(run)
        return run

    def _not_started(self, run: RunnerDefinition | None) -> None:
        """Note that a run has no workflow."""
        if run is not None:
            now_ms = self._clock.now_ms()
            started_ms = run.start_time or now_ms
            self._store.save_runner(
                replace(
                    run,
                    state=RunnerState.FAILED,
                    start_time=started_ms,
                    end_time=now_ms,
                    duration=max(now_ms - started_ms, 0),
                )
            )

    def _note_end(self, run: RunnerDefinition | None) -> None:
        """Record how a run has ended, according to the store; do nothing while it continues."""
        seen = None if run is None else self._store.get_runner(run.uuid)
        if seen is not None and seen.state not in UNDER_WAY:
            self._store.save_runner(seen)


def _is_start_of(row: WorkflowRow, name: str, inputs: Mapping[str, object]) -> bool:
    """Say whether a workflow was started by this name and with these inputs; its flow may have changed since."""
    # Python's equality would be wrong: there, true is 1.
    return row.name == name and values_equal(dict(row.inputs), dict(inputs))


def workflow_id_for(task_id: str) -> str:
    """Return the id of the workflow that a task starts: the task's id, or its digest if that is not a workflow id."""
    if _WORKFLOW_ID.match(task_id):
        return task_id
    return blake2b(task_id.encode(), digest_size=_DIGEST_BYTES).hexdigest()
