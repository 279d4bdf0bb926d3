"""The evaluator without a broker: external events, times, next attempts, and continuing as new, on a store."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.clock import ManualClock
from afl.core.values import ValueRefused
from afl.engine.errors import InputError, StepFailure, WorkflowConflict
from afl.engine.execution.external_events import EventLimits
from afl.engine.model.store import PAUSED, Batch, HistoryKind, HistoryRow, WorkflowChange, WorkflowRow
from afl.engine.operations.operation_errors import OperationRefused
from afl.engine.types import Value
from afl.evaluation.evaluator import Evaluator, ExecutionResult, RaiseOutcome
from afl.stores.memory.store import MemoryStore
from afl.stores.sqlite.store import SqliteStore

START_MS = 1_700_000_000_000
DAY_MS = 86_400_000

PROGRAM = CompiledProgram(
    compile_text(
        """
        namespace n {
            event facet Ask(q: String = "?") => (a: Int)
            workflow One() => (data: Json, late: Boolean) andThen {
                w = afl.WaitForEvent(name = "go", timeout_ms = 60000)
                yield One(data = w.data, late = w.timed_out)
            }
            workflow Two() => (first: Json, second: Json) andThen {
                a = afl.WaitForEvent(name = "go")
                b = afl.WaitForEvent(name = "go")
                yield Two(first = a.data, second = b.data)
            }
            workflow Nap(ms: Long = 5000) => (woke_at: Long) andThen {
                s = afl.Sleep(ms = $.ms)
                yield Nap(woke_at = s.woke_at)
            }
            workflow Plain() => (a: Int) andThen {
                s = Ask()
                yield Plain(a = s.a)
            }
            workflow Later(ms: Long) => (data: Json) andThen {
                s = afl.Sleep(ms = $.ms)
                w = afl.WaitForEvent(name = "go", timeout_ms = s.woke_at - s.woke_at)
                yield Later(data = w.data)
            }
            workflow Timed() => (a: Int) andThen {
                s = Ask() with Timeout(seconds = 3)
                yield Timed(a = s.a)
            } catch when {
                case $.error_type == "Timeout" => { yield Timed(a = -1) }
                case _ => { }
            }
            workflow Tried() => (a: Int) andThen {
                s = Ask() with Retry(times = 2, delay_ms = 1000, factor = 3, errors = ["Busy"])
                yield Tried(a = s.a)
            }
            workflow Count(n: Int, until: Int) => (n: Int) andThen when {
                case $.n < $.until => { c = afl.ContinueAsNew(inputs = #{"n": $.n + 1, "until": $.until}) }
                case _ => { yield Count(n = $.n) }
            }
            workflow Listen(n: Int) => (n: Int, data: Json) andThen {
                w = afl.WaitForEvent(name = "x") andThen when {
                    case $.n < 3 => { c = afl.ContinueAsNew(inputs = #{"n": $.n + 1}) }
                    case _ => { }
                }
                yield Listen(n = $.n, data = w.data)
            }
        }
        """
    ).program_json
)
Store = MemoryStore | SqliteStore


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    opened = MemoryStore(clock=clock) if request.param == "memory" else SqliteStore(tmp_path / "s.db", clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def evaluator(store: Store, clock: ManualClock) -> Evaluator:
    return Evaluator(store, clock=clock)


def start(evaluator: Evaluator, workflow: str, **inputs: Value) -> ExecutionResult:
    return evaluator.execute(f"n.{workflow}", inputs, PROGRAM, workflow_id="run")


def waits(result: ExecutionResult) -> list[tuple[str, str | None, int | None]]:
    """Return what a paused run waits for besides answers: facet, event, and the time from its start."""
    assert result.status == "PAUSED", result.error
    return [
        (wait.facet, wait.event_name, None if wait.until_ms is None else wait.until_ms - START_MS)
        for wait in result.waits
    ]


# --- external events -------------------------------------------------------------------------------------------------


def test_a_paused_run_says_what_it_waits_for_and_no_agent_is_asked(evaluator: Evaluator) -> None:
    paused = start(evaluator, "One")

    assert waits(paused) == [("afl.WaitForEvent", "go", 60_000)]
    assert list(paused.pending_events) == []


def test_an_event_is_taken_by_the_step_that_waits_for_its_name(evaluator: Evaluator) -> None:
    start(evaluator, "One")

    assert evaluator.raise_event("run", "other", 1) is RaiseOutcome.QUEUED
    assert evaluator.raise_event("run", "go", {"k": [1]}) is RaiseOutcome.TAKEN
    assert evaluator.resume("run").outputs == {"data": {"k": [1]}, "late": False}
    assert evaluator.next_timer_ms() is None


def test_events_before_the_workflow_are_kept_for_it_in_order(evaluator: Evaluator) -> None:
    assert evaluator.raise_event("run", "go", "first") is RaiseOutcome.QUEUED
    assert evaluator.raise_event("run", "go", "second") is RaiseOutcome.QUEUED

    assert start(evaluator, "Two").outputs == {"first": "first", "second": "second"}


def test_the_same_id_counts_once_before_and_after_the_start(evaluator: Evaluator) -> None:
    assert evaluator.raise_event("run", "go", 1, id="a") is RaiseOutcome.QUEUED
    assert evaluator.raise_event("run", "go", 1, id="a") is RaiseOutcome.REPEATED
    paused = start(evaluator, "Two")
    assert waits(paused) == [("afl.WaitForEvent", "go", None)]
    assert evaluator.raise_event("run", "go", 1, id="a") is RaiseOutcome.REPEATED
    assert evaluator.raise_event("run", "go", 2, id="b") is RaiseOutcome.TAKEN

    assert evaluator.resume("run").outputs == {"first": 1, "second": 2}


def test_an_event_after_the_end_is_in_the_history_and_taken_by_nobody(evaluator: Evaluator, store: Store) -> None:
    start(evaluator, "Nap", ms=0)

    assert evaluator.raise_event("run", "go", 1) is RaiseOutcome.ENDED
    (row,) = store.history("run")
    assert (row.kind, row.name, row.is_pending, row.step_id) == (HistoryKind.EXTERNAL_EVENT, "go", False, "")


@pytest.mark.parametrize("is_started", [False, True])
def test_more_events_than_the_limit_are_not_kept_and_said(
    store: Store, clock: ManualClock, is_started: bool, caplog: pytest.LogCaptureFixture
) -> None:
    evaluator = Evaluator(store, clock=clock, event_limits=EventLimits(max_pending=2))
    if is_started:
        start(evaluator, "Nap")
    raised = [evaluator.raise_event("run", "go", number) for number in range(3)]

    assert raised == [RaiseOutcome.QUEUED, RaiseOutcome.QUEUED, RaiseOutcome.LIMIT]
    assert "workflow run: event go is not kept: 2 events that no wait took are the most" in caplog.text
    assert [row.value for row in store.pending_events(["run"])["run"]] == [0, 1]


@pytest.mark.parametrize(
    ("name", "data", "event_id"),
    [("", 1, None), ("\ud800", 1, None), ("go", object(), None), ("go", 1, "\ud800"), ("go", 1, 7)],
)
def test_what_is_no_event_is_refused(evaluator: Evaluator, name: str, data: Value, event_id: str | None) -> None:
    with pytest.raises(ValueRefused):
        evaluator.raise_event("run", name, data, event_id)


def test_events_for_a_workflow_that_never_starts_expire_after_a_day(
    evaluator: Evaluator, store: Store, clock: ManualClock
) -> None:
    evaluator.raise_event("run", "go", 1)
    clock.advance(DAY_MS - 1)
    evaluator.fire_timers()
    assert store.pending_events(["run"])["run"]

    clock.advance(1)
    assert evaluator.fire_timers() == []
    assert store.pending_events(["run"]) == {}
    assert waits(start(evaluator, "One"))


def early(workflow_id: str, number: int = 0, at_ms: int = START_MS) -> HistoryRow:
    """Return the row of an event that waits for its workflow."""
    kind, until_ms = HistoryKind.EXTERNAL_EVENT, at_ms + DAY_MS
    return HistoryRow(workflow_id, number, kind, 1, at_ms, "go", "e", 5, is_pending=True, expires_at_ms=until_ms)


def test_events_expire_behind_many_that_go_on_waiting(evaluator: Evaluator, store: Store, clock: ManualClock) -> None:
    store.commit_batch(Batch(history=[early("z"), *(early(f"a{n}", at_ms=START_MS + 5) for n in range(1_100))]))
    clock.advance(DAY_MS)
    evaluator.fire_timers()

    assert store.history_sizes(["z"]) == {}
    assert len(store.early_workflows(limit=2_000)) == 1_100


def test_a_workflow_that_cannot_be_read_holds_up_the_events_of_no_other(
    evaluator: Evaluator, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    start(evaluator, "One")
    lost = WorkflowRow("a", 1, "no such program", "n.One", PAUSED)
    store.commit_batch(Batch(changes=[WorkflowChange(lost, 0)], history=[early("a"), early("run", 1)]))

    assert evaluator.fire_timers() == ["run"]
    assert "workflow a cannot be read, and early events wait beside it" in caplog.text


def test_a_run_that_was_cancelled_while_it_could_not_be_read_keeps_its_events(store: Store, clock: ManualClock) -> None:
    start(Evaluator(store, clock=clock), "Later", ms=5_000)
    Evaluator(store, clock=clock).raise_event("run", "go", "kept")
    row = changed(store, program="no such program")
    assert Evaluator(store, clock=clock).cancel("run")

    changed(store, program=row.program)
    evaluator = Evaluator(store, clock=clock)
    evaluator.retry("run")
    evaluator.resume("run")
    clock.advance(5_000)
    assert evaluator.resume("run").outputs == {"data": "kept"}


def changed(store: Store, *, program: str) -> WorkflowRow:
    """Give a run's row another program; return the row before."""
    row = store.load_workflow("run")
    assert row is not None
    after = row._replace(program=program, revision=row.revision + 1)
    store.commit_batch(Batch(changes=[WorkflowChange(after, row.revision)]))
    return row


def test_an_event_that_a_start_has_missed_is_given_to_it_later(evaluator: Evaluator, store: Store) -> None:
    start(evaluator, "One")
    # As a writer leaves it that was between the start's look and its commit.
    store.commit_batch(Batch(history=[early("run", 1)]))

    assert evaluator.fire_timers() == ["run"]
    assert evaluator.resume("run").outputs == {"data": 5, "late": False}


def test_a_crowd_that_raises_beside_the_wait_loses_and_doubles_nothing(store: Store, clock: ManualClock) -> None:
    evaluator = Evaluator(store, clock=clock)
    start(evaluator, "Two")
    outcomes: list[RaiseOutcome] = []

    def crowd(number: int) -> None:
        # A second one of the same id is raised by another evaluator.
        for one in (evaluator, Evaluator(store, clock=clock)):
            outcomes.append(one.raise_event("run", "go", number, id=str(number)))

    threads = [threading.Thread(target=crowd, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outcomes) == ["queued"] * 2 + ["repeated"] * 4 + ["taken"] * 2
    outputs = evaluator.resume("run").outputs
    left = [row.value for row in store.pending_events(["run"]).get("run", ())]
    assert sorted([*outputs.values(), *left]) == [0, 1, 2, 3]  # type: ignore[type-var]  # all are numbers


def test_an_event_that_is_raised_while_its_workflow_starts_is_in_it(tmp_path: Path, clock: ManualClock) -> None:
    for number in range(20):
        path, outcomes = tmp_path / f"{number}.db", list[RaiseOutcome]()
        SqliteStore(path, clock=clock).close()

        def raising(path: Path = path, outcomes: list[RaiseOutcome] = outcomes) -> None:
            with closing(SqliteStore(path, clock=clock)) as other:
                outcomes.append(Evaluator(other, clock=clock).raise_event("run", "go", 5))

        thread = threading.Thread(target=raising)
        thread.start()
        with closing(SqliteStore(path, clock=clock)) as store:
            evaluator = Evaluator(store, clock=clock)
            start(evaluator, "One")
            thread.join()
            evaluator.fire_timers()
            assert evaluator.resume("run").outputs == {"data": 5, "late": False}, outcomes


def test_an_id_that_is_in_use_is_not_taken_over_by_a_workflow_that_continues_at_once(evaluator: Evaluator) -> None:
    start(evaluator, "Nap")

    refused = start(evaluator, "Count", n=0, until=1)

    assert isinstance(refused.error, WorkflowConflict)
    assert waits(evaluator.resume("run")) == [("afl.Sleep", None, 5_000)]


# --- times -----------------------------------------------------------------------------------------------------------


def test_a_sleep_ends_at_its_time_and_not_before(evaluator: Evaluator, clock: ManualClock) -> None:
    start(evaluator, "Nap")
    assert evaluator.next_timer_ms() == START_MS + 5_000

    clock.advance(4_999)
    assert evaluator.fire_timers() == []
    assert evaluator.resume("run").status == "PAUSED"
    clock.advance(1)
    assert evaluator.fire_timers() == ["run"]

    assert evaluator.resume("run").outputs == {"woke_at": START_MS + 5_000}
    assert evaluator.next_timer_ms() is None


def test_resume_fires_the_due_timers_of_its_workflow(evaluator: Evaluator, clock: ManualClock) -> None:
    start(evaluator, "Nap")
    clock.advance(9_000)

    assert evaluator.resume("run").outputs == {"woke_at": START_MS + 9_000}
    assert evaluator.next_timer_ms() is None
    assert evaluator.fire_timers() == []


def test_a_wait_that_is_over_without_its_event_goes_on(evaluator: Evaluator, clock: ManualClock) -> None:
    start(evaluator, "One")
    clock.advance(60_000)

    assert evaluator.resume("run").outputs == {"data": None, "late": True}
    assert evaluator.raise_event("run", "go", 1) is RaiseOutcome.ENDED


def test_timers_are_fired_by_the_workflow_and_up_to_the_limit(
    evaluator: Evaluator, store: Store, clock: ManualClock
) -> None:
    for number in range(5):
        evaluator.execute("n.Nap", {"ms": 1_000 + number}, PROGRAM, workflow_id=f"w{number}")
    clock.advance(2_000)

    assert evaluator.fire_timers(limit=2) == ["w0", "w1"]
    assert evaluator.fire_timers() == ["w2", "w3", "w4"]
    assert all(row.status == "COMPLETED" for row in store.list_workflows())


def test_of_several_that_fire_a_timer_one_does(store: Store, clock: ManualClock) -> None:
    ids = [f"w{number}" for number in range(20)]
    for workflow_id in ids:
        Evaluator(store, clock=clock).execute("n.Nap", {}, PROGRAM, workflow_id=workflow_id)
    clock.advance(5_000)
    fired: list[str] = []
    threads = [
        threading.Thread(target=lambda: fired.extend(Evaluator(store, clock=clock).fire_timers())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(fired) == sorted(ids)
    assert {row.status for row in store.list_workflows()} == {"COMPLETED"}
    assert store.next_timer_ms() is None


def test_timers_outlive_their_evaluator(store: Store, clock: ManualClock) -> None:
    start(Evaluator(store, clock=clock), "Nap")
    clock.advance(5_000)

    assert Evaluator(store, clock=clock).fire_timers() == ["run"]


def test_an_event_that_is_not_answered_in_time_fails_its_attempt(evaluator: Evaluator, clock: ManualClock) -> None:
    (event,) = start(evaluator, "Timed").pending_events
    clock.advance(3_000)
    assert evaluator.fire_timers() == ["run"]

    assert evaluator.resume("run").outputs == {"a": -1}
    # The answer is late, and changes nothing.
    evaluator.continue_step(event.step_id, {"a": 7}, event_id=event.id)
    assert evaluator.resume("run").outputs == {"a": -1}


def test_a_failed_attempt_is_followed_by_the_next_after_its_pause(evaluator: Evaluator, clock: ManualClock) -> None:
    (first,) = start(evaluator, "Tried").pending_events
    evaluator.fail_step(first.step_id, "busy", "Busy")
    paused = evaluator.resume("run")
    assert waits(paused) == [("n.Ask", None, 1_000)]
    assert list(paused.pending_events) == []

    clock.advance(1_000)
    (second,) = evaluator.resume("run").pending_events
    assert second.id != first.id
    evaluator.fail_step(second.step_id, "busy", "Busy")
    # Three times as long as before.
    assert waits(evaluator.resume("run")) == [("n.Ask", None, 4_000)]

    clock.advance(3_000)
    (third,) = evaluator.resume("run").pending_events
    evaluator.continue_step(third.step_id, {"a": 7})
    assert evaluator.resume("run").outputs == {"a": 7}


def test_no_attempt_follows_a_failure_of_another_kind(evaluator: Evaluator) -> None:
    (event,) = start(evaluator, "Tried").pending_events
    evaluator.fail_step(event.step_id, "no", "Refused")

    error = evaluator.resume("run").error
    assert isinstance(error, StepFailure)
    assert error.error_type == "Refused"


# --- continuing as new -----------------------------------------------------------------------------------------------


def test_a_workflow_continues_inside_one_call(evaluator: Evaluator, store: Store) -> None:
    assert start(evaluator, "Count", n=0, until=50).outputs == {"n": 50}

    row = store.load_workflow("run")
    assert row is not None
    assert (row.executions_before, row.inputs) == (50, {"n": 50, "until": 50})
    # Nothing of the executions before is left but the newest of their history.
    assert {step.revision <= row.revision for step in store.load_steps("run")} == {True}
    assert len(store.load_steps("run")) == row.steps
    assert [item.execution for item in store.history("run")] == list(range(42, 51))


def test_events_go_along_into_the_next_executions(evaluator: Evaluator) -> None:
    for number in range(3):
        evaluator.raise_event("run", "x", number)

    assert start(evaluator, "Listen", n=1).outputs == {"n": 3, "data": 2}


def test_an_operator_lets_a_workflow_continue_with_other_inputs(evaluator: Evaluator, clock: ManualClock) -> None:
    start(evaluator, "Nap", ms=5_000)

    assert waits(evaluator.continue_as_new("run", {"ms": 100})) == [("afl.Sleep", None, 100)]
    # The sleep of the execution before has gone with it.
    assert evaluator.next_timer_ms() == START_MS + 100
    clock.advance(100)
    assert evaluator.resume("run").outputs == {"woke_at": START_MS + 100}


def test_inputs_that_do_not_fit_change_nothing(evaluator: Evaluator) -> None:
    start(evaluator, "Nap", ms=5_000)

    with pytest.raises(InputError):
        evaluator.continue_as_new("run", {"ms": "long"})
    assert waits(evaluator.resume("run")) == [("afl.Sleep", None, 5_000)]


def test_a_workflow_that_has_ended_does_not_continue(evaluator: Evaluator) -> None:
    start(evaluator, "Nap", ms=0)

    with pytest.raises(OperationRefused, match=r"run run has ended \(COMPLETED\)"):
        evaluator.continue_as_new("run", {})
    with pytest.raises(ValueError, match="not found"):
        evaluator.continue_as_new("nobody", {})


class AskedForTimers(MemoryStore):
    """Counts the questions about times."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def next_timer_ms(self) -> int | None:
        self.asked += 1
        return super().next_timer_ms()


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize(("workflow", "asked"), [("n.Plain", 0), ("n.Two", 0), ("n.Timed", 1), ("n.Nap", 1)])
def test_the_store_is_asked_for_timers_of_a_workflow_that_has_some(
    workflow: str, asked: int, is_restarted: bool
) -> None:
    store, clock = AskedForTimers(), ManualClock(START_MS)
    evaluator = Evaluator(store, clock=clock)
    evaluator.execute(workflow, {}, PROGRAM, workflow_id="w")
    again = Evaluator(store, clock=clock) if is_restarted else evaluator

    assert again.resume("w").status == "PAUSED"

    assert store.asked == asked
