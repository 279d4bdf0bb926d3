"""Drives runs that wait for the runtime as a control loop does: raises events, moves the clock, fires what is due.

After each commit it compares what is in memory with what the store would give back, and the store's timers with what
its steps wait for.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import pytest

from afl.compiled.program import CompiledProgram
from afl.core.ids import event_id_of
from afl.engine.execution.commit_rows import Commits
from afl.engine.execution.events import fail_with
from afl.engine.execution.execution import Execution
from afl.engine.execution.external_events import EventLimits, Raised, RaisedEvent, adopt, raise_event
from afl.engine.execution.iteration import run_iteration
from afl.engine.execution.ports import Dispatch
from afl.engine.execution.results import take_result
from afl.engine.execution.task_dispatch import TaskDispatch
from afl.engine.execution.timers import fire_timer
from afl.engine.model.history import HistoryKind, HistoryRow
from afl.engine.model.plan import WorkflowPlan
from afl.engine.model.store import Batch, StepDocument, TimerRow, WorkflowRow
from afl.engine.operations.operations import Action, Kind
from afl.engine.states import EventState
from afl.engine.types import Value
from afl.engine.workflow_cache import WorkflowCache
from afl.stores.memory.store import MemoryStore
from afl.stores.public.persistence import EngineStore
from afl.stores.sqlite.store import SqliteStore
from tests.engine_view import SeenStep, seen_steps, statement_names
from tests.unit.engine.driven import _Watcher
from tests.unit.engine.running import compiled

START_MS = 1_000_000


class WaitingRun:
    """One run of workflow `n.W`; times are milliseconds since its start."""

    def __init__(
        self,
        program: str | CompiledProgram,
        *,
        store: EngineStore | None = None,
        is_forgetful: bool = False,
        is_watched: bool = False,
        limits: EventLimits | None = None,
        max_open_events: int = 10_000,
        deadlines: Callable[[str], int | None] | None = None,
        dispatch: Dispatch | None = None,
    ) -> None:
        self.program = compiled(program) if isinstance(program, str) else program
        self.store = store or MemoryStore()
        self.limits = limits or EventLimits()
        self.cache = WorkflowCache(
            self.store,
            dispatch or TaskDispatch(),
            trace=(lambda: _Watcher()) if is_watched else None,
            max_open_events=max_open_events,
            deadlines=deadlines,
        )
        #: Whether the memory is lost after each commit.
        self.is_forgetful = is_forgetful
        self.now_ms = START_MS
        #: Events that were not carried, in the order in which they were dropped.
        self.dropped: list[HistoryRow] = []
        self._execution: Execution | None = None
        self._raised = 0
        self._is_together = False

    # --- what happens to it -----------------------------------------------------------------------------------------

    def start(self, inputs: Mapping[str, Value] | None = None) -> "WaitingRun":
        plan = self.cache.plan(self.program, "W")
        self._execution = execution = self.cache.start(plan, "run", inputs or {}, self.now_ms)
        execution.inbox.next_number = self.store.history_sizes(("run",)).get("run", 0)
        adopt(execution, self.early_events())
        self.settle()
        return self

    def raise_early(self, name: str, data: Value) -> None:
        """Raise an event as a client does for a workflow that it believes does not exist."""
        number = self.store.history_sizes(("run",)).get("run", 0)
        event_id, at_ms = f"early-{number}", self.now_ms
        row = HistoryRow("run", number, HistoryKind.EXTERNAL_EVENT, 1, at_ms, name, event_id, data, is_pending=True)
        self.store.commit_batch(Batch(history=[row._replace(expires_at_ms=at_ms + 1_000)]))

    def early_events(self) -> list[HistoryRow]:
        return [row for row in self.store.pending_events(("run",)).get("run", []) if row.expires_at_ms]

    def adopt_late(self) -> None:
        """Adopt, as a sweep does, what a start has missed."""
        adopt(self.execution, self.early_events())
        self.settle(has_changed=True)

    def raise_event(self, name: str, data: Value = None, event_id: str | None = None) -> Raised:
        execution = self.execution
        self.cache.read_history(execution)
        self._raised += 1
        event = RaisedEvent(event_id or f"event-{self._raised}", name, data, self.now_ms)
        raised = raise_event(execution, event, self.limits)
        if raised is not Raised.LIMIT:
            self.settle(has_changed=True)
        return raised

    def advance(self, ms: int) -> "WaitingRun":
        """Move the clock on, and fire what is due by then, in order; each timer at its own time."""
        until_ms = self.now_ms + ms
        while (due := self.store.timers_due(until_ms, limit=1)) and due[0].due_at_ms <= until_ms:
            self.now_ms = max(self.now_ms, due[0].due_at_ms)
            assert self.fire(due[0]), f"{due[0]} is left over"
        self.now_ms = until_ms
        return self

    def fire(self, timer: TimerRow) -> bool:
        """Fire a timer now, due or not."""
        execution = self.execution
        fired = fire_timer(execution, timer)
        if fired:
            self.settle(has_changed=True)
        return fired

    def answer(self, path: str, result: Mapping[str, object] | None = None, **values: object) -> None:
        self.answer_step(self.step(path).id, {**(result or {}), **values})

    def answer_step(self, step_id: str, result: Mapping[str, object]) -> None:
        execution = self.execution
        take_result(execution, execution.steps[step_id], result, is_checked=True)
        self.settle(has_changed=True)

    def update(self, path: str, **values: object) -> None:
        execution = self.execution
        take_result(execution, execution.steps[self.step(path).id], values, is_partial=True, is_checked=True)
        self.settle(has_changed=True)

    def fail(self, path: str, error_type: str = "Broken", message: str = "broken") -> None:
        execution = self.execution
        fail_with(execution, execution.steps[self.step(path).id], error_type, message)
        self.settle(has_changed=True)

    def cancel(self) -> None:
        self.execution.cancel("enough")
        self.settle(has_changed=True)

    def continue_as_new(self, inputs: Mapping[str, Value], plan: WorkflowPlan | None = None) -> None:
        """Do what an operator asks for, who may give another plan."""
        self._continue(inputs, plan)
        self.settle(has_changed=True)

    def operate(self, kind: Kind, path: str | None = None) -> None:
        step_id = None if path is None else self.step(path).id
        opened = self.cache.open_again("run", Action(kind=kind, step_id=step_id))
        assert opened is not None
        self._execution = opened.execution
        self.settle(has_changed=True)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Commit once what happens inside, as a batch of the control loop does."""
        self._is_together = True
        yield
        self._is_together = False
        self._commit()

    def restart(self) -> None:
        """Lose the memory."""
        self.cache.evict_all()
        self._execution = None

    # --- what is seen of it -------------------------------------------------------------------------------------------

    @property
    def execution(self) -> Execution:
        if self._execution is None:
            self._execution = self.cache.read("run")
        execution = self._execution
        assert execution is not None
        execution.now_ms = self.now_ms
        return execution

    def row(self) -> WorkflowRow:
        row = self.store.load_workflow("run")
        assert row is not None
        return row

    @property
    def status(self) -> str:
        return self.row().status

    @property
    def outputs(self) -> dict[str, Value]:
        row = self.row()
        assert row.status == "COMPLETED", row.error
        return dict(row.outputs or {})

    def step(self, path: str) -> SeenStep:
        found = [step for step in self.steps() if step.path == path]
        assert len(found) == 1, f"{len(found)} steps at {path}; there are {[step.path for step in self.steps()]}"
        return found[0]

    def steps(self) -> list[SeenStep]:
        return seen_steps(self.store.load_steps("run"), _names_of(self.program))

    def document(self, path: str) -> StepDocument:
        return self.step(path).document

    def waiting(self) -> list[str]:
        return [step.path for step in self.steps() if step.is_waiting]

    def timers(self) -> list[TimerRow]:
        return self.store.timers_of("run")

    def due(self) -> list[tuple[str, int]]:
        """Return the kinds of its timers, and when they are due."""
        return [(timer.kind.value, timer.due_at_ms - START_MS) for timer in self.timers()]

    def history(self, kind: HistoryKind | None = None) -> list[HistoryRow]:
        return [row for row in self.store.history("run") if kind is None or row.kind is kind]

    def task_state(self, step_id: str, attempt: int = 1) -> str | None:
        """Return the state of the task of an attempt; None when it never got one."""
        task = self.store.get_task(event_id_of(step_id, attempt))
        return None if task is None else task.state

    def error(self) -> tuple[str, str]:
        error = self.row().error
        assert error is not None
        return error.type, error.message

    # --- the loop -----------------------------------------------------------------------------------------------------

    def settle(self, *, has_changed: bool = False) -> None:
        """Run to the fixed point: a commit for each iteration."""
        if has_changed:
            self._commit()
        while (execution := self.execution).queue:
            run_iteration(execution)
            if execution.next_inputs is not None:
                self._continue(execution.next_inputs)
            self._commit()

    def _continue(self, inputs: Mapping[str, Value], plan: WorkflowPlan | None = None) -> None:
        continued = self.cache.continue_as_new(self.execution, inputs, self.now_ms, self.limits, plan=plan)
        self.dropped += continued.dropped
        self._execution = continued.execution

    def _commit(self) -> None:
        if self._is_together:
            return
        execution = self._execution
        assert execution is not None
        batch = Commits(execution).next()
        batch.now_ms = self.now_ms
        self.store.commit_batch(batch)
        self._check(execution)
        if self.is_forgetful:
            self.restart()

    def _check(self, execution: Execution) -> None:
        stored = self.cache.read("run")
        assert stored is not None
        assert _facts(execution) == _facts(stored)
        documents = self.store.load_steps("run")
        waits = {step.id: step.deadline_ms for step in documents if step.deadline_ms is not None}
        assert {timer.step_id: timer.due_at_ms for timer in self.timers()} == waits
        pending = self.store.pending_events(("run",)).get("run", [])
        adopted = [row for row in pending if not row.expires_at_ms]
        assert len(adopted) == self.row().pending_events == execution.inbox.count
        for step in documents:
            assert not EventState.is_of_runtime(step.event_state) or not execution.is_ended


