"""A runner on a MongoDB store: published flows are started, tasks done, lost wake-ups found, and servers listed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from afl.config import AFLConfig, MongoDBConfig
from afl.engine.model.entities import RunnerState, TaskDefinition, TaskState
from afl.publisher import SourcePublisher
from afl.runtime import Evaluator, MongoStore, RunnerConfig, RunnerService, ToolRegistry
from afl.source import CompilerInput, FileOrigin, SourceEntry
from afl.workers.service.deployment import PublishedFlows
from afl_stream.cli import main as afl_stream
from tests.unit.workers.runner_shop import answered_from_afar, run_record
from tests.unit.workers.workshop import PROGRAM, Workshop, pay, started


@pytest.fixture
def database(mongodb_of_either_kind: MongoDBConfig) -> MongoDBConfig:
    return mongodb_of_either_kind


@pytest.fixture
def shop(database: MongoDBConfig) -> Iterator[Workshop]:
    workshop = Workshop(MongoStore.from_config(database))  # type: ignore[arg-type]  # any store will do
    yield workshop
    workshop.store.close()


def runner_of(shop: Workshop, database: MongoDBConfig) -> RunnerService:
    registry = ToolRegistry()
    registry.register("shop.Pay", pay)
    config = RunnerConfig(poll_interval_ms=20, http_host="127.0.0.1", http_port=0)
    return RunnerService(shop.store, Evaluator(shop.store), config, registry, flows=PublishedFlows(database))


def test_a_published_flow_is_started_by_a_task(shop: Workshop, database: MongoDBConfig) -> None:
    publisher = SourcePublisher(AFLConfig(mongodb=database))
    published = publisher.publish(CompilerInput([SourceEntry(PROGRAM, FileOrigin("shop.afl"))]))
    shop.store.save_runner(run_record())
    data = {"flow_id": published.flow_id, "workflow_name": "Buy", "inputs": {"order": "17"}, "runner_id": "run-1"}
    shop.store.save_task(TaskDefinition("t1", "afl:execute", "run-1", "", published.flow_id, "", data=dict(data)))

    assert runner_of(shop, database).run_once() == 2

    assert shop.outputs("t1") == {"receipt": "r-17"}
    run = shop.store.get_runner("run-1")
    assert run is not None
    assert run.state == RunnerState.COMPLETED
    assert [found.uuid for found in shop.store.get_runners_by_state(RunnerState.COMPLETED)] == ["run-1"]


def test_a_step_whose_wake_up_was_lost_continues(shop: Workshop, database: MongoDBConfig) -> None:
    shop.start("Buy", order="17")
    answered_from_afar(shop)

    runner_of(shop, database).run_once()

    assert shop.outputs() == {"receipt": "from afar"}
    assert shop.task().state == TaskState.COMPLETED


def test_a_running_service_is_listed(
    shop: Workshop, database: MongoDBConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    where, mark, options = database.connection_string().partition("?")
    monkeypatch.setenv("AFL_STORE_URL", f"{where.rstrip('/')}/{database.database}{mark}{options}")
    runner = runner_of(shop, database)
    with started(shop, runner):
        assert afl_stream(["servers", "--json"]) == 0
        (server,) = json.loads(capsys.readouterr().out)

    assert (server["uuid"], server["state"], server["stale"]) == (runner.server_id, "running", False)
    assert server["handlers"] == ["shop.Pay", "afl:execute"]
