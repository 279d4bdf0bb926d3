"""Steps without a task, or with an answer that no process continued with: a runner finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from afl.core.clock import ManualClock
from afl.engine.execution.execution import Execution
from afl.engine.execution.task_dispatch import TaskDispatch
from afl.engine.model.entities import TaskState
from afl.engine.model.records import StepRecord
from afl.engine.model.store import Batch, WorkflowChange
from afl.engine.types import Value
from afl.evaluation.evaluator import Evaluator
from afl.workers.service.waiting_steps import WaitingSteps
from tests.eventually import eventually
from tests.unit.workers.runner_shop import answered_from_afar, clock_at, runner_of
from tests.unit.workers.workshop import Workshop, opened, started


@pytest.fixture
def clock() -> ManualClock:
    return clock_at()


@pytest.fixture(params=["memory", "sqlite"])
def shop(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Workshop]:
    workshop = Workshop(opened(request.param, tmp_path, clock), clock)
    yield workshop
    workshop.store.close()


def waiting_steps(
    shop: Workshop,
    resumed: list[str],
    most_workflows: int = 10_000,
    is_stopping: Callable[[], bool] = lambda: False,
) -> WaitingSteps:
    assert shop.clock is not None
    return WaitingSteps(
        shop.store,
        shop.evaluator,
        shop.clock,
        task_list="default",
        lock_ms=60_000,
        quiet_ms=9_000,
        resume=resumed.append,
        most_workflows=most_workflows,
        is_stopping=is_stopping,
    )


def ended(shop: Workshop, state: str, message: str = "") -> None:
    """End the step's task as an operator does, without a word to the engine."""
    task = shop.task()
    task.state, task.error = state, {"message": message} if message else None
    shop.store.save_task(task)


def test_a_step_that_was_answered_from_elsewhere_continues_with_its_answer(shop: Workshop) -> None:
    shop.start("Buy", order="17")
    answered_from_afar(shop)

    runner_of(shop).run_once()

    assert shop.outputs() == {"receipt": "from afar"}


def test_a_step_whose_task_was_ended_without_an_answer_is_asked_for_again(shop: Workshop) -> None:
    shop.start("Buy", order="17")
    answered_from_afar(shop, receipt=None)

    assert runner_of(shop).run_once() == 1
    assert shop.outputs() == {"receipt": "r-17"}
    assert shop.task().state == TaskState.COMPLETED


def test_a_step_whose_task_has_failed_fails_with_what_the_task_says(shop: Workshop) -> None:
    shop.start("Buy", order="17")
    ended(shop, TaskState.FAILED, "card declined")

    assert runner_of(shop).run_once() == 0
    assert shop.failure()[1] == "card declined"


@pytest.mark.parametrize("state", [TaskState.CANCELED, TaskState.IGNORED])
def test_what_an_operator_did_to_a_task_is_left_as_it_is(shop: Workshop, state: str) -> None:
    shop.start("Buy", order="17")
    ended(shop, state)

    assert runner_of(shop).run_once() == 0
    assert (shop.task().state, shop.status()) == (state, "PAUSED")


def test_a_step_whose_task_somebody_works_on_is_left_alone(shop: Workshop, clock: ManualClock) -> None:
    shop.start("Buy", order="17")
    shop.store.claim_task(["shop.Pay"])
    clock.advance(1_000_000_000)

    assert runner_of(shop).run_once() == 0
    assert shop.task().state == TaskState.RUNNING


def test_whoever_has_the_lock_of_a_step_sees_to_it(shop: Workshop) -> None:
    shop.start("Buy", order="17")
    ended(shop, TaskState.FAILED, "x")
    key = f"runner:step:{shop.task().step_id}"
    assert shop.store.acquire_lock(key, 1_000)

    resumed: list[str] = []
    assert waiting_steps(shop, resumed).sweep() == 0
    shop.store.release_lock(key)
    assert waiting_steps(shop, resumed).sweep() == 1

    assert resumed == ["run"]
    assert shop.store.check_lock(key) is None


def test_in_the_background_only_workflows_are_looked_at_that_are_quiet(shop: Workshop, clock: ManualClock) -> None:
    shop.start("Buy", order="17")
    ended(shop, TaskState.FAILED, "x")

    assert waiting_steps(shop, []).sweep_when_due() == 0
    clock.advance(9_000)
    assert waiting_steps(shop, []).sweep_when_due() == 1


