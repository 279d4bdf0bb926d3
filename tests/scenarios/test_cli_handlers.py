"""Handlers registered in the store from the command line, and an agent that handles what is registered."""

import json
from pathlib import Path

import pytest

from tests.scenarios.command_lines import CommandLine

PINGS = """
FACET = "net.Ping"
def handle(payload):
    return {"ms": len(payload["host"]) + payload.get("_handler_metadata", {}).get("more", 0)}
"""
REGISTERING = """
def note(payload):
    return {"ok": True}
def register_handlers(runner):
    runner.register_handler(facet_name="net.Note", module_uri=__file__, entrypoint="note", timeout_ms=1500)
"""


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine(tmp_path, capsys)


def test_an_agent_handles_what_was_registered(command_line: CommandLine) -> None:
    command_line.deployed()
    pings = command_line.file("pings.py", PINGS)
    notes = command_line.file("notes.py", REGISTERING)

    registered = command_line("handlers", "register", pings, notes, "--metadata", '{"more": 10}', "--json")
    started = command_line("start", "Watch", "--input", 'hosts=["a", "bbb"]', "--id", "w1")
    command_line("evaluator", "--until-idle")
    agent = command_line("agent", "--registry", "--until-idle", "--refresh", "0")
    command_line("evaluator", "--until-idle")
    status = command_line("status", "w1", "--json")

    assert (registered.code, started.code, agent.code) == (0, 0, 0)
    assert registered.document == ["net.Ping", "net.Note"]
    assert "agent for net.Note, net.Ping" in agent.err
    assert (status.document["status"], status.document["outputs"]) == (
        "COMPLETED",
        {"times": [11, 13], "label": "none"},
    )


def test_an_agent_handles_nothing_of_a_folder_that_is_not_allowed(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    command_line.deployed()
    marked = command_line.folder / "ran"
    pings = command_line.file("pings.py", f"import pathlib\npathlib.Path({str(marked)!r}).touch()\n{PINGS}")
    registered = command_line("handlers", "register", pings)
    marked.unlink()
    command_line("start", "Watch", "--input", 'hosts=["a"]', "--id", "w1")
    command_line("evaluator", "--until-idle")
    monkeypatch.setenv("AFL_AGENT_ALLOWED_HANDLERS", "shop, ./elsewhere")
    again = command_line("handlers", "register", pings)
    marked.unlink()
    agent = command_line("agent", "--registry", "--until-idle", "--refresh", "0")

    assert "not allowed" not in registered.err
    assert "agents with these settings do not load pings.py" in again.err.replace(f"{command_line.folder}/", "")
    assert "agent.allowed_handlers" in again.err
    assert (agent.code, marked.exists()) == (0, False)
    assert "agent for nothing yet" in agent.err


def test_the_registry_is_listed_and_what_is_removed_is_not_handled(command_line: CommandLine) -> None:
    command_line.deployed()
    pings = command_line.file("pings.py", PINGS)
    command_line("handlers", "register", pings, "--timeout", "0")
    command_line("handlers", "register", command_line.file("notes.py", REGISTERING))

    before = command_line("handlers", "list", "--json").document
    table = command_line("handlers", "list").out
    removed = command_line("handlers", "remove", "net.Note")
    after = command_line("handlers", "list", "--json").document

    assert [(r["facet_name"], r["entrypoint"], r["timeout_ms"]) for r in before] == [
        ("net.Note", "note", 1500),
        ("net.Ping", "handle", 0),
    ]
    assert before[1]["module_uri"] == Path(pings).as_uri()
    assert before[1]["created"] > 0
    assert "net.Ping" in table
    assert removed.code == 0
    assert [r["facet_name"] for r in after] == ["net.Ping"]


def test_a_retry_policy_is_registered_shown_and_used(command_line: CommandLine) -> None:
    command_line.deployed()
    failing = """
import pathlib
FACET = "net.Ping"
def handle(payload):
    with pathlib.Path("tried").open("a") as file:
        file.write("x")
    raise ConnectionError("away")
"""
    registered = command_line("handlers", "register", command_line.file("pings.py", failing), "--retry",
                              "attempts=3,backoff=0,jitter=0.5,on=OSError,not=builtins.TimeoutError")  # fmt: skip
    command_line("start", "Watch", "--input", 'hosts=["a"]', "--id", "w1")
    command_line("evaluator", "--until-idle")
    command_line("agent", "--registry", "--until-idle")
    listed = command_line("handlers", "list", "--json")

    assert registered.code == 0
    (shown,) = listed.document
    assert shown["retry"] == (
        "attempts=3, backoff=0, factor=2, max=60, jitter=0.5, on=OSError, not=builtins.TimeoutError"
    )
    assert (command_line.folder / "tried").read_text() == "xxx"


def test_a_retry_policy_that_is_none_is_refused_with_what_would_be_right(command_line: CommandLine) -> None:
    command_line.deployed()
    pings = command_line.file("pings.py", PINGS)

    for args in (("handlers", "register", pings), ("agent", "--handlers", pings)):
        refused = command_line(*args, "--retry", "attempts=3, jitter=2")
        assert refused.code == 2
        assert "jitter: found 2.0, expected a part of the wait, 0 to 1" in refused.err


def test_registering_a_changed_module_again_changes_its_checksum(command_line: CommandLine) -> None:
    pings = command_line.file("pings.py", PINGS)
    command_line("handlers", "register", pings)
    (first,) = command_line("handlers", "list", "--json").document
    command_line("handlers", "register", command_line.file("pings.py", PINGS + "\n# another\n"))
    (second,) = command_line("handlers", "list", "--json").document
    command_line("handlers", "register", pings, "--checksum", "mine")
    (third,) = command_line("handlers", "list", "--json").document

    assert first["checksum"] != second["checksum"]
    assert first["created"] == second["created"]
    assert third["checksum"] == "mine"


def test_what_cannot_be_registered_changes_nothing(command_line: CommandLine) -> None:
    pings = command_line.file("pings.py", PINGS)
    functions = command_line.file("functions.py", "def register_handlers(r): r.register('net.Note', lambda p: {})")
    broken = command_line.file("broken.py", "import nowhere_to_be_found")

    function = command_line("handlers", "register", pings, functions)
    module = command_line("handlers", "register", pings, broken)
    unknown = command_line("handlers", "register", f"{pings}=not a name")
    metadata = command_line("handlers", "register", pings, "--metadata", "[]")
    listed = command_line("handlers", "list")

    assert [called.code for called in (function, module, unknown, metadata)] == [2, 2, 2, 2]
    assert f"handler module {functions}: it registers a function object for net.Note" in function.err
    assert "cannot be stored" in function.err
    assert "nowhere_to_be_found" in module.err
    # Not even a store was made.
    assert listed.code == 3


def test_a_registration_that_is_not_there_is_named_with_near_ones(command_line: CommandLine) -> None:
    command_line("handlers", "register", command_line.file("pings.py", PINGS))

    called = command_line("handlers", "remove", "net.Pign")

    assert called.code == 3
    assert "did you mean net.Ping?" in called.err
    assert json.loads(command_line("handlers", "list", "--json").out)


def test_an_agent_is_told_what_to_handle(command_line: CommandLine) -> None:
    nothing = command_line("agent")
    pattern = command_line("agent", "--handlers", command_line.handlers, "--topics", "net.*")

    assert [nothing.code, pattern.code] == [2, 2]
    assert "--registry" in nothing.err
    assert "--topics goes with --registry" in pattern.err
