"""Remains of a task loop: handlers that were given up, work beside the tasks, workflows that cannot go on."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from afl.core.clock import ManualClock
from afl.core.handlers.stuck_handlers import HandlersStuck
from afl.engine.errors import StoreUnavailable
from afl.engine.model.entities import ServerState, TaskState
from afl.evaluation.evaluator import Evaluator, ExecutionResult
from afl.stores.memory.store import MemoryStore
from afl.workers.call_threads import LoopRunsHere
from afl.workers.poller import AgentPoller, AgentPollerConfig
from afl.workers.task_context import TaskContext
from afl.workers.task_loop import MAX_TASK_TRIES
from tests.eventually import eventually
from tests.unit.workers.workshop import Workshop, pay, started


class Again:
    """Calls a handler that raised at once again, three times."""

    def wait_s(self, tries: int, error: BaseException) -> float | None:
        return 0.0 if tries <= 3 else None


def poller_of(shop: Workshop, evaluator: Evaluator | None = None, shutdown_timeout_ms: int = 30_000) -> AgentPoller:
    settings = AgentPollerConfig(poll_interval_ms=20, shutdown_timeout_ms=shutdown_timeout_ms, lease_ms=300)
    return AgentPoller(shop.store, evaluator or shop.evaluator, settings)


def test_a_handler_whose_task_was_given_back_is_not_called_again_and_is_told_to_end() -> None:
    shop = Workshop()
    begun, may_continue = threading.Event(), threading.Event()
    at_work: list[threading.Thread] = []
    seen: list[bool] = []

    def fails(payload: dict[str, object], context: TaskContext) -> dict[str, object]:
        at_work.append(threading.current_thread())
        begun.set()
        may_continue.wait(60)
        seen.append(context.is_stopping)
        raise ConnectionError("the bank is away")

    poller = poller_of(shop, shutdown_timeout_ms=20)
    poller.register("shop.Pay", fails, retry=Again())
    shop.start("Buy", order="17")
    with started(shop, poller):
        assert begun.wait(30)
    assert shop.task().state == TaskState.PENDING

    may_continue.set()
    at_work[0].join(30)

    assert seen == [True]
    assert (shop.task().state, shop.status()) == (TaskState.PENDING, "PAUSED")


def test_where_a_handler_raised_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    shop = Workshop()

    def looks_up(payload: dict[str, object]) -> dict[str, object]:
        return {"receipt": payload["amount"]}

    poller = poller_of(shop)
    poller.register("shop.Pay", looks_up)
    shop.start("Buy", order="17")

    poller.poll_once()

    assert f"the handler of shop.Pay failed for step {shop.task().step_id}" in caplog.text
    assert "in looks_up" in caplog.text
    assert "KeyError: 'amount'" in caplog.text


class Later:
    """Calls a handler that raised again, after longer than anybody waits."""

    def wait_s(self, tries: int, error: BaseException) -> float | None:
        return 600.0


def test_a_handler_that_waits_for_its_next_try_leaves_it_to_others_when_its_server_stops() -> None:
    shop = Workshop()
    tried = threading.Event()

    def fails(payload: dict[str, object]) -> dict[str, object]:
        tried.set()
        raise ConnectionError("the bank is away")

    poller = poller_of(shop)
    poller.register("shop.Pay", fails, retry=Later())
    shop.start("Buy", order="17")
    with started(shop, poller):
        assert tried.wait(30)
    assert (shop.task().state, shop.status()) == (TaskState.PENDING, "PAUSED")

    heir = poller_of(shop)
    heir.register("shop.Pay", pay)
    assert heir.poll_once() == 1
    assert shop.outputs() == {"receipt": "r-17"}


def test_a_handler_whose_claim_is_anothers_before_its_next_try_fails_nothing() -> None:
    shop, reported = Workshop(), threading.Event()

    def loses_its_claim(payload: dict[str, object], context: TaskContext) -> dict[str, object]:
        assert shop.store.release_lock(f"runner:task:{context.event_id}")
        assert shop.store.claim_task(["shop.Pay"], owner="heir", lease_ms=60_000) is not None
        eventually(lambda: context.is_stopping, 30)
        reported.set()
        raise ConnectionError("the bank is away")

    poller = poller_of(shop)
    poller.register("shop.Pay", loses_its_claim, retry=Again())
    shop.start("Buy", order="17")
    with started(shop, poller):
        assert reported.wait(60)

    assert (shop.task().state, shop.task().owner, shop.status()) == (TaskState.RUNNING, "heir", "PAUSED")


def test_a_poll_that_is_interrupted_leaves_its_task_to_others_at_once() -> None:
    shop = Workshop()

    def interrupted(payload: dict[str, object]) -> dict[str, object]:
        raise KeyboardInterrupt

    poller = poller_of(shop)
    poller.register("shop.Pay", interrupted)
    shop.start("Buy", order="17")

    with pytest.raises(KeyboardInterrupt):
        poller.poll_once()

    assert (shop.task().state, shop.status()) == (TaskState.PENDING, "PAUSED")


def test_a_poll_inside_a_running_loop_says_how_to_have_coroutines_run_and_leaves_the_task() -> None:
    shop = Workshop()

    async def pays(payload: dict[str, object]) -> dict[str, object]:
        return pay(payload)

    async def polls() -> int:
        return poller.poll_once()

    async def polls_in_a_thread() -> int:
        return await asyncio.to_thread(poller.poll_once)

    poller = poller_of(shop)
    poller.register("shop.Pay", pays)
    shop.start("Buy", order="17")

    with pytest.raises(LoopRunsHere, match=r"await asyncio.to_thread\(poller.poll_once\)"):
        asyncio.run(polls())
    assert (shop.task().state, shop.status()) == (TaskState.PENDING, "PAUSED")

    assert asyncio.run(polls_in_a_thread()) == 1
    assert shop.outputs() == {"receipt": "r-17"}


@pytest.mark.parametrize("setting", ["max_concurrent", "lease_ms", "heartbeat_interval_ms"])
def test_a_setting_that_nothing_could_be_done_with_is_refused(setting: str) -> None:
    shop = Workshop()

    with pytest.raises(ValueError, match=f"{setting} is 0, expected 1 or more"):
        AgentPoller(shop.store, shop.evaluator, AgentPollerConfig(**{setting: 0}))  # type: ignore[arg-type]  # an int


def test_what_cannot_be_called_is_no_handler() -> None:
    shop = Workshop()

    with pytest.raises(TypeError, match=r"the handler of shop.Pay is a dict, not callable"):
        poller_of(shop).register("shop.Pay", {"receipt": "r"})  # type: ignore[arg-type]  # what is refused


def test_a_server_says_at_its_start_what_it_works_on(caplog: pytest.LogCaptureFixture) -> None:
    shop = Workshop()
    busy, idle = poller_of(shop), poller_of(shop)
    busy.register("shop.Pay", pay)

    with caplog.at_level(logging.INFO), started(shop, busy, idle):
        eventually(lambda: caplog.text.count(" works on ") == 2, 20)

    assert f"server {busy.server_id} works on shop.Pay" in caplog.text
    assert f"server {idle.server_id} works on nothing yet: it has no handlers" in caplog.text


class Slow(Evaluator):
    """Continues workflows slowly, and counts how many it continues at once."""

    def __init__(self, shop: Workshop) -> None:
        super().__init__(shop.store, clock=shop.clock)
        self.may_continue = threading.Event()
        self.calls: list[str] = []
        self.ended = 0

    def resume(self, workflow_id_val: str, *args: object, **options: object) -> ExecutionResult:
        self.calls.append(workflow_id_val)
        self.may_continue.wait(60)
        result = super().resume(workflow_id_val)
        self.ended += 1
        return result


class Counting(MemoryStore):
    """Counts the sweeps for work that other processes left."""

    sweeps = 0

    def requeue_expired_tasks(self) -> list[str]:
        self.sweeps += 1
        return super().requeue_expired_tasks()


def left_runnable(store: MemoryStore, clock: ManualClock, *workflow_ids: str) -> Workshop:
    """Workflows that have their answer, of a process that died before it went on with them."""
    shop = Workshop(store, clock)
    for workflow_id in workflow_ids:
        shop.start("Buy", workflow_id, order="17")
        shop.evaluator.continue_step(shop.task(workflow_id).step_id, {"receipt": "r"})
    clock.advance(60_000)
    return shop


def test_a_workflow_that_takes_long_to_continue_is_continued_once() -> None:
    clock = ManualClock(1_000_000)
    store = Counting(clock=clock)
    shop = left_runnable(store, clock, "a")
    slow = Slow(shop)
    poller = poller_of(shop, slow)
    poller.register("shop.Ship", pay)

    with started(shop, poller):
        eventually(lambda: slow.calls == ["a"], 20)
        looked = store.sweeps
        eventually(lambda: store.sweeps >= looked + 3, 20)
        assert slow.calls == ["a"]
        slow.may_continue.set()
        eventually(lambda: shop.status("a") == "COMPLETED", 20)


def test_who_has_stopped_continues_with_nothing_any_more() -> None:
    clock = ManualClock(1_000_000)
    shop = left_runnable(MemoryStore(clock=clock), clock, "a", "b")
    slow = Slow(shop)
    poller = poller_of(shop, slow)
    poller.register("shop.Ship", pay)
    running = threading.Thread(target=poller.start, daemon=True)
    running.start()
    eventually(lambda: len(slow.calls) == 1, 20)

    poller.stop()
    slow.may_continue.set()
    running.join(30)

    assert not running.is_alive()
    assert (len(slow.calls), slow.ended) == (1, 1)


class Broken(Evaluator):
    """Cannot continue workflows."""

    def resume(self, workflow_id_val: str, *args: object, **options: object) -> ExecutionResult:
        error = StoreUnavailable(path="store", reason="away")
        return ExecutionResult(False, workflow_id_val, {}, error, 0, "ERROR")


def test_what_keeps_a_workflow_from_going_on_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    shop = Workshop()
    poller = poller_of(shop, Broken(shop.store))
    poller.register("shop.Pay", pay)
    shop.start("Buy", order="17")

    with caplog.at_level(logging.WARNING):
        poller.poll_once()

    assert "workflow run could not be continued: store store can't be used: away" in caplog.text


def test_a_task_that_something_keeps_from_being_done_is_tried_so_often_and_then_its_step_fails() -> None:
    shop, calls = Workshop(), []

    def pays(payload: dict[str, object]) -> dict[str, object]:
        calls.append(payload)
        return pay(payload)

    def breaks(step: str) -> None:
        if step == "task.handled":
            raise LookupError("no room")

    poller = AgentPoller(shop.store, shop.evaluator, AgentPollerConfig(poll_interval_ms=5), probe=breaks)
    poller.register("shop.Pay", pays)
    shop.start("Buy", order="17")

    poller._loop.run(until_idle=True)

    assert len(calls) == MAX_TASK_TRIES == 3
    assert shop.failure() == ("TaskNotDone", "the task was tried 3 times, and each time LookupError: no room")
    assert shop.task().state == TaskState.FAILED
    assert poller._loop.left_undone == 0


def test_a_poller_that_leaves_a_task_to_its_lease_says_so_at_its_end() -> None:
    class Lost(MemoryStore):
        """A store that takes nothing back."""

        def give_task_back(self, task_id: str, owner: str) -> bool:
            raise StoreUnavailable(path="store", reason="away")

    def breaks(step: str) -> None:
        if step == "task.handled":
            raise LookupError("no room")

    shop = Workshop(Lost())
    poller = AgentPoller(shop.store, shop.evaluator, AgentPollerConfig(poll_interval_ms=5), probe=breaks)
    poller.register("shop.Pay", pay)
    shop.start("Buy", order="17")

    poller._loop.run(until_idle=True)

    assert poller._loop.left_undone == 1


class Hopeless:
    """A policy that is of no use."""

    def __init__(self, gives: object) -> None:
        self._gives = gives

    def wait_s(self, tries: int, error: BaseException) -> float | None:
        if isinstance(self._gives, BaseException):
            raise self._gives
        return self._gives  # type: ignore[return-value]  # what is tried here


@pytest.mark.parametrize("gives", [float("nan"), float("inf"), "1", True, ZeroDivisionError("x")])
def test_a_retry_policy_that_fails_is_told_and_tries_nothing_again(
    gives: object, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Workshop()

    def fails(payload: dict[str, object]) -> dict[str, object]:
        raise ConnectionError("the bank is away")

    poller = poller_of(shop)
    poller.register("shop.Pay", fails, retry=Hopeless(gives))
    shop.start("Buy", order="17")

    poller.poll_once()

    assert shop.failure() == ("ConnectionError", "the bank is away")
    assert "the retry policy" in caplog.text


@pytest.mark.parametrize("kind", ["plain", "blocks the loop", "coroutine of a plain one"])
def test_a_poller_with_too_many_stuck_handlers_names_them_and_ends(kind: str) -> None:
    shop, release = Workshop(), threading.Event()

    def hangs(payload: dict[str, object]) -> dict[str, object]:
        release.wait(60)
        return {}

    async def hangs_too(payload: dict[str, object]) -> dict[str, object]:
        return hangs(payload)

    settings = AgentPollerConfig(poll_interval_ms=5, max_stuck_handlers=2, lease_ms=60_000)
    poller = AgentPoller(shop.store, shop.evaluator, settings)
    handlers = {"plain": hangs, "blocks the loop": hangs_too, "coroutine of a plain one": lambda p: hangs_too(p)}
    poller.register("shop.Pay", handlers[kind], timeout_ms=20)
    shop.start("Many", orders=[str(number) for number in range(9)])

    with pytest.raises(HandlersStuck, match=r"max_stuck_handlers is 2: shop\.Pay \("):
        poller.start()
    release.set()

    server = shop.store.get_server(poller.server_id)
    assert server is not None
    assert (server.state, (server.error or {}).get("type")) == (ServerState.ERROR, "HandlersStuck")
    assert shop.status() in ("PAUSED", "ERROR")


def test_handlers_that_come_back_after_their_time_are_not_held_against_a_poller() -> None:
    shop = Workshop()

    async def cancelled(payload: dict[str, object]) -> dict[str, object]:
        await asyncio.Event().wait()
        return {}

    settings = AgentPollerConfig(poll_interval_ms=5, max_stuck_handlers=3, max_concurrent=2)
    poller = AgentPoller(shop.store, shop.evaluator, settings)
    poller.register("shop.Pay", cancelled, timeout_ms=20)
    shop.start("Many", orders=[str(number) for number in range(9)])

    poller._loop.run(until_idle=True)

    assert shop.failure()[0] == "Timeout"