@lru_cache(maxsize=16)
def _names_of(program: CompiledProgram) -> dict[str, str]:
    return statement_names(program.tree)


def _facts(execution: Execution) -> dict[str, object]:
    """Return what decides how a run goes on."""
    execution.bounds.measure_unread()
    facts: dict[str, object] = {
        "status": execution.status,
        "number": execution.number,
        "inbox": list(execution.inbox),
        "count": execution.count,
    }
    if not execution.is_ended:
        facts |= {
            "waiting": {step_id: step.event_state for step_id, step in execution.waiting.items()},
            "events": {name: [step.id for step in steps] for name, steps in execution.event_waits.items()},
            "open": execution.open_events,
            "retries": {step.id: step.retry for step in execution.steps.values() if step.retry is not None},
            "bytes": execution.bounds.state_bytes,
        }
        if execution.plan.keeps_history:
            facts["next number"] = execution.inbox.next_number
    return facts


MakeRun = Callable[..., WaitingRun]


@pytest.fixture(params=["hot", "watched", "forgetful", "sqlite"])
def make_run(request: pytest.FixtureRequest, tmp_path: Path) -> MakeRun:
    """Make runs of a program: with their memory, with a trace, without memory, and without over a file."""

    def make(program: str | CompiledProgram, **options: object) -> WaitingRun:
        if request.param == "sqlite":
            store = SqliteStore(tmp_path / "engine.db")
            request.addfinalizer(store.close)
            options["store"] = store
        is_forgetful = request.param in ("forgetful", "sqlite")
        return WaitingRun(program, is_forgetful=is_forgetful, is_watched=request.param == "watched", **options)  # type: ignore[arg-type]  # passed through

    return make