def test_in_the_background_a_workflow_is_looked_at_once_a_revision(shop: Workshop, clock: ManualClock) -> None:
    shop.start("Buy", order="17")
    clock.advance(9_000)
    waiting = waiting_steps(shop, [])
    assert waiting.sweep_when_due() == 0
    ended(shop, TaskState.FAILED, "x")
    waiting._next_s = 0.0

    assert waiting.sweep_when_due() == 0
    # Something happened in the workflow.
    step = shop.store.get_step(shop.task().step_id)
    assert step is not None
    shop.store.save_step(step)
    clock.advance(9_000)
    waiting._next_s = 0.0
    assert waiting.sweep_when_due() == 1


def test_a_workflow_whose_process_died_between_answer_and_resume_is_continued(
    shop: Workshop, clock: ManualClock
) -> None:
    shop.start("Buy", order="17")
    task = shop.store.claim_task(["shop.Pay"], owner="dead", lease_ms=9_000)
    assert task is not None
    # The answer is stored; its process ended before it could resume.
    shop.new_evaluator().continue_step(task.step_id, {"receipt": "r-17"})
    assert shop.status() == "RUNNING"
    runner = runner_of(shop)

    with started(shop, runner):
        clock.advance(9_000)
        eventually(lambda: shop.status() == "COMPLETED", 20)

    assert shop.outputs() == {"receipt": "r-17"}


class Forgetful(TaskDispatch):
    """Asks no model."""

    def dispatch(self, execution: Execution, step: StepRecord, event_id: str, effects: Batch) -> None:
        pass


def test_a_step_whose_event_is_on_a_topic_is_its_evaluators(shop: Workshop, clock: ManualClock) -> None:
    shop.evaluator = Evaluator(shop.store, clock=clock, dispatch=Forgetful())
    shop.start("Buy", order="17")
    row = shop.store.load_workflow("run")
    assert row is not None

    on_topic = row._replace(revision=row.revision + 1, lane="control/0")
    shop.store.commit_batch(Batch(changes=[WorkflowChange(on_topic, row.revision)]))
    assert waiting_steps(shop, []).sweep() == 0
    in_store = on_topic._replace(revision=on_topic.revision + 1, lane="")
    shop.store.commit_batch(Batch(changes=[WorkflowChange(in_store, on_topic.revision)]))
    assert waiting_steps(shop, []).sweep() == 1


def test_a_task_that_was_lost_is_recreated_as_it_was(shop: Workshop, clock: ManualClock) -> None:
    whole = Workshop(clock=clock)
    whole.start("Buy", order="17")
    shop.evaluator = Evaluator(shop.store, clock=clock, dispatch=Forgetful())
    shop.start("Buy", order="17")
    shop.evaluator = shop.new_evaluator()

    assert waiting_steps(shop, []).sweep() == 1

    assert shop.task() == whole.task()
    assert runner_of(shop).run_once() == 1
    assert shop.outputs() == {"receipt": "r-17"}


def test_however_many_workflows_wait_each_is_looked_at_in_the_end(shop: Workshop, clock: ManualClock) -> None:
    for name in ("a", "b", "c"):
        shop.start("Buy", name, order=name)
        clock.advance(1)
    task = shop.task("a")
    task.state = TaskState.COMPLETED
    shop.store.save_task(task)

    assert waiting_steps(shop, [], most_workflows=1).sweep() == 1


class Refusing(Evaluator):
    """Takes no answer to steps of one workflow."""

    def continue_step(
        self,
        step_id: str,
        result: Mapping[str, Value] | None = None,
        *,
        event_id: str | None = None,
        is_checked: bool = False,
    ) -> None:
        if step_id.startswith("bad:"):
            raise TypeError("this does not fit")
        super().continue_step(step_id, result, event_id=event_id, is_checked=is_checked)


def test_a_step_that_nothing_can_be_done_about_keeps_no_other_from_going_on(shop: Workshop, clock: ManualClock) -> None:
    for name in ("good", "bad", "better"):
        shop.start("Buy", name, order=name)
        answered_from_afar(shop)
        clock.advance(1)
    shop.evaluator = Refusing(shop.store, clock=clock)

    assert runner_of(shop).run_once() == 0

    assert [shop.status(name) for name in ("good", "bad", "better")] == ["COMPLETED", "PAUSED", "COMPLETED"]


def test_a_sweep_ends_when_its_server_does(shop: Workshop, clock: ManualClock) -> None:
    shop.start("Buy", order="17")
    answered_from_afar(shop)
    clock.advance(9_000)
    waiting = waiting_steps(shop, [], is_stopping=lambda: True)

    assert waiting.sweep_when_due() == 0
