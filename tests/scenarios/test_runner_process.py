"""`python -m afl.workers.service` as a process: it drains, is killed, cannot start; and who sees that."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.ids import event_id_of
from afl.engine.model.entities import ServerDefinition, ServerState, TaskDefinition, TaskState
from afl.engine.model.store import Batch
from afl.evaluation.evaluator import Evaluator
from afl.stores.sqlite.store import SqliteStore
from afl_stream.cli import main as afl_stream
from tests.eventually import eventually

ROOT = Path(__file__).parents[2]

PROGRAM = """namespace shop {
    event facet Pay(order: String) => (receipt: String)
    workflow Buy(order: String) => (receipt: String) andThen {
        paid = Pay(order = $.order)
        yield Buy(receipt = paid.receipt)
    }
}
"""
#: Says that it has begun, and goes on when it is told to.
HANDLERS = """
import pathlib, threading
FACET = "shop.Pay"
HERE = pathlib.Path(__file__).parent
def handle(payload):
    (HERE / "began").touch()
    while not (HERE / "go").exists():
        threading.Event().wait(0.01)
    return {"receipt": "r-" + payload["order"]}
"""


@dataclass
class Deployment:
    """A store with a workflow that waits for Pay, and processes that work on it."""

    folder: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = SqliteStore(self.folder / "store.db")
        self.program = CompiledProgram(compile_text(PROGRAM).program_json)
        self.handlers = self.folder / "paying.py"
        self.handlers.write_text(HANDLERS)

    def start(self, order: str) -> None:
        result = Evaluator(self.store).execute("Buy", {"order": order}, self.program, workflow_id=order)
        assert result.status == "PAUSED"

    def runner(self, *words: str, store: bool = True) -> subprocess.Popen[str]:
        named = ["--store", str(self.folder / "store.db")] if store else []
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AFL_")}
        process = subprocess.Popen(
            [sys.executable, "-m", "afl.runtime.runner", *named, "--port", "0", "--host", "127.0.0.1",
             "--poll-interval", "50", "--heartbeat-interval", "200", *words],
            cwd=self.folder,
            env={**environment, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def has(self, name: str) -> Callable[[], bool]:
        return (self.folder / name).exists

    def servers(self) -> list[ServerDefinition]:
        return self.store.get_all_servers()

    def task(self, workflow_id: str) -> TaskDefinition:
        (step,) = [step for step in self.store.load_steps(workflow_id) if step.attempt]
        task = self.store.get_task(event_id_of(step.id, step.attempt))
        assert task is not None
        return task

    def status(self, workflow_id: str) -> str:
        row = self.store.load_workflow(workflow_id)
        return "" if row is None else row.status

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()
        self.store.close()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Deployment]:
    deployment = Deployment(tmp_path)
    yield deployment
    deployment.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_a_handler_lets_it_finish_and_answer(shop: Deployment, number: signal.Signals) -> None:
    shop.start("17")
    process = shop.runner("--handlers", str(shop.handlers))
    eventually(shop.has("began"), 60)

    process.send_signal(number)
    eventually(lambda: shop.servers()[0].state == ServerState.SHUTDOWN, 30)
    # Nothing new is begun meanwhile.
    shop.start("18")
    (shop.folder / "go").touch()

    assert process.wait(60) == 0
    assert (shop.status("17"), shop.task("17").state) == ("COMPLETED", TaskState.COMPLETED)
    assert (shop.status("18"), shop.task("18").state) == ("PAUSED", TaskState.PENDING)
    (server,) = shop.servers()
    assert (server.state, server.error) == (ServerState.SHUTDOWN, None)
    assert [(count.handler, count.handled) for count in server.handled] == [("shop.Pay", 1)]


def test_a_handler_that_outlasts_the_shutdown_timeout_is_left_and_its_task_given_back(shop: Deployment) -> None:
    shop.start("17")
    process = shop.runner("--handlers", str(shop.handlers), "--shutdown-timeout", "100")
    eventually(shop.has("began"), 60)
    process.send_signal(signal.SIGTERM)

    _, said = process.communicate(timeout=60)

    assert process.returncode == 1
    assert "1 tasks took longer than the shutdown timeout and were given back" in said
    assert (shop.task("17").state, shop.servers()[0].state) == (TaskState.PENDING, ServerState.SHUTDOWN)


def test_a_runner_that_ends_idle_names_the_facets_whose_events_nobody_answers(shop: Deployment) -> None:
    shop.start("17")

    _, said = shop.runner("--until-idle").communicate(timeout=60)

    assert "shop.Pay: an event waits for an answer, since 2" in said
    assert f"step {shop.task('17').step_id}, attempt 1" in said
    assert "--handlers MODULE" in said


def test_a_runner_that_ends_idle_says_nothing_when_all_is_answered(shop: Deployment) -> None:
    shop.start("17")
    (shop.folder / "go").touch()

    _, said = shop.runner("--until-idle", "--handlers", str(shop.handlers)).communicate(timeout=60)

    assert shop.status("17") == "COMPLETED"
    assert "answer" not in said


#: Has a thread of the kind that Python waits for at its end.
ELSEWHERE = """
import asyncio, paying
FACET = "shop.Pay"
async def handle(payload):
    return await asyncio.to_thread(paying.handle, payload)
