"""The command line of a runner, and what it is asked for: settings, stores, flows, workflows."""

from __future__ import annotations

from pathlib import Path

import pytest

from afl.compiled.program import CompiledProgram, UnknownName
from afl.engine.model.entities import RunnerState
from afl.engine.types import Value
from afl.runtime import Evaluator, MemoryStore, RunnerConfig, RunnerService, SqliteStore
from afl.workers.service import WorkflowIdTaken, request_workflow
from afl.workers.service.__main__ import _config, _parser, main
from afl.workers.service.deployment import NoStoreNamed, mongodb_config, open_store
from tests.unit.workers.runner_shop import run_record
from tests.unit.workers.workshop import Workshop, pay

_VARIABLES = ("AFL_STORE_URL", "AFL_STORE_PATH", "AFL_PREFIX", "AFL_CONFIG", "AFL_MONGODB_URL")


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)


def settings(*words: str) -> RunnerConfig:
    return _config(_parser().parse_args(words))


def test_without_options_a_runner_has_its_defaults() -> None:
    assert settings() == RunnerConfig()


def test_options_are_settings() -> None:
    config = settings(
        "--server-group", "till", "--service-name", "pays", "--server-name", "n1", "--topics", "shop.*", "Pay",
        "--task-list", "fast", "--poll-interval", "1", "--heartbeat-interval", "2", "--max-concurrent", "3",
        "--lock-duration", "4", "--shutdown-timeout", "5", "--host", "::1", "--port", "0",
    )  # fmt: skip

    assert config == RunnerConfig(
        server_group="till",
        service_name="pays",
        server_name="n1",
        topics=["shop.*", "Pay"],
        task_list="fast",
        poll_interval_ms=1,
        heartbeat_interval_ms=2,
        max_concurrent=3,
        lock_duration_ms=4,
        shutdown_timeout_ms=5,
        http_host="::1",
        http_port=0,
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--poll-interval", "0"], "0 is not 1 or more"),
        (["--max-concurrent", "few"], "'few' is not a whole number"),
        (["--port", "http"], "'http' is not a whole number"),
        (["--port", "70000"], "70000 is not a port: 0 to 65535"),
        (["--unheard-of"], "unrecognized arguments: --unheard-of"),
    ],
)
def test_wrong_usage_ends_with_2(words: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)

    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert "usage: python -m afl.workers.service" in said
    assert reason in said


def test_the_store_is_the_one_that_is_named_else_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFL_STORE_PATH", str(tmp_path / "environment.db"))
    monkeypatch.setenv("AFL_PREFIX", "shop.")

    for named in (str(tmp_path / "named.db"), None):
        store = open_store(named, None, None)
        assert store.prefix() == "shop."
        store.close()

    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["environment.db", "named.db"]


def test_where_nothing_names_a_store_it_is_said_how_to() -> None:
    with pytest.raises(NoStoreNamed, match="AFL_STORE_PATH"):
        open_store(None, None, None)


def test_a_configuration_file_names_the_mongodb_of_flows(tmp_path: Path) -> None:
    file = tmp_path / "afl.config.json"
    file.write_text('{"mongodb": {"url": "mongodb://db:27017", "database": "shop"}}')

    assert mongodb_config(None) is None
    found = mongodb_config(str(file))
    assert found is not None
    assert (found.url, found.database) == ("mongodb://db:27017", "shop")


def test_a_workflow_that_is_asked_for_is_started_once_and_under_the_id_that_was_given() -> None:
    shop = Workshop(MemoryStore())
    first = request_workflow(shop.store, shop.program, "Buy", {"order": "17"}, workflow_id="o-17", run=run_record())
    again = request_workflow(shop.store, shop.program, "Buy", {"order": "17"}, workflow_id="o-17")
    runner = RunnerService(shop.store, Evaluator(shop.store))
    runner._tool_registry.register("Pay", pay)

    assert first == again
    assert runner.run_once() == 2
    assert request_workflow(shop.store, shop.program, "Buy", {"order": "17"}, workflow_id="o-17").state == "completed"
    assert runner.run_once() == 0
    assert shop.outputs("o-17") == {"receipt": "r-17"}
    run = shop.store.get_runner("run-1")
    assert run is not None
    assert run.state == RunnerState.COMPLETED


