"""`afl-stream server` and commands in other processes, which use the log that it holds."""

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.scenarios.command_lines import HANDLERS, PROGRAM, CommandLine

#: Notes which pings began, and lets them end once there is a file `go`.
_GATED_HANDLERS = """
import pathlib, threading
here = pathlib.Path(__file__).parent
def ping(payload):
    with (here / "began").open("a") as file:
        file.write(payload["host"] + "\\n")
    while not (here / "go").exists():
        threading.Event().wait(0.02)
    return {"ms": len(payload["host"])}
def register_handlers(runner):
    runner.register("net.Ping", ping)
    runner.register("net.Note", lambda payload: {"ok": True})
"""
_DEADLINE_S = 60.0

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys)


@pytest.fixture
def start(command_line: CommandLine) -> Iterator[Start]:
    """Start a service and return it when it is at work; at the end all are killed."""
    services: list[subprocess.Popen[str]] = []

    def started(*words: str) -> subprocess.Popen[str]:
        service = command_line.process(*words)
        services.append(service)
        assert service.stderr is not None
        said = ""
        while "Ctrl-C" not in said:
            line = service.stderr.readline()
            assert line, f"{words} ended: {said}"
            said += line
        return service

    yield started
    for service in services:
        service.kill()
        service.communicate()


def test_agent_and_commands_in_other_processes_use_the_server(command_line: CommandLine, start: Start) -> None:
    server = start("server", command_line.program)
    waiting = command_line("start", "Watch", "--input", 'hosts=["a"]', "--id", "w1")
    refused = command_line("start", "Watch", "--input", 'hosts=["b"]', "--id", "w1")
    cancelled = command_line("start", "Watch", "--input", "hosts=[]", "--id", "w2")
    assert command_line("cancel", "w2").code == 0
    eventually(lambda: "CANCELLED" in command_line("status", "w2").out)
    (note,) = command_line.steps("w1", "net.Note")

    by_hand = command_line.run("continue", note, "--result", '{"ok": true}')
    agent = start("agent", "--handlers", command_line.handlers)
    ended = command_line.run("start", "Watch", "--input", 'hosts=["bb", "ccc"]', "--id", "w3", "--wait", "--json")
    eventually(lambda: command_line("status", "w1", "--json").document["status"] == "COMPLETED")

    for called in (waiting, cancelled):
        assert (called.code, "an evaluator has accepted it" in called.err) == (0, True)
    assert refused.code == 2
    assert (by_hand.code, ended.document["outputs"]) == (0, {"times": [2, 3], "label": "none"})
    assert command_line.run("dlq", "list").code == 0
    assert "afl.agent.net.Ping" in command_line("servers").out
    for service in (agent, server):
        service.send_signal(signal.SIGTERM)
        out, err = service.communicate()
        assert (service.returncode, "Traceback" in out + err) == (0, False)


def test_a_server_that_is_killed_in_the_middle_of_a_run_loses_nothing(command_line: CommandLine, start: Start) -> None:
    handlers = command_line.file("gated.py", _GATED_HANDLERS)
    server = start("server", command_line.program)
    start("agent", "--handlers", handlers)
    command_line("start", "Watch", "--input", 'hosts=["a", "bb", "ccc"]', "--id", "w1")
    eventually((command_line.folder / "began").exists, _DEADLINE_S)

    server.kill()
    server.wait()
    (command_line.folder / "go").touch()
    start("server")

    eventually(lambda: command_line("status", "w1", "--json").document["status"] == "COMPLETED", _DEADLINE_S)
    run = command_line("status", "w1", "--json").document
    assert run["outputs"] == {"times": [1, 2, 3], "label": "none"}
    assert {step["attempt"] for step in run["steps"] if step["facet"] in ("net.Ping", "net.Note")} == {1}
    assert len(command_line.steps("w1", "net.Ping")) == 3


def test_a_second_server_on_the_folder_is_told_who_holds_it(command_line: CommandLine, start: Start) -> None:
    server = start("server")

    second = command_line("server")
    dev = command_line("dev", command_line.program, "--input", "hosts=[]")

    for refused in (second, dev):
        assert refused.code == 3
        assert f"in use by process {server.pid}" in refused.err
        assert str(command_line.data_dir) in refused.err


