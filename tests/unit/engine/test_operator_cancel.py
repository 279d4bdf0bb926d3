"""Cancel: a run ends now, whatever it waits for and whatever is wrong with it, and late answers are recorded."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from afl.engine.model.entities import NoteType, TaskState
from afl.engine.model.store import CANCELLED
from afl.engine.states import EventState, StepState
from afl.engine.types import ObjectType
from afl.evaluation.evaluator import Evaluator
from afl.stores.maintenance.check import Inspection
from afl.stores.memory.store import MemoryStore
from afl.stores.public.persistence import EngineStore
from afl.stores.sqlite.store import SqliteStore
from afl.workers.poller import AgentPoller, AgentPollerConfig
from afl.workers.task_context import TaskContext
from tests.random_programs.trusted_scripts import TrustingRunner
from tests.unit.engine.operating import DECLARATIONS, EVERYTHING, Operated
from tests.unit.engine.running import Engine, failure_of


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EngineStore]:
    store: EngineStore = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "engine.db")
    yield store
    store.close()


def test_what_was_asked_is_taken_back(store: EngineStore) -> None:
    run = Operated(Engine(EVERYTHING, scripts=TrustingRunner(), store=store))
    asked = [run.step(path).id for path in run.waiting()]

    assert run.engine.evaluator.cancel("run", "ordered twice")

    row = run.engine.row()
    assert row.status == CANCELLED
    assert row.error is not None
    assert row.error.message == "ordered twice"
    steps = {step.id: step.document for step in run.steps()}
    assert {(steps[id_].state, steps[id_].event_state) for id_ in asked} == {
        (StepState.EVENT_TRANSMIT, EventState.CANCELED)
    }
    tasks = [store.get_task(f"{id_}#1") for id_ in asked]
    assert {task and task.state for task in tasks} == {TaskState.CANCELED}
    assert not run.engine.evaluator.cancel("run", "again")
    assert failure_of(run.engine.resume()).message == "ordered twice"


#: Every kind of step that can be under way, with what has a run wait in one.
UNDER_WAY = {
    ObjectType.VARIABLE_ASSIGNMENT: "a = E(x = 1)",
    ObjectType.WORKFLOW: "p = Part(n = 1)",
    ObjectType.FACET: "m = Wide(x = 1)",
    ObjectType.SCHEMA_INSTANTIATION: "s = Pair(left = 1 / 0, right = 2) catch { c = E(x = 1) }",
    ObjectType.AND_THEN: "s = Each(list = $.list) andThen foreach n in $.list { e = E(x = $.n) }",
    ObjectType.AND_MATCH: "s = Each(list = $.list) andThen when { case true => { e = E(x = 1) } case _ => { } }",
}


@pytest.mark.parametrize("cold", [False, True], ids=["hot", "cold"])
@pytest.mark.parametrize("max_open_events", [1, 10_000], ids=["held back", "asked"])
@pytest.mark.parametrize("kind", UNDER_WAY)
def test_a_run_ends_whatever_kind_of_step_is_under_way(
    store: EngineStore, kind: str, max_open_events: int, cold: bool
) -> None:
    declared = f"{DECLARATIONS} facet Each(list: [Long])"
    text = f"{declared} workflow W(list: [Long] = [1, 2]) andThen {{ first = E(x = 9) {UNDER_WAY[kind]} }}"
    run = Operated(Engine(text, store=store, max_open_events=max_open_events))
    assert kind in {step.document.object_type for step in run.steps() if not StepState.is_terminal(step.state)}
    if cold:
        run.engine.restart()

    assert run.engine.evaluator.cancel("run")

    assert run.engine.row().status == CANCELLED
    assert {step.document.event_state for step in run.steps()} <= {"", EventState.CANCELED}
    assert store.pending_task_names() == []
    assert list(Inspection(store=store).findings()) == []
    before = store.load_steps("run")
    assert failure_of(run.engine.resume()).error_type == "Cancelled"
    assert store.load_steps("run") == before


def test_late_answers_are_recorded_once_and_change_nothing(store: EngineStore) -> None:
    run = Operated(Engine(EVERYTHING, scripts=TrustingRunner(), store=store))
    step = run.step("late")
    run.engine.evaluator.cancel("run")
    before = run.step("late")

    for _ in range(2):
        run.engine.restart()
        run.engine.evaluator.continue_step(step.id, {"r": 1}, event_id=f"{step.id}#1")
    run.engine.evaluator.fail_step(step.id, "too late")

    assert run.step("late") == before
    (entry,) = [log for log in store.get_logs_by_runner("run") if log.step_id == step.id]
    assert entry.note_type == NoteType.WARNING
    assert "after the workflow had ended" in entry.message
    assert "CANCELLED" in entry.message


@pytest.mark.parametrize("max_iterations", [1, 3])
def test_a_run_that_is_stopped_by_the_limit_of_iterations_can_be_cancelled(max_iterations: int) -> None:
    chain = " ".join(f"a{n} = V(v = {f'a{n - 1}.v' if n else 1})" for n in range(9))
    run = Operated(Engine(f"facet V(v: Long) workflow W() andThen {{ {chain} }}", max_iterations=max_iterations))
    assert run.result.status == "TIMEOUT"

    assert run.engine.evaluator.cancel("run")

    assert run.engine.row().status == CANCELLED
    assert not run.engine.row().runnable


class NoPrograms(MemoryStore):
    """A store that has lost its programs."""

    def load_program(self, fingerprint: str) -> bytes | None:
        return None


def test_a_run_that_cannot_be_read_any_more_can_be_cancelled() -> None:
    store = NoPrograms()
    run = Operated(Engine(EVERYTHING, scripts=TrustingRunner(), store=store))
    asked = [run.step(path) for path in run.waiting()]
    other = Evaluator(store)
    assert "is not in the store" in str(other.resume("run").error)

    assert other.cancel("run", "it is lost")

    row = run.engine.row()
    assert (row.status, row.error and row.error.message) == (CANCELLED, "it is lost")
    steps = {step.id: step.document for step in run.steps()}
    for step in asked:
        assert steps[step.id] == step._replace(event_state=EventState.CANCELED, revision=row.revision)
        task = store.get_task(f"{step.id}#1")
        assert task is not None
        assert task.state == TaskState.CANCELED
    assert not other.cancel("run")
    with pytest.raises(ValueError, match="nobody not found"):
        other.cancel("nobody")


def test_a_handler_that_asks_its_context_learns_of_a_cancellation() -> None:
    engine = Engine(
        "event facet E(x: Long) => (r: Long) workflow W() => (r: Long) andThen { e = E(x = 1) yield W(r = e.r) }"
    )
    engine.start()
    seen: list[bool] = []

    def handle(payload: dict[str, object], context: TaskContext) -> dict[str, object]:
        engine.evaluator.cancel("run")
        seen.append(context.is_cancelled)
        return {"r": 1}

    poller = AgentPoller(engine.store, engine.evaluator, AgentPollerConfig())
    poller.register("n.E", handle)
    assert poller.poll_once() == 1

    assert seen == [True]
    assert engine.row().status == CANCELLED
    assert any("after the workflow had ended" in log.message for log in engine.store.get_logs_by_runner("run"))


def test_a_handler_of_a_step_that_is_run_again_learns_that_nobody_waits_for_it() -> None:
    engine = Engine(
        "event facet E(x: Long) => (r: Long) workflow W() => (r: Long) andThen { e = E(x = 1) yield W(r = e.r) }"
    )
    engine.start()
    seen: list[bool] = []
    first = threading.Event()

    def handle(payload: dict[str, object], context: TaskContext) -> dict[str, object]:
        if not first.is_set():
            first.set()
            engine.evaluator.rerun(context.step_id)
        seen.append(context.is_cancelled)
        return {"r": len(seen)}

    poller = AgentPoller(engine.store, engine.evaluator, AgentPollerConfig())
    poller.register("n.E", handle)
    poller.poll_once()

    assert seen == [True, False]
    assert engine.row().outputs == {"r": 2}
