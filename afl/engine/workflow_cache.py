"""Workflows by id: started from a program, taken from memory, or loaded from the store.

Hot workflows stay in memory between calls; the least recently used leave first. They are only a copy: a commit names
the revision that it was computed from, so a stale copy gets a conflict and is discarded. One thread has a workflow at a
time: `take` removes it from the hot ones until `keep` returns it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final, TypeVar

from afl.compiled.program import CompiledProgram, ProgramError, ProgramVersionError
from afl.core.process.stopping import PROCESS_STOP, Stop
from afl.engine import limits
from afl.engine.errors import ScriptsNotAllowed, StoreCorrupt, StoreUnavailable, VersionMismatchError
from afl.engine.execution.continuing import Continued, checked_inputs, next_execution
from afl.engine.execution.execution import Execution
from afl.engine.execution.external_events import EventLimits
from afl.engine.execution.inbox import Inbox
from afl.engine.execution.large_runs import LARGE, is_loaded_so, restore_large
from afl.engine.execution.ports import Dispatch, FailureText, RunEnvironment, Trace
from afl.engine.execution.restore import restore, restore_open
from afl.engine.execution.run_bounds import RunBounds, RunLimits
from afl.engine.execution.stored_steps import is_flat
from afl.engine.model.plan import WorkflowPlan
from afl.engine.model.store import ENDED_STATUSES, RUNNING, StepDocument, Store, StoredStep, WorkflowRow
from afl.engine.operations.cancel_only import restore_cancel_only
from afl.engine.operations.migration import Move, migrate
from afl.engine.operations.operations import Action, Opened, open_again
from afl.engine.planning.planner import plan_workflow
from afl.engine.planning.programs import stored_program
from afl.engine.types import Value

#: Bytes of values that count as much memory as a step without any.
_BYTES_A_STEP = 700

#: How long a commit may be visible in parts: longer than a store waits for a writer that died in one.
_WHOLE_WITHIN_S = 90.0
#: How long a process that was told to end waits for that.
_LAST_WAIT_S = 1.0

#: Plans kept in memory. A deployment runs a few programs, each in a few versions at a time.
_PLANS_KEPT = 256
#: The most programs kept in memory for readers.
_SHOWN_KEPT = 16


S = TypeVar("S", StepDocument, StepDocument | StoredStep)

_revision: Final = attrgetter("revision")


class WorkflowCache:
    """The source of workflows for the evaluator and the control loop. Thread-safe."""

    def __init__(  # noqa: PLR0913 - limits and services by name
        self,
        store: Store,
        dispatch: Dispatch,
        *,
        trace: Callable[[], Trace] | None = None,
        prepare: Callable[[WorkflowPlan], None] | None = None,
        hot_steps: int = limits.HOT_WORKFLOW_STEPS,
        max_open_events: int = limits.MAX_OPEN_EVENTS,
        runs_scripts: bool = False,
        run_limits: RunLimits | None = None,
        deadlines: Callable[[str], int | None] | None = None,
        failure_text: FailureText | None = None,
    ) -> None:
        self._store = store
        self._dispatch = dispatch
        #: Makes the observer of one execution; None without one.
        self._new_trace = trace
        #: Called with each plan before its first use: it prepares the plan's events, or raises.
        self._prepare = prepare
        self._hot_steps, self._most_weight = hot_steps, max(1, hot_steps // 2)
        self._max_open_events, self._deadlines = max_open_events, deadlines
        self._failure_text = failure_text
        self.run_limits = run_limits or RunLimits()
        #: Whether the driver of the executions runs their scripts.
        self.runs_scripts = runs_scripts
        self._lock = threading.Lock()
        self._hot: OrderedDict[str, Execution] = OrderedDict()
        #: How many steps each of them counts as, and all together.
        self._weights: dict[str, int] = {}
        self._steps = 0
        self._plans: OrderedDict[tuple[str, str], WorkflowPlan] = OrderedDict()
        self._shown: OrderedDict[str, CompiledProgram] = OrderedDict()
        #: Workflows that were read from the store.
        self.restored = 0

    def plan(self, program: CompiledProgram, name: str) -> WorkflowPlan:
        """Return the plan of a workflow, made once for each program. Raises the errors of plan_workflow."""
        key = (program.fingerprint, program.workflow(name).qualified_name)
        with self._lock:
            plan = self._plans.get(key)
            if plan is not None:
                self._plans.move_to_end(key)
        # Another layout gives another plan, because its errors name other lines. Then the newest is kept.
        if plan is not None and (plan.program is program or plan.program.annotations == program.annotations):
            return plan
        plan = plan_workflow(program, key[1])
        if self._prepare is not None:
            self._prepare(plan)
        with self._lock:
            self._plans[key] = plan
            while len(self._plans) > _PLANS_KEPT:
                self._plans.popitem(last=False)
        return plan

    def start(
        self,
        plan: WorkflowPlan,
        workflow_id: str,
        inputs: Mapping[str, Value],
        now_ms: int,
        *,
        runner_id: str = "",
        lane: str = "",
        traceparent: str | None = None,
        trace_context: str = "",
    ) -> Execution:
        """Return a new execution, not in the store yet, with a copy of the inputs.

        Raises ValueTooLarge and ValueRefused for inputs that no run may have, InputError, ScriptsNotAllowed when it may
        reach a script and scripts are not run here, and the errors of its defaults.
        """
        if plan.scripted and not self.runs_scripts:
            raise ScriptsNotAllowed(declaration=plan.scripted[0])
        environment = self._environment()
        environment.bounds.begin()
        given = checked_inputs(plan, environment.bounds, inputs)
        row = WorkflowRow(
            workflow_id,
            0,
            plan.fingerprint,
            plan.name,
            RUNNING,
            runnable=True,
            inputs=given.inputs,
            runner_id=runner_id,
            lane=lane,
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
            trace_context=trace_context,
        )
        execution = Execution.started(plan, row, environment, given.params)
        if execution.trace is not None:
            execution.trace.started(execution, traceparent=traceparent)
            execution.trace.created(execution, execution.root)
        return execution

    def take(self, workflow_id: str) -> Execution | None:
        """Return a hot workflow from memory, which may be stale; None when it is not hot."""
        with self._lock:
            execution = self._hot.pop(workflow_id, None)
            if execution is not None:
                self._steps -= self._weights.pop(workflow_id)
            return execution

    def hot_revision(self, workflow_id: str) -> int | None:
        """Return the revision of a workflow in memory; None when it is not hot."""
        with self._lock:
            execution = self._hot.get(workflow_id)
            return None if execution is None else execution.revision

    @property
    def hot_count(self) -> int:
        """The number of workflows in memory."""
        return len(self._hot)

    def load(self, workflow_id: str, *, cancel_only: bool = False) -> Execution | None:
        """Return the workflow in its stored state, from memory if that is the same; None for an unknown one.

        Raises as `read`; with `cancel_only`, an unreadable workflow is returned in a form that can only be cancelled.
        """
        hot = self.take(workflow_id)
        if hot is not None and self._store.revisions((workflow_id,)).get(workflow_id) == hot.revision:
            return hot
        try:
            return self.read(workflow_id)
        except (StoreCorrupt, ProgramError, MemoryError, RecursionError, OverflowError):
            stored = self._stored(workflow_id) if cancel_only else None
            execution = None if stored is None else restore_cancel_only(*stored, self._dispatch)
            if execution is None:
                raise
            return execution

    def read(self, workflow_id: str) -> Execution | None:
        """Return the workflow from the store. Raises StoreCorrupt when its program is missing or does not fit."""
        row = self._store.load_workflow(workflow_id)
        if row is None:
            return None
        if row.execution == 1 and row.status not in ENDED_STATUSES and (row.steps >= LARGE or not row.runnable):
            execution = self._read_open(self._stored_plan(row.program, row.name), row)
            if execution is not None:
                return execution
        stored = read_whole(self._store, workflow_id, self._store.load_run, row=row)
        return None if stored is None else self._restore(*stored)

    def _read_open(self, plan: WorkflowPlan, row: WorkflowRow) -> Execution | None:
        """Return the workflow without its complete steps being read; None where that is not possible."""
        if is_flat(plan) and not row.runnable:
            rebuild = restore_open
        elif row.steps >= LARGE and is_loaded_so(plan):
            rebuild = restore_large
        else:
            return None
        run = self._store.load_open(row.id)
        if run is None or run.newest > row.revision or any(step.revision > row.revision for step in run.steps):
            return None
        execution = rebuild(plan, row, run, self._environment(), self._inbox(plan, row))
        self.restored += execution is not None
        return execution

    def open_again(self, workflow_id: str, action: Action) -> Opened | None:
        """Return the workflow after an operator's action, not committed yet; None for an unknown one.

        Raises the errors of `read`, and OperationRefused.
        """
        self.take(workflow_id)
        stored = self._stored(workflow_id)
        return None if stored is None else open_again(*stored, action, self._restore)

    def migrate(self, workflow_id: str, move: Move) -> Execution | None:
        """Return the workflow after its move to another version, not committed yet; None for an unknown one.

        Raises the errors of `read`, and those of `migrate`.
        """
        self.take(workflow_id)
        stored = self._stored(workflow_id)
        if stored is None:
            return None
        row, documents = stored
        return migrate(self._stored_plan(row.program, row.name), row, documents, move, self._restore_by)

    def _stored(self, workflow_id: str) -> tuple[WorkflowRow, Sequence[StepDocument]] | None:
        return read_whole(self._store, workflow_id, self._store.load_steps)

    def _restore(self, row: WorkflowRow, documents: Sequence[StepDocument | StoredStep]) -> Execution:
        return self._restore_by(self._stored_plan(row.program, row.name), row, documents)

    def _restore_by(
        self, plan: WorkflowPlan, row: WorkflowRow, documents: Sequence[StepDocument | StoredStep]
    ) -> Execution:
        self.restored += 1
        return restore(plan, row, documents, self._environment(), self._inbox(plan, row))

    def _inbox(self, plan: WorkflowPlan, row: WorkflowRow) -> Inbox | None:
        """Return the pending events of a workflow; None, without a query, for one that writes no history by itself."""
        if not (row.pending_events or plan.keeps_history):
            return None
        pending = self._store.pending_events((row.id,)).get(row.id, ()) if row.pending_events else ()
        number = self._store.history_sizes((row.id,)).get(row.id, 0)
        # Those that were raised before the workflow existed, and that a start has missed, are adopted by a sweep.
        return Inbox((event for event in pending if not event.expires_at_ms), number)

    def _environment(self) -> RunEnvironment:
        """Return what an execution of this cache is handed, new for each: it has a trace and bounds of its own."""
        return RunEnvironment(
            self._dispatch,
            RunBounds(self.run_limits),
            None if self._new_trace is None else self._new_trace(),
            self._max_open_events,
            self.runs_scripts,
            self._deadlines,
            self._failure_text,
            self._store.load_step,
        )

    def read_history(self, execution: Execution) -> None:
        """Read the next number of the workflow's history, unless it is known: before an event is raised on it."""
        if execution.inbox.next_number is None:
            execution.inbox.next_number = self._store.history_sizes((execution.id,)).get(execution.id, 0)

    def continue_as_new(
        self,
        execution: Execution,
        inputs: Mapping[str, Value],
        now_ms: int,
        limits: EventLimits,
        *,
        plan: WorkflowPlan | None = None,
    ) -> Continued:
        """Return the next execution of a workflow, of the same plan or of another; see continuing.py for the rest."""
        self.read_history(execution)
        # What the observer holds is emitted when the next execution is committed.
        environment = self._environment()._replace(trace=execution.trace)
        return next_execution(execution, plan or execution.plan, environment, inputs, now_ms, limits)

    def keep(self, execution: Execution) -> None:
        """Keep a committed workflow hot, unless it has ended."""
        self.keep_all((execution,))

    def keep_all(self, executions: Iterable[Execution]) -> None:
        """Keep the workflows of a commit hot that have not ended.

        Each counts as many steps as it has, with large values included, but at most half of the bound. Otherwise a
        large workflow would be loaded for each batch of its answers, and displaced by the first small one. Working on
        it takes its memory anyway.
        """
        if not self._hot_steps:
            return
        hot, weights, most = self._hot, self._weights, self._most_weight
        with self._lock:
            for execution in executions:
                workflow_id = execution.id
                other = hot.get(workflow_id)
                if execution.is_ended or (other is not None and other.revision >= execution.revision):
                    # Another thread loaded it from the store meanwhile; the newer one is kept.
                    continue
                inbox = execution.inbox
                size_bytes = execution.bounds.state_bytes + inbox.size_bytes
                steps = execution.count if execution.leaving is None else len(execution.steps)
                weight = min(max(steps + inbox.count, size_bytes // _BYTES_A_STEP), most)
                hot[workflow_id] = execution
                hot.move_to_end(workflow_id)
                self._steps += weight - weights.get(workflow_id, 0)
                weights[workflow_id] = weight
            while self._steps > self._hot_steps:
                oldest, _ = hot.popitem(last=False)
                self._steps -= weights.pop(oldest)

    def evict(self, workflow_id: str) -> None:
        """Remove a workflow from memory: its commit failed, or another writer was first."""
        self.take(workflow_id)

    def evict_all(self) -> None:
        """Remove all workflows from memory."""
        with self._lock:
            self._hot.clear()
            self._weights.clear()
            self._steps = 0

    def shown_program(self, fingerprint: str, name: str) -> CompiledProgram:
        """Return the stored program, read once, for readers only: they may change it, so no plan is made from it."""
        with self._lock:
            program = self._shown.get(fingerprint)
        if program is None:
            program = self.program(fingerprint, name)
        with self._lock:
            self._shown[fingerprint] = program
            self._shown.move_to_end(fingerprint)
            while len(self._shown) > _SHOWN_KEPT:
                self._shown.popitem(last=False)
        return program

    def _stored_plan(self, fingerprint: str, name: str) -> WorkflowPlan:
        with self._lock:
            plan = self._plans.get((fingerprint, name))
        if plan is not None:
            return plan
        return self.plan(self.program(fingerprint, name), name)

    def program(self, fingerprint: str, name: str) -> CompiledProgram:
        """Return the stored program that workflow `name` is pinned to. Raises StoreCorrupt if missing or wrong."""
        try:
            program = stored_program(self._store, fingerprint)
        except ProgramVersionError as error:
            raise VersionMismatchError(
                expected_version=error.supported,
                actual_version=error.found,
                component=f"program {fingerprint}: schemaVersion",
                remedy=error.remedy,
            ) from error
        if program is None:
            raise StoreCorrupt(path=f"workflow {name}", reason=f"its program {fingerprint} is not in the store")
        return program


def read_whole(
    store: Store,
    workflow_id: str,
    load: Callable[[str], Sequence[S]],
    *,
    row: WorkflowRow | None = None,
    timeout_s: float = _WHOLE_WITHIN_S,
    stop: Stop = PROCESS_STOP,
) -> tuple[WorkflowRow, Sequence[S]] | None:
    """Read a workflow and, by `load`, its steps, as one commit has left them; None when there is none.

    `row`: the workflow, as it was read before. It is read again where its steps are newer.
    Raises StoreUnavailable when there is no such moment in time, or soon once the process is to end.
    """
    began_s, pause_s = time.monotonic(), 0.0
    while True:
        row = row or store.load_workflow(workflow_id)
        if row is None:
            return None
        documents = load(workflow_id)
        if not documents or max(map(_revision, documents)) <= row.revision:
            return row, documents
        row = None
        # Another writer committed between the two reads, or is at it, where a commit becomes visible in parts.
        waited_s = time.monotonic() - began_s
        if waited_s >= (min(timeout_s, _LAST_WAIT_S) if stop.is_set() else timeout_s):
            reason = f"some of its steps have been newer than the workflow for {waited_s:.0f} s"
            raise StoreUnavailable(path=f"of workflow {workflow_id}", reason=reason)
        time.sleep(pause_s)
        pause_s = min(pause_s + 0.001, 0.05)
