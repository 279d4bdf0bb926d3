"""`afl-stream servers`: who works on the store, and who has stopped saying that it does."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from afl.engine.model.entities import HandledCount, ServerDefinition, ServerState
from afl.stores.sqlite.store import SqliteStore
from tests.scenarios.command_lines import CommandLine

_HOUR_MS = 3_600_000


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    # Parallel test runs set it to 80, where cells are folded.
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return CommandLine(tmp_path, capsys)


def server(name: str, state: str, now_ms: int, seen_ms_ago: int, **fields: object) -> ServerDefinition:
    start_ms = now_ms - 2 * _HOUR_MS
    found = ServerDefinition(name, "till", "pays", "n1", start_time=start_ms, ping_time=now_ms - seen_ms_ago)
    found.state = state
    for field, value in fields.items():
        setattr(found, field, value)
    return found


@pytest.fixture
def listed(command_line: CommandLine) -> CommandLine:
    """Return a store with servers of each kind."""
    command_line.data_dir.mkdir()
    store = SqliteStore(command_line.data_dir / "store.sqlite3")
    counts = [HandledCount("shop.Pay", 1_200, 3), HandledCount("shop.Ship", 34, 1)]
    # All of one moment: what started later would come first.
    now_ms = time.time_ns() // 1_000_000
    for found in (
        server("gone-long-ago", ServerState.SHUTDOWN, now_ms, 30 * _HOUR_MS),
        server(
            "broken", ServerState.ERROR, now_ms, 20_000, error={"type": "StoreCorrupt", "message": "page 7 is torn"}
        ),
        server("silent", ServerState.RUNNING, now_ms, 31_000),
        server("patient", ServerState.RUNNING, now_ms, 31_000, heartbeat_interval_ms=60_000),
        server("alive", ServerState.RUNNING, now_ms, 1_000, handlers=["shop.Pay", "shop.Ship"], handled=counts),
        server("done", ServerState.SHUTDOWN, now_ms, 31_000),
    ):
        store.save_server(found)
    store.close()
    return command_line


def test_the_living_come_first_and_the_silent_are_called_stale(listed: CommandLine) -> None:
    found = listed("servers", "--json")

    assert found.code == 0
    assert [(server["uuid"], server["state"], server["stale"]) for server in found.document] == [
        ("patient", "running", False),
        ("alive", "running", False),
        ("silent", "running", True),
        ("broken", "error", False),
        ("done", "shutdown", False),
    ]


def test_people_see_handlers_counts_and_what_a_server_died_of(listed: CommandLine) -> None:
    found = listed("servers")

    lines = {line.split()[0]: line for line in found.out.splitlines() if line.strip()}
    assert "shop.Pay, shop.Ship" in lines["alive"]
    assert lines["alive"].split()[-2:] == ["1,234", "4"]
    assert "stale" in lines["silent"]
    assert "page 7 is torn" in lines["broken"]
    assert "gone-long-ago" not in lines
    assert "1 that ended more than a day ago are not shown" in found.err


def test_all_are_listed_when_asked_for(listed: CommandLine) -> None:
    found = listed("servers", "--all")

    assert "gone-long-ago" in found.out
    assert found.err == ""


def test_an_evaluator_is_a_server_too(command_line: CommandLine) -> None:
    command_line.deployed()
    assert command_line("evaluator", "--until-idle").code == 0

    (evaluator,) = command_line("servers", "--json").document

    assert (evaluator["service_name"], evaluator["state"]) == ("afl-evaluator", "shutdown")


def test_an_agent_that_follows_the_registry_is_a_server_too(command_line: CommandLine) -> None:
    command_line.deployed()
    module = command_line.file("pinging.py", "FACET = 'net.Ping'\ndef handle(payload):\n    return {'ms': 1}\n")
    assert command_line("handlers", "register", module).code == 0
    assert command_line("agent", "--registry", "--until-idle").code == 0

    (agent,) = command_line("servers", "--json").document

    assert (agent["service_name"], agent["state"], agent["handlers"]) == ("afl-agent", "shutdown", ["net.Ping"])
    assert agent["handled"] == []


def test_an_agent_that_follows_the_registry_tells_what_it_handled(command_line: CommandLine) -> None:
    command_line.deployed()
    lines = "FACET = 'net.Ping'\ndef handle(payload):\n    return {'ms': 1 / len(payload['host']) and 1}\n"
    assert command_line("handlers", "register", command_line.file("pinging.py", lines)).code == 0
    command_line("start", "Watch", "--input", 'hosts=["a", "b", ""]', "--id", "w1")
    command_line("evaluator", "--until-idle")
    command_line("agent", "--registry", "--until-idle")

    agent = next(found for found in command_line("servers", "--json").document if found["service_name"] == "afl-agent")

    assert agent["handled"] == [{"handler": "net.Ping", "handled": 2, "not_handled": 1}]


def test_a_store_without_servers_is_no_error(command_line: CommandLine) -> None:
    command_line.data_dir.mkdir()
    SqliteStore(command_line.data_dir / "store.sqlite3").close()

    assert command_line("servers").code == 0
    assert command_line("servers", "--json").document == []


def test_without_a_store_it_is_said_where_one_comes_from(command_line: CommandLine) -> None:
    found = command_line("servers")

    assert found.code == 3
    assert "evaluator" in found.err
