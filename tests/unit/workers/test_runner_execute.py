"""`afl:execute`: a task starts a workflow of a flow, once, and the record of its run says how that went."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from pathlib import Path

import pytest

from afl.core.clock import ManualClock
from afl.core.process.crashes import Crash
from afl.engine.errors import StoreUnavailable
from afl.engine.model.entities import FlowDefinition, RunnerState, SourceText, TaskDefinition, TaskState
from afl.engine.model.store import Batch
from afl.evaluation.evaluator import ExecutionResult
from afl.runtime import Evaluator, RunnerService, ToolRegistry
from afl.stores.maintenance.purge import Purge
from afl.stores.memory.store import MemoryStore
from afl.workers.service.flow_programs import FlowPrograms
from afl.workers.service.workflow_starts import WorkflowStarts, workflow_id_for
from afl.workers.task_context import TaskContext
from tests.unit.workers.runner_shop import (
    SHOP_FLOW,
    Flows,
    clock_at,
    execute_task,
    flow_of,
    run_record,
    runner_of,
)
from tests.unit.workers.workshop import PROGRAM, Workshop, opened

FREE = "namespace free { workflow Sum(a: Long, b: Long = 2) => (c: Long) andThen { yield Sum(c = $.a + $.b) } }"


class CrashAt:
    """A probe that dies at a point, once."""

    def __init__(self, point: str) -> None:
        self._point: str | None = point

    def __call__(self, point: str) -> None:
        if point == self._point:
            self._point = None
            raise Crash(point)


@pytest.fixture
def clock() -> ManualClock:
    return clock_at()


@pytest.fixture(params=["memory", "sqlite"])
def shop(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Workshop]:
    workshop = Workshop(opened(request.param, tmp_path, clock), clock)
    yield workshop
    workshop.store.close()


def task_of(shop: Workshop, task_id: str = "t1") -> TaskDefinition:
    task = shop.store.get_task(task_id)
    assert task is not None
    return task


def failure_of(shop: Workshop) -> str:
    task = task_of(shop)
    assert task.state == TaskState.FAILED
    assert task.error is not None
    return str(task.error["message"])


def starts_of(shop: Workshop, flows: Flows | None = None) -> WorkflowStarts:
    return WorkflowStarts(shop.store, shop.evaluator, FlowPrograms(shop.store, flows), clock_at())


def test_the_registry_has_what_starts_workflows(shop: Workshop) -> None:
    registry = ToolRegistry()
    runner_of(shop, registry, Flows(flow_of(SourceText("free.afl", FREE))))

    answer = registry.handle("afl:execute", {"flow_id": "f1", "workflow_name": "Sum", "inputs": {"a": 1}})

    assert answer["status"] == "COMPLETED"
    assert shop.outputs(answer["workflow_id"]) == {"c": 3}


@pytest.mark.parametrize("name", ["Buy", "shop.Buy"])
def test_a_task_starts_the_workflow_that_it_names(shop: Workshop, name: str) -> None:
    shop.store.save_task(execute_task(workflow_name=name, inputs={"order": "17"}))

    # The start, and what it waits for.
    assert runner_of(shop).run_once() == 2

    assert task_of(shop).state == TaskState.COMPLETED
    assert shop.outputs("t1") == {"receipt": "r-17"}


def test_the_record_of_a_run_says_where_it_stands(shop: Workshop, clock: ManualClock) -> None:
    shop.store.save_runner(run_record())
    shop.store.save_task(execute_task(workflow_name="Buy", inputs={"order": "17"}, runner_id="run-1"))
    runner = runner_of(shop, max_concurrent=1)

    assert runner.run_once() == 1
    paused = shop.store.get_runner("run-1")
    clock.advance(5_000)
    assert runner.run_once() == 1
    ended = shop.store.get_runner("run-1")

    assert paused is not None
    assert (paused.state, paused.start_time, paused.workflow_id) == (RunnerState.RUNNING, 1_000_000, "t1")
    assert ended is not None
    assert (ended.state, ended.end_time, ended.duration) == (RunnerState.COMPLETED, 1_005_000, 5_000)
    assert [run.uuid for run in shop.store.get_runners_by_state(RunnerState.COMPLETED)] == ["run-1"]
    assert shop.store.get_runners_by_state(RunnerState.RUNNING) == []
    row = shop.store.load_workflow("t1")
    assert row is not None
    assert row.runner_id == "run-1"


def test_a_run_that_fails_or_is_cancelled_later_is_seen_so_in_its_record(shop: Workshop) -> None:
    for name in ("a", "b"):
        shop.store.save_runner(run_record(f"run-{name}"))
        shop.store.save_task(execute_task(name, workflow_name="Buy", inputs={"order": name}, runner_id=f"run-{name}"))
    runner_of(shop, ToolRegistry()).run_once()
    shop.evaluator.fail_step(shop.task("a").step_id, "declined")
    shop.evaluator.resume("a")
    shop.evaluator.cancel("b")
    shop.evaluator.resume("b")

    found = [shop.store.get_runner(run_id) for run_id in ("run-a", "run-b")]
    assert [run.state for run in found if run is not None] == [RunnerState.FAILED, RunnerState.CANCELLED]


def test_a_run_whose_workflow_was_purged_is_seen_as_it_ended(shop: Workshop) -> None:
    shop.store.save_runner(run_record())
    shop.store.save_task(execute_task(workflow_name="Buy", inputs={"order": "17"}, runner_id="run-1"))
    while runner_of(shop, max_concurrent=1).run_once():
        pass
    ended, row = shop.store.get_runner("run-1"), shop.store.load_workflow("t1")
    assert row is not None

    assert Purge(shop.store, clock_at()).purge(row, waiting=())

    assert shop.store.load_workflow("t1") is None
    assert ended is not None
    assert ended.state == RunnerState.COMPLETED
    assert shop.store.get_runner("run-1") == ended


def test_a_call_that_breaks_off_fails_no_run_whose_workflow_continues(shop: Workshop) -> None:
    class BreaksOff(Evaluator):
        def execute(self, *args: object, **options: object) -> ExecutionResult:
            started = super().execute(*args, **options)  # type: ignore[arg-type]
            return ExecutionResult(False, started.workflow_id, {}, OSError("the pool was closed"), 0, "ERROR")

    shop.store.save_runner(run_record())
    shop.evaluator = BreaksOff(shop.store)
    shop.store.save_task(execute_task(workflow_name="Buy", inputs={"order": "17"}, runner_id="run-1"))
    runner_of(shop, max_concurrent=1).run_once()
    run = shop.store.get_runner("run-1")
    assert run is not None
    assert run.state == RunnerState.RUNNING

    shop.evaluator = shop.new_evaluator()
    runner_of(shop).run_once()
    run = shop.store.get_runner("run-1")
    assert run is not None
    assert run.state == RunnerState.COMPLETED


def test_a_run_that_ends_at_once_is_recorded_with_its_end(shop: Workshop) -> None:
    shop.store.save_runner(run_record())
    shop.store.save_task(execute_task(workflow_name="Sum", inputs={"a": 1}, runner_id="run-1"))

    assert runner_of(shop, flows=Flows(flow_of(SourceText("free.afl", FREE)))).run_once() == 1

    run = shop.store.get_runner("run-1")
    assert run is not None
    assert (run.state, run.workflow_id) == (RunnerState.COMPLETED, "t1")
    assert run.end_time == run.start_time + run.duration


@pytest.mark.parametrize(
    ("flow", "name", "inputs", "said"),
    [
        (None, "Buy", {}, "Flow 'f1' not found"),
        (flow_of(), "Buy", {}, "Flow 'f1' has no compiled sources"),
        (flow_of(SourceText("x", "class X", "java")), "Buy", {}, "sources in java"),
        (SHOP_FLOW, "Sell", {}, "Workflow 'Sell' not found in flow 'f1'"),
        (SHOP_FLOW, "Buy", {}, "order"),
        (SHOP_FLOW, "Buy", ["17"], "expected an object"),
        (flow_of(SourceText("x", "workflow {")), "Buy", {}, "line 1"),
    ],
    ids=["no flow", "no sources", "other language", "no workflow", "input missing", "inputs no object", "no AFL"],
)
def test_what_cannot_be_started_fails_its_task_and_its_run(
    shop: Workshop, flow: FlowDefinition | None, name: str, inputs: object, said: str
) -> None:
    shop.store.save_runner(run_record())
    shop.store.save_task(execute_task(workflow_name=name, inputs=inputs, runner_id="run-1"))

    assert runner_of(shop, flows=Flows(flow) if flow is not None else Flows()).run_once() == 1

    assert said in failure_of(shop)
    run = shop.store.get_runner("run-1")
    assert run is not None
    assert run.state == RunnerState.FAILED
    assert shop.store.load_workflow("t1") is None


def test_a_store_without_flows_says_so(shop: Workshop) -> None:
    with pytest.raises(builtins.RuntimeError, match="does not support get_flow"):
        starts_of(shop).start({"flow_id": "f1", "workflow_name": "Buy"})


def test_a_store_that_keeps_flows_is_asked_for_them() -> None:
    class Keeping(MemoryStore):
        def get_flow(self, flow_id: str) -> FlowDefinition | None:
            return SHOP_FLOW if flow_id == "f1" else None

    shop = Workshop(Keeping())

    assert starts_of(shop).start({"flow_id": "f1", "workflow_name": "Buy", "inputs": {"order": "17"}})[
        "status"
    ] == "PAUSED"  # fmt: skip
    with pytest.raises(builtins.RuntimeError, match="Flow 'f2' not found"):
        starts_of(shop).start({"flow_id": "f2", "workflow_name": "Buy"})


def test_the_fingerprint_of_a_stored_program_stands_for_a_flow(shop: Workshop) -> None:
    shop.store.commit_batch(Batch(programs={shop.program.fingerprint: shop.program.text}))
    shop.store.save_task(
        TaskDefinition(
            "t1",
            "afl:execute",
            "",
            "",
            "",
            "",
            data={"flow_id": shop.program.fingerprint, "workflow_name": "Buy", "inputs": {"order": "17"}},
        )
    )

    assert runner_of(shop, flows=Flows()).run_once() == 2
    assert shop.outputs("t1") == {"receipt": "r-17"}


def test_sources_of_a_flow_are_one_program_and_a_compiled_one_goes_first(shop: Workshop) -> None:
    split = flow_of(
        SourceText("facets.afl", "namespace lib { event facet Pay(order: String) => (receipt: String) }"),
        SourceText(
            "flows.afl",
            "namespace app { use lib workflow Go(order: String) => (r: String) andThen "
            "{ p = Pay(order = $.order) yield Go(r = p.receipt) } }",
        ),
    )
    compiled = flow_of(
        SourceText("shop.afl", "no AFL at all"),
        SourceText("program.json", shop.program.text.decode(), "json"),
        flow_id="f2",
    )
    starts = starts_of(shop, Flows(split, compiled))

    assert starts.start({"flow_id": "f1", "workflow_name": "Go", "inputs": {"order": "1"}})["status"] == "PAUSED"
    assert starts.start({"flow_id": "f2", "workflow_name": "Buy", "inputs": {"order": "1"}})["status"] == "PAUSED"


@pytest.mark.parametrize("point", ["execute.noted", "execute.executed", "task.handled"])
def test_a_task_whose_runner_died_on_the_way_starts_its_workflow_once(
    shop: Workshop, clock: ManualClock, point: str
) -> None:
    shop.store.save_runner(run_record())
    shop.store.save_task(execute_task(workflow_name="Buy", inputs={"order": "17"}, runner_id="run-1"))
    dying = RunnerService(
        shop.store, shop.evaluator, None, ToolRegistry(), flows=Flows(SHOP_FLOW), clock=clock, probe=CrashAt(point)
    )
    with pytest.raises(Crash):
        dying.run_once()
    assert task_of(shop).state == TaskState.RUNNING

    clock.advance(300_000)
    shop.evaluator = shop.new_evaluator()
    runner = runner_of(shop)
    runner.run_once()

    assert task_of(shop).state == TaskState.COMPLETED
    assert [row.id for row in shop.store.list_workflows()] == ["t1"]
    assert shop.outputs("t1") == {"receipt": "r-17"}
    run = shop.store.get_runner("run-1")
    assert run is not None
    assert run.state == RunnerState.COMPLETED


def test_a_store_that_is_away_fails_no_start(clock: ManualClock) -> None:
    class Away(MemoryStore):
        is_away = False

        def commit_batch(self, batch: Batch) -> int:
            if self.is_away:
                raise StoreUnavailable(path="store", reason="away")
            return super().commit_batch(batch)

    store = Away(clock=clock)
    store.save_runner(run_record())
    store.save_task(execute_task(workflow_name="Buy", inputs={"order": "17"}, runner_id="run-1"))
    shop = Workshop(store, clock)

    store.is_away = True
    runner_of(shop).run_once()
    assert task_of(shop).state == TaskState.RUNNING
    store.is_away = False
    clock.advance(300_000)
    runner_of(shop).run_once()

    assert shop.outputs("t1") == {"receipt": "r-17"}


def test_a_start_that_another_was_faster_with_continues_with_that_one(shop: Workshop) -> None:
    class Faster(Evaluator):
        """Another caller starts the same workflow at the last moment."""

        def execute(self, *args: object, **options: object) -> object:  # type: ignore[override]
            shop.evaluator.execute(*args, **options)  # type: ignore[arg-type]
            return super().execute(*args, **options)  # type: ignore[arg-type]

    starts = WorkflowStarts(
        shop.store, Faster(shop.store), FlowPrograms(shop.store, Flows(flow_of(SourceText("s", PROGRAM)))), clock_at()
    )

    assert starts.start({"flow_id": "f1", "workflow_name": "Buy", "inputs": {"order": "17"}})["status"] == "PAUSED"


def test_a_workflow_that_has_the_tasks_id_already_and_is_another_one_is_left_alone(shop: Workshop) -> None:
    shop.store.save_runner(run_record())
    shop.start("Buy", "t1", order="18")
    shop.store.save_task(execute_task(workflow_name="Buy", inputs={"order": "17"}, runner_id="run-1"))

    runner_of(shop, ToolRegistry()).run_once()

    task, run = task_of(shop), shop.store.get_runner("run-1")
    assert task.state == TaskState.FAILED
    assert task.error == {"message": "workflow t1 is another one, of shop.Buy: choose another id"}
    assert run is not None
    assert run.state == RunnerState.FAILED


def test_a_store_that_goes_away_when_a_start_is_taken_up_again_fails_no_run(shop: Workshop) -> None:
    class Away(Evaluator):
        def resume(self, workflow_id_val: str, *args: object, **options: object) -> ExecutionResult:
            error = StoreUnavailable(path="store", reason="away")
            return ExecutionResult(False, workflow_id_val, {}, error, 0, "ERROR")

    shop.store.save_runner(run_record())
    shop.start("Buy", "t1", order="17")
    task = execute_task(workflow_name="Buy", inputs={"order": "17"}, runner_id="run-1")
    starts = WorkflowStarts(shop.store, Away(shop.store), FlowPrograms(shop.store, Flows(SHOP_FLOW)), clock_at())
    context = TaskContext(task, lambda partial: None, lambda: False, lambda: False)

    with pytest.raises(StoreUnavailable):
        starts.start(task.data or {}, context)

    run = shop.store.get_runner("run-1")
    assert run is not None
    assert run.state == RunnerState.RUNNING


def test_a_workflow_bears_the_id_of_the_task_that_started_it_where_it_may() -> None:
    assert workflow_id_for("3f0e8a5c-22f0-4f6d-9d67-7a3a0b1c2d3e") == "3f0e8a5c-22f0-4f6d-9d67-7a3a0b1c2d3e"
    assert workflow_id_for("task:1") == workflow_id_for("task:1") != workflow_id_for("task:2")
    assert ":" not in workflow_id_for("task:1")
