"""RunnerService: claims the tasks of facets by its registry and modules, and shows itself to others."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from afl.engine.model.entities import ServerState, TaskDefinition, TaskState
from afl.runtime import RunnerConfig, RunnerService, ToolRegistry
from tests.eventually import eventually
from tests.unit.workers.runner_shop import answered_from_afar, runner_of
from tests.unit.workers.workshop import Workshop, opened, pay, started, waits_for


@pytest.fixture(params=["memory", "sqlite"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workshop]:
    workshop = Workshop(opened(request.param, tmp_path))
    yield workshop
    workshop.store.close()


def default_of(answers: dict[str, object]) -> ToolRegistry:
    """Return a registry that answers every facet in the same way."""
    registry = ToolRegistry()
    registry.set_default_handler(lambda name, payload: answers)
    return registry


def test_the_defaults_are_those_of_the_specification() -> None:
    config = RunnerConfig()

    assert (config.server_group, config.service_name, config.task_list) == ("default", "afl-runner", "default")
    assert config.server_name == socket.gethostname()
    assert config.topics == []
    assert (config.poll_interval_ms, config.heartbeat_interval_ms) == (2_000, 10_000)
    assert (config.lock_duration_ms, config.lock_extend_interval_ms) == (60_000, 20_000)
    assert (config.max_concurrent, config.shutdown_timeout_ms) == (5, 30_000)
    assert (config.http_port, config.http_max_port_attempts) == (8_080, 20)


def test_a_dead_runners_tasks_are_taken_over_within_seconds_whatever_the_length_of_locks() -> None:
    assert RunnerConfig().claim_ms == 9_000
    assert RunnerConfig(lock_duration_ms=2_000).claim_ms == 2_000


def test_one_round_runs_handler_and_workflow_to_the_end_without_a_thread_or_a_port(shop: Workshop) -> None:
    shop.start("Buy", order="17")
    runner = runner_of(shop)
    threads = threading.active_count()

    assert runner.run_once() == 1

    assert shop.outputs() == {"receipt": "r-17"}
    assert shop.task().state == TaskState.COMPLETED
    assert (threading.active_count(), runner.http_port, runner.is_running) == (threads, None, False)
    assert runner.run_once() == 0


def test_one_round_does_at_most_so_many_tasks(shop: Workshop) -> None:
    shop.start("Many", orders=["a", "b", "c"])

    assert [runner_of(shop, max_concurrent=2).run_once() for _ in range(3)] == [2, 1, 0]


def test_a_handler_that_raises_fails_its_step_and_is_counted(shop: Workshop) -> None:
    registry = ToolRegistry()

    def refuse(payload: dict[str, Any]) -> dict[str, Any]:
        raise PermissionError("card declined")

    registry.register("Pay", refuse)
    shop.start("Buy", order="17")
    runner = runner_of(shop, registry)

    assert runner.run_once() == 1

    assert shop.failure() == ("PermissionError", "card declined")
    assert shop.task().error == {"message": "card declined"}
    assert runner.status()["handled"] == {"shop.Pay": {"handled": 0, "not_handled": 1}}


def test_a_facet_without_a_handler_is_left_to_others(shop: Workshop) -> None:
    shop.start("Buy", order="17")

    assert runner_of(shop, ToolRegistry()).run_once() == 0
    assert shop.task().state == TaskState.PENDING


def test_the_default_handler_takes_what_has_no_handler_of_its_own(shop: Workshop) -> None:
    shop.start("Buy", order="17")

    assert runner_of(shop, default_of({"receipt": "by default"})).run_once() == 1
    assert shop.outputs() == {"receipt": "by default"}


def test_the_default_handler_is_for_facets_not_for_tasks_of_runners(shop: Workshop) -> None:
    shop.store.save_task(TaskDefinition("t1", "afl:unheard-of", "", "", "", ""))

    assert runner_of(shop, default_of({})).run_once() == 0


@pytest.mark.parametrize(
    ("topics", "done"), [(["shop.Pay"], 1), (["Pay"], 1), (["shop.*"], 1), (["billing.*"], 0), (["shop.Ship"], 0)]
)
def test_topics_narrow_what_is_claimed(shop: Workshop, topics: list[str], done: int) -> None:
    shop.start("Buy", order="17")

    assert runner_of(shop, topics=topics).run_once() == done


@pytest.mark.parametrize(
    "text",
    [
        "def handle(payload):\n    return {'receipt': payload['_facet_name']}\nFACET = 'shop.Pay'\n",
        "def handle(payload):\n    return {'receipt': payload['_facet_name']}\n_DISPATCH = {'shop.Pay': None}\n",
        "def pay(payload):\n    return {'receipt': payload['_facet_name']}\n"
        "def register_handlers(runner):\n    runner.register('shop.Pay', pay)\n",
    ],
    ids=["named", "dispatch", "factory"],
)
def test_handlers_come_from_modules_in_each_form(shop: Workshop, tmp_path: Path, text: str) -> None:
    module = tmp_path / "paying.py"
    module.write_text(text)
    shop.start("Buy", order="17")
    runner = runner_of(shop, ToolRegistry())
    runner.register_module(str(module))

    assert runner.run_once() == 1
    assert shop.outputs() == {"receipt": "shop.Pay"}


def test_a_task_that_is_no_steps_ends_with_its_handler(shop: Workshop) -> None:
    registry = ToolRegistry()
    seen: list[object] = []
    registry.register("shop.Tidy", lambda payload: seen.append(payload))
    shop.store.save_task(TaskDefinition("t1", "shop.Tidy", "", "", "", "", data={"shelf": 3}))

    assert runner_of(shop, registry).run_once() == 1

    task = shop.store.get_task("t1")
    assert task is not None
    assert (task.state, task.error, seen) == (TaskState.COMPLETED, None, [{"shelf": 3}])


def test_a_task_that_is_no_steps_fails_with_its_handler(shop: Workshop) -> None:
    registry = ToolRegistry()
    registry.register("shop.Tidy", lambda payload: payload["shelf"])
    shop.store.save_task(TaskDefinition("t1", "shop.Tidy", "", "", "", ""))

    runner_of(shop, registry).run_once()

    task = shop.store.get_task("t1")
    assert task is not None
    assert (task.state, task.error) == (TaskState.FAILED, {"message": "'shelf'"})


def test_a_resume_task_continues_with_what_somebody_wrote_to_the_step(shop: Workshop) -> None:
    shop.start("Buy", order="17")
    step_id = shop.task().step_id
    answered_from_afar(shop)
    shop.store.save_task(TaskDefinition("resume", "afl:resume", "", "run", "", "", data={"step_id": step_id}))

    # The sweep would find the step too: it is not needed.
    assert runner_of(shop, ToolRegistry()).poll_once() == 1

    assert shop.outputs() == {"receipt": "from afar"}
    task = shop.store.get_task("resume")
    assert task is not None
    assert task.state == TaskState.COMPLETED


def test_a_resume_task_may_name_its_step_itself_and_comes_twice_for_nothing(shop: Workshop) -> None:
    shop.start("Buy", order="17")
    answered_from_afar(shop)
    for name in ("a", "b"):
        shop.store.save_task(TaskDefinition(name, "afl:resume", "", "run", "", shop.task().step_id))

    assert runner_of(shop, ToolRegistry()).poll_once() == 2
    found = [shop.store.get_task(name) for name in ("a", "b")]
    assert [task.state for task in found if task is not None] == [TaskState.COMPLETED] * 2
    assert shop.outputs() == {"receipt": "from afar"}


@pytest.mark.parametrize(("data", "said"), [(None, "step_id"), ({"step_id": "nowhere:1"}, "not found")])
def test_a_resume_task_for_no_step_fails_and_says_why(
    shop: Workshop, data: dict[str, object] | None, said: str
) -> None:
    shop.store.save_task(TaskDefinition("resume", "afl:resume", "", "", "", "", data=data))

    assert runner_of(shop).run_once() == 1

    task = shop.store.get_task("resume")
    assert task is not None
    assert task.state == TaskState.FAILED
    assert task.error is not None
    assert said in str(task.error["message"])


def test_a_running_service_shows_itself_works_and_signs_off(shop: Workshop) -> None:
    runner = runner_of(shop, topics=["shop.*"], service_name="pays", server_group="till")
    with started(shop, runner):
        server = shop.store.get_server(runner.server_id)
        assert server is not None
        assert (server.service_name, server.server_group, server.topics) == ("pays", "till", ["shop.*"])
        assert server.handlers == ["shop.Pay", "afl:execute"]
        assert server.heartbeat_interval_ms == 50
        shop.start("Buy", order="17")
        eventually(lambda: shop.status() == "COMPLETED")
        eventually(lambda: handled(shop, runner) == {"shop.Pay": (1, 0)})

    assert shop.server_state(runner) == ServerState.SHUTDOWN
    assert runner.http_port is None


def test_a_claim_is_seen_as_the_lock_of_its_task_while_the_handler_works(shop: Workshop) -> None:
    end = threading.Event()
    registry = ToolRegistry()
    registry.register("shop.Pay", waits_for(end))
    runner = runner_of(shop, registry, lock_duration_ms=500, lock_extend_interval_ms=50)
    with started(shop, runner):
        shop.start("Buy", order="17")
        key = f"runner:task:{shop.task().uuid}"
        eventually(lambda: shop.store.check_lock(key) is not None)
        first = shop.store.check_lock(key)
        assert first is not None
        assert first.meta is not None
        assert first.meta.handler == runner.server_id
        assert not shop.store.acquire_lock(key, 1_000)
        # It is extended for as long as the handler works.
        eventually(lambda: expires_at(shop, key) > first.expires_at)
        end.set()
        eventually(lambda: shop.status() == "COMPLETED")

    assert shop.store.check_lock(key) is None


def test_several_tasks_are_done_at_a_time(shop: Workshop) -> None:
    together = threading.Barrier(3)
    registry = ToolRegistry()

    def meet(payload: dict[str, object]) -> dict[str, object]:
        together.wait(30)
        return pay(payload)

    registry.register("shop.Pay", meet)
    with started(shop, runner_of(shop, registry, max_concurrent=3)):
        shop.start("Many", orders=["a", "b", "c"])
        eventually(lambda: shop.status() == "COMPLETED")

    assert shop.outputs() == {"receipts": ["r-a", "r-b", "r-c"]}


def test_work_that_takes_too_long_at_the_end_is_given_back(shop: Workshop) -> None:
    begun, end = threading.Event(), threading.Event()
    registry = ToolRegistry()

    def slow(payload: dict[str, object]) -> dict[str, object]:
        begun.set()
        end.wait(60)
        return pay(payload)

    registry.register("shop.Pay", slow)
    runner = runner_of(shop, registry, shutdown_timeout_ms=50)
    shop.start("Buy", order="17")
    with started(shop, runner):
        assert begun.wait(30)

    assert (runner.given_back, shop.task().state) == (1, TaskState.PENDING)
    assert runner_of(shop).run_once() == 1
    assert shop.outputs() == {"receipt": "r-17"}
    end.set()


def test_until_idle_does_all_that_waits_and_what_follows_from_it(shop: Workshop) -> None:
    registry = ToolRegistry()
    registry.register("shop.Pay", pay)
    registry.register("shop.Ship", lambda payload: {"parcel": f"p-{payload['order']}"})
    shop.start("Many", orders=[str(number) for number in range(20)])
    shop.start("Chain", "chain", order="17")
    runner = runner_of(shop, registry, poll_interval_ms=60_000, http_port=1, http_max_port_attempts=1)

    runner.run_until_idle()

    assert shop.outputs() == {"receipts": [f"r-{number}" for number in range(20)]}
    assert shop.outputs("chain") == {"parcel": "p-r-17"}
    assert shop.server_state(runner) == ServerState.SHUTDOWN


def test_a_runner_that_cannot_have_a_port_says_so_in_the_list_of_servers(shop: Workshop) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        runner = runner_of(shop, http_port=port, http_max_port_attempts=1)
        with pytest.raises(RuntimeError, match=f"Could not bind port {port}"):
            runner.start()

    server = shop.store.get_server(runner.server_id)
    assert server is not None
    assert (server.state, server.error is None) == (ServerState.ERROR, False)
    assert not runner.is_running


def test_what_keeps_a_runner_from_starting_is_in_the_list_of_servers(shop: Workshop) -> None:
    runner = runner_of(shop)
    runner.refuse_to_start(ImportError("no module named paying"))

    server = shop.store.get_server(runner.server_id)
    assert server is not None
    assert server.state == ServerState.ERROR
    assert server.error == {"type": "ImportError", "message": "no module named paying"}


def handled(shop: Workshop, runner: RunnerService) -> dict[str, tuple[int, int]]:
    server = shop.store.get_server(runner.server_id)
    assert server is not None
    return {count.handler: (count.handled, count.not_handled) for count in server.handled}


def expires_at(shop: Workshop, key: str) -> int:
    lock = shop.store.check_lock(key)
    return 0 if lock is None else lock.expires_at
