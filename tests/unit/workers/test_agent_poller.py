"""AgentPoller: polls, claims, calls the registered functions, answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from afl.core.clock import ManualClock
from afl.core.process.crashes import Crash
from afl.engine.errors import StoreCorrupt, StoreUnavailable
from afl.engine.model.entities import TaskDefinition, TaskState
from afl.engine.model.store import Batch
from afl.engine.states import StepState
from afl.engine.types import ObjectType, WorkflowId
from afl.evaluation.evaluator import Evaluator
from afl.runtime import AgentPoller, AgentPollerConfig, Deferred, TaskContext
from afl.stores.memory.store import MemoryStore
from afl.stores.public.step import StepDefinition
from tests.eventually import eventually
from tests.unit.workers.workshop import Workshop, opened, pay, started, waits_for


@pytest.fixture(params=["memory", "sqlite"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workshop]:
    workshop = Workshop(opened(request.param, tmp_path))
    yield workshop
    workshop.store.close()


def poller_of(shop: Workshop, **config: int) -> AgentPoller:
    settings = AgentPollerConfig(poll_interval_ms=20, heartbeat_interval_ms=50)
    for name, value in config.items():
        setattr(settings, name, value)
    return AgentPoller(shop.store, shop.evaluator, settings)


def test_the_defaults_are_those_of_the_specification() -> None:
    config = AgentPollerConfig()

    assert (config.service_name, config.server_group, config.task_list) == ("afl-agent", "default", "default")
    assert (config.poll_interval_ms, config.max_concurrent, config.heartbeat_interval_ms) == (2000, 5, 10000)
    assert config.server_name


def test_a_poll_runs_the_handler_and_the_workflow_to_its_end(shop: Workshop) -> None:
    shop.start("Buy", order="17")
    poller = poller_of(shop)
    poller.register("shop.Pay", pay)
    threads = threading.active_count()

    assert poller.poll_once() == 1

    assert shop.outputs() == {"receipt": "r-17"}
    assert shop.task().state == TaskState.COMPLETED
    assert threading.active_count() == threads
    assert poller.poll_once() == 0


def test_what_an_answer_sets_free_is_done_in_the_same_poll(shop: Workshop) -> None:
    shop.start("Chain", order="17")
    poller = poller_of(shop)
    poller.register("shop.Pay", pay)
    poller.register("shop.Ship", lambda payload: {"parcel": f"p-{payload['order']}"})

    assert poller.poll_once() == 2
    assert shop.outputs() == {"parcel": "p-r-17"}


def test_a_handler_whose_name_is_nearly_that_of_a_waiting_task_is_told_once(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.start("Buy", order="17")
    poller = poller_of(shop)
    poller.register("shop.Payy", pay)
    poller.register("shop.Ship", pay)

    assert [poller.poll_once(), poller.poll_once()] == [0, 0]

    (reported,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "registered for shop.Payy" in reported
    assert reported.endswith("did you mean shop.Pay?")


def test_a_handler_that_has_had_a_task_is_no_typo_of_what_others_serve(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.start("Buy", order="17")
    poller = poller_of(shop)
    poller.register("shop.Pay", pay)
    poller.poll_once()
    shop.store.save_task(TaskDefinition("t", "shop.Pays", "r", "w", "f", "s"))

    poller.poll_once()

    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


def test_a_poll_does_at_most_so_many_tasks(shop: Workshop) -> None:
    shop.start("Many", orders=["a", "b", "c"])
    poller = poller_of(shop, max_concurrent=2)
    poller.register("shop.Pay", pay)

    assert [poller.poll_once() for _ in range(3)] == [2, 1, 0]
    assert shop.outputs() == {"receipts": ["r-a", "r-b", "r-c"]}


def test_a_short_name_is_enough_to_claim_and_the_qualified_one_goes_first(shop: Workshop) -> None:
    shop.start("Buy", order="17")
    poller = poller_of(shop)
    poller.register("Pay", lambda payload: {"receipt": "by short name"})
    poller.register("other.Pay", lambda payload: {"receipt": "of another namespace"})
    poller.register("Ship", lambda payload: {"parcel": ""})
    assert poller.poll_once() == 1
    assert shop.outputs() == {"receipt": "by short name"}

    poller.register("shop.Pay", pay)
    shop.start("Buy", "again", order="18")
    assert poller.poll_once() == 1
    assert shop.outputs("again") == {"receipt": "r-18"}


def test_a_task_without_a_handler_is_never_claimed(shop: Workshop) -> None:
    shop.start("Buy", order="17")
    poller = poller_of(shop)
    assert poller.poll_once() == 0
    poller.register("shop.Ship", pay)
    poller.register("other.Pay", pay)

    assert poller.poll_once() == 0
    assert shop.task().state == TaskState.PENDING


def test_the_payload_is_as_the_step_has_it(shop: Workshop) -> None:
    def handle(payload: dict[str, object]) -> dict[str, object]:
        seen.append(dict(payload))
        return {"receipt": "r"}

    seen: list[object] = []
    shop.start("Buy", order="17")
    poller = poller_of(shop)
    poller.register("shop.Pay", handle)

    poller.poll_once()

    assert seen == [{"order": "17"}]


def test_a_handler_that_raises_fails_its_step_and_the_run_says_why(shop: Workshop) -> None:
    def broken(payload: dict[str, object]) -> dict[str, object]:
        raise LookupError("no such card")

    shop.start("Buy", order="17")
    poller = poller_of(shop)
    poller.register("shop.Pay", broken)

    assert poller.poll_once() == 1

    assert shop.failure() == ("LookupError", "no such card")
    task = shop.task()
    assert (task.state, task.error) == (TaskState.FAILED, {"message": "no such card"})


@pytest.mark.parametrize("result", [17, ["r"], "r"])
def test_a_result_that_is_none_fails_the_step(shop: Workshop, result: object) -> None:
    shop.start("Buy", order="17")
    poller = poller_of(shop)
    poller.register("shop.Pay", lambda payload: result)

    poller.poll_once()

    error_type, message = shop.failure()
    assert error_type == "BadResult"
    assert "a dict or None is expected" in message
    assert shop.task().state == TaskState.FAILED


def test_a_result_that_does_not_fit_the_declared_returns_fails_the_step(shop: Workshop) -> None:
    shop.start("Buy", order="17")
    poller = poller_of(shop)
    poller.register("shop.Pay", lambda payload: {"receipt": 17})

    poller.poll_once()

    error_type, message = shop.failure()
    assert error_type == "ResultMismatch"
    assert "shop.Pay returned receipt:" in message


def test_a_partial_result_that_does_not_fit_fails_the_step_and_what_comes_after_it_is_late(shop: Workshop) -> None:
    shop.start("Buy", order="17")
    poller = poller_of(shop)

    def tells_first(payload: dict[str, object], context: TaskContext) -> dict[str, object]:
        context.update({"receipt": ["half"]})
        return {"receipt": "whole"}

    poller.register("shop.Pay", tells_first)

    poller.poll_once()

    assert shop.failure()[0] == "ResultMismatch"


def test_a_result_that_cannot_be_stored_fails_the_step(tmp_path: Path) -> None:
    shop = Workshop(opened("sqlite", tmp_path))
    shop.start("Buy", order="17")
    poller = poller_of(shop)
    poller.register("shop.Pay", lambda payload: {"receipt": "r", "more": object()})

    poller.poll_once()

    error_type, message = shop.failure()
    assert error_type == "ValueRefused"
    assert message == "result.more: a JSON value was expected, found a value of Python type object"
    shop.store.close()


def test_a_coroutine_is_run_to_completion_and_held_to_its_time(shop: Workshop) -> None:
    async def quick(payload: dict[str, object]) -> dict[str, object]:
        await asyncio.sleep(0)
        return pay(payload)

    async def endless(payload: dict[str, object]) -> dict[str, object]:
        await asyncio.Event().wait()
        return {}

    poller = poller_of(shop)
    poller.register_async("shop.Pay", quick)
    shop.start("Buy", order="17")
    poller.poll_once()
    assert shop.outputs() == {"receipt": "r-17"}

    poller.register("shop.Pay", endless, timeout_ms=10)
    shop.start("Buy", "late", order="18")
    poller.poll_once()
    assert shop.failure("late") == ("Timeout", "the handler did not end within 0.01 s")


def test_partial_results_are_in_the_store_before_the_answer(shop: Workshop) -> None:
    def handle(payload: dict[str, object], context: TaskContext) -> dict[str, object]:
        context.update({"receipt": "draft"})
        step = shop.store.get_step(context.step_id)
        assert step is not None
        seen.append(step.attributes.returns["receipt"].value)
        poller.update_step(context.step_id, {"more": 1})
        return {"receipt": f"attempt {context.attempt}"}

    seen: list[object] = []
    shop.start("Buy", order="17")
    poller = poller_of(shop)
    poller.register("shop.Pay", handle)

    poller.poll_once()

    assert seen == ["draft"]
    assert shop.outputs() == {"receipt": "attempt 1"}
    with pytest.raises(ValueError, match="not found"):
        poller.update_step("nobody", {})


def test_a_deferred_answer_comes_from_anyone_and_ends_the_task(shop: Workshop) -> None:
    shop.start("Buy", order="17")
    poller = poller_of(shop)
    poller.register("shop.Pay", lambda payload: Deferred())
    poller.poll_once()
    assert (shop.task().state, shop.task().lease_expires) == (TaskState.RUNNING, 0)

    shop.evaluator.continue_step(shop.task().step_id, {"receipt": "late"})

    assert shop.task().state == TaskState.COMPLETED
    shop.evaluator.resume("run")
    assert shop.outputs() == {"receipt": "late"}


def test_an_answer_from_elsewhere_leaves_nothing_to_claim(shop: Workshop) -> None:
    shop.start("Buy", order="17")
    poller = poller_of(shop)
    poller.register("shop.Pay", pay)

    shop.evaluator.continue_step(shop.task().step_id, {"receipt": "mine"})

    assert shop.task().state == TaskState.COMPLETED
    assert poller.poll_once() == 0


def test_cancelling_a_workflow_cancels_its_tasks(shop: Workshop) -> None:
    shop.start("Many", orders=["a", "b"])

    shop.evaluator.cancel("run")

    assert [task.state for task in shop.tasks()] == [TaskState.CANCELED] * 2


def test_a_task_of_nobodys_step_fails_and_the_next_is_done(shop: Workshop) -> None:
    shop.store.save_task(TaskDefinition("stray", "shop.Pay", "", "", "", "nobody", data={"order": "0"}))
    shop.start("Buy", order="17")
    poller = poller_of(shop)
    poller.register("shop.Pay", pay)

    assert poller.poll_once() == 2

    stray = shop.store.get_task("stray")
    assert stray is not None
    assert stray.state == TaskState.FAILED
    assert "not found" in str(stray.error)
    assert shop.outputs() == {"receipt": "r-17"}


def saved_task(store: MemoryStore, task_id: str) -> StepDefinition:
    """Return a task and its step, both saved from outside: no workflow of the engine has them."""
    step = StepDefinition.create(WorkflowId("nobodys"), ObjectType.VARIABLE_ASSIGNMENT, "shop.Pay")
    step.state = StepState.EVENT_TRANSMIT
    store.save_step(step)
    store.save_task(TaskDefinition(task_id, "shop.Pay", "", "nobodys", "", step.id, data={"order": "17"}))
    return step


def test_a_saved_step_is_answered_through_its_task() -> None:
    store = MemoryStore()
    paid, refused = saved_task(store, "t1"), saved_task(store, "t2")
    answers: list[dict[str, str]] = [{"receipt": "r1"}]
    poller = AgentPoller(store, Evaluator(store))
    poller.register("Pay", lambda payload: answers.pop())

    assert poller.poll_once() == 2
    step = store.get_step(paid.id)
    assert step is not None
    assert step.attributes.get_return("receipt") == "r1"
    step = store.get_step(refused.id)
    assert step is not None
    assert (step.state, str(step.transition.error)) == (StepState.STATEMENT_ERROR, "pop from empty list")
    tasks = [store.get_task(task_id) for task_id in ("t1", "t2")]
    assert [task.state for task in tasks if task is not None] == [TaskState.COMPLETED, TaskState.FAILED]


def test_an_evaluator_of_any_make_is_told_the_answer_to_a_saved_task() -> None:
    store, evaluator = MemoryStore(), MagicMock()
    step = saved_task(store, "t1")
    poller = AgentPoller(store, evaluator)
    poller.register("shop.Pay", lambda payload: {"receipt": payload})

    assert poller.poll_once() == 1
    evaluator.continue_step.assert_called_once_with(step.id, {"receipt": {"order": "17"}})


def test_a_retry_policy_calls_the_handler_again(shop: Workshop) -> None:
    class Twice:
        def wait_s(self, tries: int, error: BaseException) -> float | None:
            return 0.0 if tries < 2 else None

    def flaky(payload: dict[str, object]) -> dict[str, object]:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("once")
        return pay(payload)

    tries: list[int] = []
    shop.start("Buy", order="17")
    poller = poller_of(shop)
    poller.register("shop.Pay", flaky, retry=Twice())

    assert poller.poll_once() == 1
    assert shop.outputs() == {"receipt": "r-17"}


def test_the_given_program_is_used_once_and_another_is_not_used(shop: Workshop) -> None:
    workflow = shop.program.workflow("shop.Buy").node
    poller = poller_of(shop)
    poller.register("shop.Pay", pay)
    for workflow_id, program in (("right", shop.program.tree), ("wrong", {"type": "Program", "declarations": []})):
        shop.start("Buy", workflow_id, order=workflow_id)
        poller.cache_workflow_ast(workflow_id, workflow, program)

    assert poller.poll_once() == 2
    assert [shop.outputs(workflow_id)["receipt"] for workflow_id in ("right", "wrong")] == ["r-right", "r-wrong"]


# --- under start() -----------------------------------------------------------------------------------------------


def test_start_works_until_stop(shop: Workshop) -> None:
    poller = poller_of(shop)
    poller.register("shop.Pay", pay)
    assert not poller.is_running

    with started(shop, poller):
        assert poller.is_running
        for number in range(5):
            shop.start("Buy", f"w{number}", order=str(number))
        eventually(lambda: all(shop.status(f"w{number}") == "COMPLETED" for number in range(5)))

    assert not poller.is_running
    assert shop.server_state(poller) == "shutdown"
    server = shop.store.get_server(poller.server_id)
    assert server is not None
    assert server.topics == server.handlers == ["shop.Pay"]
    assert [(count.handler, count.handled, count.not_handled) for count in server.handled] == [("shop.Pay", 5, 0)]


def test_a_handler_out_of_time_frees_its_place(shop: Workshop) -> None:
    never = threading.Event()
    poller = poller_of(shop, max_concurrent=1)
    poller.register("shop.Pay", waits_for(never), timeout_ms=50)
    poller.register("shop.Ship", lambda payload: {"parcel": "p"})

    with started(shop, poller):
        shop.start("Buy", "stuck", order="1")
        eventually(lambda: shop.status("stuck") == "ERROR")
        poller.register("shop.Pay", pay)
        shop.start("Chain", "next", order="2")
        eventually(lambda: shop.status("next") == "COMPLETED")

    never.set()
    assert shop.failure("stuck") == ("Timeout", "the handler did not end within 0.05 s")


def test_coroutines_run_side_by_side_and_end_with_their_time(shop: Workshop) -> None:
    together: list[asyncio.Event] = []

    async def meets(payload: dict[str, object]) -> dict[str, object]:
        mine = asyncio.Event()
        together.append(mine)
        if len(together) == 2:
            for event in together:
                event.set()
        await mine.wait()
        return pay(payload)

    poller = poller_of(shop)
    poller.register("shop.Pay", meets, timeout_ms=20_000)
    with started(shop, poller):
        shop.start("Many", orders=["a", "b"])
        eventually(lambda: shop.status() == "COMPLETED")
        poller.register("shop.Pay", meets, timeout_ms=20)
        together.extend([asyncio.Event(), asyncio.Event()])
        shop.start("Buy", "late", order="c")
        eventually(lambda: shop.status("late") == "ERROR")

    assert shop.outputs() == {"receipts": ["r-a", "r-b"]}


def test_stop_waits_for_the_handler_at_work(shop: Workshop) -> None:
    entered, may_end = threading.Event(), threading.Event()

    def handle(payload: dict[str, object], context: TaskContext) -> dict[str, object]:
        entered.set()
        while not context.is_stopping:
            may_end.wait(0.01)
        return pay(payload)

    poller = poller_of(shop)
    poller.register("shop.Pay", handle)
    shop.start("Buy", order="17")
    with started(shop, poller):
        assert entered.wait(15)

    assert shop.outputs() == {"receipt": "r-17"}


def test_a_handler_that_outlives_the_drain_gives_its_task_back(shop: Workshop) -> None:
    entered, may_end = threading.Event(), threading.Event()

    def handle(payload: dict[str, object]) -> dict[str, object]:
        entered.set()
        may_end.wait(60)
        return {"receipt": "too late"}

    poller = poller_of(shop, shutdown_timeout_ms=20)
    poller.register("shop.Pay", handle)
    shop.start("Buy", order="17")
    with started(shop, poller):
        assert entered.wait(15)
    assert shop.task().state == TaskState.PENDING
    other = poller_of(shop)
    other.register("shop.Pay", pay)

    assert other.poll_once() == 1
    may_end.set()
    assert shop.outputs() == {"receipt": "r-17"}


def test_stop_before_start_is_not_lost_and_stop_after_it_means_nothing(shop: Workshop) -> None:
    poller = poller_of(shop)
    poller.register("shop.Pay", pay)
    poller.stop()
    poller.start()
    assert shop.server_state(poller) == "shutdown"
    poller.stop()

    with started(shop, poller):
        shop.start("Buy", order="17")
        eventually(lambda: shop.status() == "COMPLETED")


def test_a_lease_is_renewed_for_as_long_as_the_handler_works(shop: Workshop) -> None:
    may_end, ran = threading.Event(), []

    def handle(payload: dict[str, object]) -> dict[str, object]:
        ran.append(1)
        may_end.wait(60)
        return pay(payload)

    pollers = [poller_of(shop, lease_ms=150) for _ in range(2)]
    for poller in pollers:
        poller.register("shop.Pay", handle)
    with started(shop, *pollers):
        shop.start("Buy", order="17")
        eventually(lambda: shop.task().lease_expires)
        first = shop.task().lease_expires
        # Three leases later it is still the first one's.
        eventually(lambda: shop.task().lease_expires > first + 450)
        may_end.set()
        eventually(lambda: shop.status() == "COMPLETED")

    assert ran == [1]


def test_a_handler_learns_that_its_workflow_was_cancelled(shop: Workshop) -> None:
    stopped = threading.Event()

    def handle(payload: dict[str, object], context: TaskContext) -> dict[str, object]:
        eventually(lambda: context.is_stopping)
        stopped.set()
        return {}

    poller = poller_of(shop, lease_ms=100)
    poller.register("shop.Pay", handle)
    with started(shop, poller):
        shop.start("Buy", order="17")
        eventually(lambda: shop.task().state == TaskState.RUNNING)
        shop.evaluator.cancel("run")
        assert stopped.wait(15)

    assert shop.task().state == TaskState.CANCELED


def test_the_task_of_a_dead_poller_is_taken_over(shop: Workshop) -> None:
    shop.start("Buy", order="17")
    assert shop.store.claim_task(["shop.Pay"], owner="dead", lease_ms=200) is not None
    poller = poller_of(shop, lease_ms=200)
    poller.register("shop.Pay", pay)

    with started(shop, poller):
        eventually(lambda: shop.status() == "COMPLETED", 5)


@pytest.mark.parametrize("step", ["task.handled", "task.answered"])
def test_nothing_is_lost_when_a_poller_dies_between_two_steps(step: str, tmp_path: Path) -> None:
    def dies(at: str) -> None:
        if at == step:
            raise Crash(at)

    clock = ManualClock(1_000)
    shop = Workshop(opened("sqlite", tmp_path, clock), clock)
    shop.start("Buy", order="17")
    dead = AgentPoller(shop.store, shop.evaluator, clock=clock, probe=dies)
    dead.register("shop.Pay", lambda payload: {"receipt": "first"})
    with pytest.raises(Crash):
        dead.poll_once()

    clock.advance(1_000_000)
    heir = AgentPoller(shop.store, shop.new_evaluator(), clock=clock)
    heir.register("shop.Pay", lambda payload: {"receipt": "second"})
    heir.poll_once()

    assert shop.outputs() == {"receipt": "first" if step == "task.answered" else "second"}
    assert shop.task().state == TaskState.COMPLETED
    shop.store.close()


class AwayForAWhile(MemoryStore):
    """A store that is out of reach for some commits."""

    away = 0

    def commit_batch(self, batch: Batch) -> int:
        if self.away:
            self.away -= 1
            raise StoreUnavailable(path="store", reason="away")
        return super().commit_batch(batch)


def test_an_answer_waits_for_a_store_that_is_away() -> None:
    store = AwayForAWhile()
    shop = Workshop(store)
    shop.start("Buy", order="17")
    poller = poller_of(shop)
    poller.register("shop.Pay", pay)
    store.away = 2

    assert poller.poll_once() == 1
    assert shop.outputs() == {"receipt": "r-17"}


class Damaged(MemoryStore):
    """A store whose tasks cannot be read."""

    def pending_task_names(self, task_list: str = "default") -> list[str]:
        raise StoreCorrupt(path="store", reason="damaged")


def test_a_damaged_store_ends_the_server_in_error() -> None:
    shop = Workshop(Damaged())
    poller = poller_of(shop)
    poller.register("shop.Pay", pay)

    with pytest.raises(StoreCorrupt):
        poller.start()

    server = shop.store.get_server(poller.server_id)
    assert server is not None
    assert server.state == "error"
    assert server.error is not None
    assert server.error["type"] == "StoreCorrupt"


def test_a_signal_handler_may_stop_it_whatever_its_own_thread_is_at() -> None:
    class Interrupted(AgentPoller):
        """Its own thread is interrupted in the middle of a turn, holding what `stop` needs."""

        def registered_names(self) -> list[str]:
            with self._loop._wake._cond:  # type: ignore[attr-defined]  # what Event.wait holds too
                self.stop()
            return super().registered_names()

    shop = Workshop()
    poller = Interrupted(shop.store, shop.evaluator)
    thread = threading.Thread(target=poller.start, daemon=True)
    thread.start()
    thread.join(30)

    assert not thread.is_alive()
