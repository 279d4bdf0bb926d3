"""Drives an execution itself, iteration by iteration: hot, watched by a trace, or read back after every commit."""

from collections.abc import Callable, Mapping
from typing import Literal

from afl.compiled.program import CompiledProgram
from afl.engine.execution.commit_rows import Commits
from afl.engine.execution.events import continue_with, fail_with
from afl.engine.execution.execution import Execution
from afl.engine.execution.iteration import run_iteration
from afl.engine.execution.large_runs import is_loaded_so, restore_large
from afl.engine.execution.ports import RunEnvironment
from afl.engine.execution.restore import restore
from afl.engine.execution.run_bounds import RunBounds, RunLimits
from afl.engine.execution.task_dispatch import TaskDispatch
from afl.engine.model.plan import WorkflowPlan
from afl.engine.model.records import StepRecord
from afl.engine.model.store import RUNNING, WorkflowRow
from afl.engine.planning.binding import bind_inputs
from afl.engine.planning.planner import plan_workflow
from afl.engine.types import Value
from afl.stores.memory.store import MemoryStore

#: Hot, without a trace, steps that only bind take the fast path; with one, every step walks through its table. Read
#: back are all steps, or, as of a large run, those that are wanted still.
Way = Literal["hot", "watched", "read back", "read as large"]
WAYS: tuple[Way, ...] = ("hot", "watched", "read back")


class _Watcher:
    """A trace that looks away."""

    sees_moves = True

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


def new_row(plan: WorkflowPlan, inputs: Mapping[str, Value]) -> WorkflowRow:
    """Return the row of a run that no store has."""
    return WorkflowRow("run", 0, plan.fingerprint, plan.name, RUNNING, runnable=True, inputs=inputs)


class DrivenRun:
    """A run of workflow `W`, after whose iterations and answers `look` is called."""

    def __init__(
        self,
        program: CompiledProgram,
        way: Way,
        look: Callable[[Execution], None],
        *,
        iteration_steps: int = 10_000,
        max_open_events: int = 10_000,
    ) -> None:
        self._plan = plan_workflow(program, "W")
        self._way, self._look = way, look
        self._limits = RunLimits(iteration_steps=iteration_steps)
        self._max_open_events = max_open_events
        self.store = MemoryStore()
        row, environment = new_row(self._plan, {}), self._environment()
        environment.bounds.begin()
        self.execution = Execution.started(self._plan, row, environment, bind_inputs(self._plan.facet, {}))
        self._changes = Commits(self.execution)
        #: How often the run was loaded as a large one.
        self.loaded_large = 0
        self._look(self.execution)
        self.run()

    def _environment(self) -> RunEnvironment:
        trace = _Watcher() if self._way == "watched" else None
        return RunEnvironment(
            TaskDispatch(), RunBounds(self._limits), trace, self._max_open_events, load_step=self.store.load_step
        )

    def run(self) -> None:
        """Iterate until nothing can run."""
        while self.execution.queue:
            run_iteration(self.execution)
            self._commit()

    def waiting(self) -> list[StepRecord]:
        """Return the steps whose events are unanswered, in order of creation."""
        return sorted((step for step in self.execution.steps.values() if step.is_waiting), key=lambda s: s.number)

    def answer(self, step: StepRecord, result: Mapping[str, Value] | None) -> None:
        """Answer a step's event, None: by a failure; and run what that sets free."""
        if result is None:
            fail_with(self.execution, step, "Broken", "broken")
        else:
            continue_with(self.execution, step, result)
        self._commit()
        self.run()

    def _commit(self) -> None:
        self._look(self.execution)
        self.store.commit_batch(self._changes.next())
        if self._way == "read back":
            row = self.store.load_workflow("run")
            assert row is not None
            self.execution = restore(self._plan, row, self.store.load_steps("run"), self._environment())
            self._changes = Commits(self.execution)
            self._look(self.execution)
        elif self._way == "read as large" and is_loaded_so(self._plan):
            row, run = self.store.load_workflow("run"), self.store.load_open("run")
            assert row is not None
            assert run is not None
            execution = restore_large(self._plan, row, run, self._environment())
            if execution is not None:
                self.loaded_large += 1
                self.execution, self._changes = execution, Commits(execution)