"""


def test_a_thread_that_a_handler_left_behind_does_not_keep_the_process(shop: Deployment) -> None:
    shop.start("17")
    elsewhere = shop.folder / "elsewhere.py"
    elsewhere.write_text(ELSEWHERE)
    process = shop.runner("--handlers", str(elsewhere), "--shutdown-timeout", "100")
    eventually(shop.has("began"), 60)
    process.send_signal(signal.SIGTERM)

    # The handler would go on for ever.
    _, said = process.communicate(timeout=30)

    assert process.returncode == 1
    assert "handlers whose time was up are still running; the process ends anyway" in said
    assert shop.task("17").state == TaskState.PENDING


def test_a_second_signal_ends_it_at_once(shop: Deployment) -> None:
    shop.start("17")
    process = shop.runner("--handlers", str(shop.handlers))
    eventually(shop.has("began"), 60)

    process.send_signal(signal.SIGTERM)
    eventually(lambda: shop.servers()[0].state == ServerState.SHUTDOWN, 30)
    process.send_signal(signal.SIGTERM)

    assert process.wait(30) == 128 + signal.SIGTERM
    assert shop.status("17") == "PAUSED"


def test_what_a_killed_runner_had_claimed_is_taken_over_within_seconds_and_it_is_seen_to_be_gone(
    shop: Deployment, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.start("17")
    dead = shop.runner("--handlers", str(shop.handlers), "--lock-duration", "1500")
    eventually(shop.has("began"), 60)
    dead.kill()
    dead.wait(30)
    (died,) = shop.servers()
    (shop.folder / "go").touch()

    shop.runner("--handlers", str(shop.handlers), "--lock-duration", "1500")
    eventually(lambda: shop.status("17") == "COMPLETED", 60)

    monkeypatch.setenv("AFL_STORE_PATH", str(shop.folder / "store.db"))
    eventually(lambda: listed(capsys)[died.uuid] == ("running", True), 30)
    heir = next(server.uuid for server in shop.servers() if server.uuid != died.uuid)
    assert listed(capsys)[heir] == ("running", False)


def test_a_task_that_asks_for_a_workflow_is_enough(shop: Deployment) -> None:
    shop.store.commit_batch(Batch(programs={shop.program.fingerprint: shop.program.text}))
    (shop.folder / "go").touch()
    data = {"flow_id": shop.program.fingerprint, "workflow_name": "Buy", "inputs": {"order": "17"}}
    shop.store.save_task(TaskDefinition("t1", "afl:execute", "", "", "", "", data=dict(data)))

    shop.runner("--handlers", f"{shop.handlers}=shop.Pay", "--topics", "shop.Pay", "shop.Ship")

    eventually(lambda: shop.status("t1") == "COMPLETED", 60)


def test_a_runner_without_its_handlers_says_so_on_stderr_and_in_the_list_of_servers(shop: Deployment) -> None:
    process = shop.runner("--handlers", "no.such.module")

    _, said = process.communicate(timeout=60)

    assert process.returncode == 1
    assert "no.such.module" in said
    (server,) = shop.servers()
    assert server.state == ServerState.ERROR
    assert server.error is not None
    assert "no.such.module" in str(server.error["message"])


def test_a_runner_whose_store_is_nowhere_says_how_to_name_one(shop: Deployment) -> None:
    process = shop.runner(store=False)

    _, said = process.communicate(timeout=60)

    assert process.returncode == 2
    assert "--store" in said


def listed(capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[str, bool]]:
    """Return the state of each server, and whether it is stale."""
    capsys.readouterr()
    assert afl_stream(["servers", "--json"]) == 0
    return {server["uuid"]: (server["state"], server["stale"]) for server in json.loads(capsys.readouterr().out)}