@pytest.mark.parametrize(("workflow", "inputs"), [("Buy", {"order": "18"}), ("Chain", {"order": "17"})])
def test_something_else_cannot_be_asked_for_under_an_id_that_is_taken(workflow: str, inputs: dict[str, Value]) -> None:
    shop = Workshop(MemoryStore())
    request_workflow(shop.store, shop.program, "Buy", {"order": "17"}, workflow_id="o-17")

    with pytest.raises(WorkflowIdTaken, match=f"shop.{workflow} cannot be requested as o-17.*choose another"):
        request_workflow(shop.store, shop.program, workflow, inputs, workflow_id="o-17", run=run_record())

    assert shop.store.get_runner("run-1") is None


def test_ids_that_are_drawn_differ() -> None:
    shop = Workshop(MemoryStore())

    ids = {request_workflow(shop.store, shop.program, "Buy", {"order": "17"}).uuid for _ in range(3)}

    assert len(ids) == 3


def test_what_the_program_does_not_declare_is_not_asked_for() -> None:
    shop = Workshop(MemoryStore())

    with pytest.raises(UnknownName, match="Buy"):
        request_workflow(shop.store, CompiledProgram(shop.program.tree), "Bu")


def test_until_idle_does_what_waits_and_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    handlers = tmp_path / "paying.py"
    handlers.write_text("FACET = 'shop.Pay'\ndef handle(payload):\n    return {'receipt': 'r'}\n")
    shop = Workshop(SqliteStore(tmp_path / "store.db"))
    request_workflow(shop.store, shop.program, "Buy", {"order": "17"}, workflow_id="o-17")

    code = main(["--store", str(tmp_path / "store.db"), "--handlers", str(handlers), "--until-idle"])

    assert code == 0
    assert shop.outputs("o-17") == {"receipt": "r"}
    shop.store.close()


def test_handlers_are_named_as_for_an_agent(tmp_path: Path) -> None:
    handlers = tmp_path / "paying.py"
    handlers.write_text("def charge(payload):\n    return {'receipt': payload['_facet_name']}\n")
    shop = Workshop(SqliteStore(tmp_path / "store.db"))
    request_workflow(shop.store, shop.program, "Buy", {"order": "17"}, workflow_id="o-17")

    code = main(
        ["--store", str(tmp_path / "store.db"), "--handlers", f"{handlers}:charge=shop.Pay, shop.Ship", "--until-idle"]
    )

    assert code == 0
    assert shop.outputs("o-17") == {"receipt": "shop.Pay"}
    shop.store.close()


@pytest.mark.parametrize(
    ("handlers", "reason"),
    [
        ("nowhere.to.be.found", "error: handler module nowhere.to.be.found: there is no module nowhere; "),
        ("paying=shop Pay", "error: handler module paying=shop Pay: 'shop Pay' is not a facet name; "),
    ],
)
def test_handlers_that_cannot_be_had_are_named_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], handlers: str, reason: str
) -> None:
    assert main(["--store", str(tmp_path / "store.db"), "--handlers", handlers, "--until-idle"]) == 1

    assert reason in capsys.readouterr().err


def test_what_a_runner_of_a_task_list_starts_is_asked_on_that_list(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    shop = Workshop(SqliteStore(path))
    request_workflow(shop.store, shop.program, "Buy", {"order": "17"}, workflow_id="o-17", task_list="fast")
    handlers = tmp_path / "paying.py"
    handlers.write_text('FACET = "shop.Pay"\ndef handle(payload):\n    return {"receipt": "r-" + payload["order"]}\n')

    assert main(["--store", str(path), "--handlers", str(handlers), "--task-list", "fast", "--until-idle"]) == 0

    assert shop.outputs("o-17") == {"receipt": "r-17"}
    shop.store.close()