def test_the_servers_pages_and_commands_see_the_same_run_to_its_end(command_line: CommandLine) -> None:
    server = command_line.process("server", command_line.program, "--json")
    try:
        assert server.stdout is not None
        found = ""
        while "}" not in found:
            found += server.stdout.readline()
        address = json.loads(found)["dashboard"]
        command_line("start", "Watch", "--input", "hosts=[]", "--id", "w1")

        def shown() -> str:
            with urllib.request.urlopen(f"{address}/api/runs", timeout=10) as response:
                (run,) = json.load(response)["workflows"]
            return str(run["status"])

        # The pages open the store a second time in the server's process, and commands come and go beside it.
        eventually(lambda: shown() == "WAITING", _DEADLINE_S)
        steps = command_line.run("status", "w1", "--json").document["steps"]
        (note,) = (step["step_id"] for step in steps if step["facet"] == "net.Note")
        command_line.run("continue", note, "--result", '{"ok": true}')

        eventually(lambda: command_line.run("status", "w1", "--json").document["status"] == "COMPLETED", _DEADLINE_S)
        assert shown() == "COMPLETED"
    finally:
        server.send_signal(signal.SIGTERM)
        _, err = server.communicate()
    assert (server.returncode, "Traceback" in err) == (0, False)


def test_a_server_says_where_it_is_and_what_to_type(command_line: CommandLine) -> None:
    process = command_line.process("server", command_line.program, "--json")
    assert process.stdout is not None
    found = ""
    while "}" not in found:
        line = process.stdout.readline()
        assert line, found
        found += line
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()

    document = json.loads(found)
    assert (document["pid"], document["data_dir"]) == (process.pid, str(command_line.data_dir))
    assert os.path.dirname(document["socket"]) == document["data_dir"]
    assert (process.returncode, "Traceback" in err) == (0, False)


def test_dev_says_which_answer_it_waits_for_and_takes_it_from_another_terminal(command_line: CommandLine) -> None:
    handlers = command_line.file(
        "by_hand.py",
        "from afl_stream import Deferred\n"
        "def register_handlers(runner):\n"
        "    runner.register('net.Ping', lambda payload: {'ms': 1})\n"
        "    runner.register('net.Note', lambda payload: Deferred())\n",
    )
    dev = command_line.process(
        "dev", command_line.program, "--handlers", handlers, "--input", 'hosts=["a"]', "--id", "w1"
    )
    assert dev.stderr is not None
    said = ""
    while "from another terminal: " not in said:
        line = dev.stderr.readline()
        assert line, said
        said += line

    (note,) = command_line.steps("w1", "net.Note")
    assert "w1 waits for answers that its handlers leave to others:\n  net.Note: an event waits for an answer" in said
    assert f"afl-stream continue {note} --result '{{\"ok\": <Boolean>}}'" in said
    answered = command_line("continue", note, "--result", '{"ok": true}')
    out, _ = dev.communicate(timeout=_DEADLINE_S)

    assert (answered.code, dev.returncode) == (0, 0)
    assert "net.Watch completed" in out


def test_dev_that_watches_takes_programs_and_handlers_anew_when_they_are_saved(
    command_line: CommandLine, start: Start
) -> None:
    start("dev", command_line.program, "--handlers", command_line.handlers, "--input", "hosts=[]", "--watch")

    def run_with_new_input() -> object:
        called = command_line("start", "Watch", "--input", 'hosts=["a"]', "--input", 'place="x"', "--wait", "--json")
        return called.code == 0 and called.document["outputs"] == {"times": [42], "label": "none"}

    command_line.file("watch.afl", PROGRAM + "garbage")
    command_line.file("handlers_of_watch.py", HANDLERS.replace('len(payload["host"])', "42"))
    assert command_line("start", "Watch", "--input", "hosts=[]", "--wait").code == 0
    command_line.file("watch.afl", PROGRAM.replace("hosts: [String], label", "hosts: [String], place: String, label"))

    eventually(run_with_new_input, _DEADLINE_S, interval_s=0.3)
