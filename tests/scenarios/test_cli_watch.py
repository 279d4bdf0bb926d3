"""`afl-stream watch`: a run up to its end, which the exit code tells, and all runs until Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.scenarios.command_lines import Called, CommandLine
from tests.worlds.processes import DEADLINE_S


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys)


def completed(command_line: CommandLine, run: str = "w1") -> None:
    words = ("--handlers", command_line.handlers, "--input", 'hosts=["a","bb"]', "--id", run)
    assert command_line("dev", command_line.program, *words).code == 0


def kinds(called: Called) -> list[str]:
    return [json.loads(line)["kind"] for line in called.out.splitlines()]


def test_a_run_that_has_completed_is_shown_from_its_start_and_ends_with_0(command_line: CommandLine) -> None:
    completed(command_line)

    called = command_line("watch", "w1")

    assert called.code == 0
    lines = called.out.splitlines()
    assert lines[0].split()[1:] == ["workflow.started", "net.Watch"]
    assert lines[-1].split()[1:3] == ["workflow.completed", "net.Watch"]
    assert sum("step.started  net.Ping" in line for line in lines) == 2
    assert sum("step.completed  net.Ping" in line for line in lines) == 2
    # As wide as a terminal that nobody has set.
    assert all(len(line) <= 80 for line in lines)


def test_json_has_a_line_for_each_milestone(command_line: CommandLine) -> None:
    completed(command_line)

    called = command_line("watch", "w1", "--json")

    assert called.code == 0
    assert kinds(called)[0] == "workflow.started"
    assert kinds(called)[-1] == "workflow.completed"
    last = json.loads(called.out.splitlines()[-1])
    assert (last["workflow_id"], last["outputs"]) == ("w1", {"label": "none", "times": [1, 2]})


def test_a_failed_run_and_a_cancelled_one_end_with_1_and_say_why(command_line: CommandLine) -> None:
    command_line.waiting()
    (step,) = command_line.steps("w1", "net.Note")
    command_line("fail", step, "--message", "no paper")
    command_line("evaluator", "--until-idle")

    failed = command_line("watch", "w1")
    assert failed.code == 1
    assert "step.failed  net.Note" in failed.out
    assert "no paper" in failed.out.splitlines()[-1]
    assert failed.out.splitlines()[-1].split()[1] == "workflow.error"

    command_line("dev", command_line.program, "--input", "hosts=[]", "--id", "w2")
    command_line("cancel", "w2")
    command_line("evaluator", "--until-idle")
    cancelled = command_line("watch", "w2")
    assert cancelled.code == 1
    assert cancelled.out.splitlines()[-1].split()[1] == "workflow.cancelled"


def test_a_run_that_does_not_end_in_time_ends_with_4(command_line: CommandLine) -> None:
    command_line.waiting()

    called = command_line("watch", "w1", "--timeout", "0.5")

    assert called.code == 4
    assert "step.started  net.Note" in called.out


def test_a_run_that_nobody_knows_is_waited_for_and_said_so(command_line: CommandLine) -> None:
    command_line.waiting()

    called = command_line("watch", "w7", "--timeout", "0.5")

    assert called.code == 4
    assert "nothing is known of a run w7 yet; waiting for its start" in called.err


def test_all_runs_of_a_time_are_shown_with_their_ids(command_line: CommandLine) -> None:
    completed(command_line, "w1")
    completed(command_line, "w2")

    everything = command_line("watch", "--from", "beginning", "--timeout", "0")
    assert everything.code == 0
    assert [line.split()[1:3] for line in everything.out.splitlines()] == [
        ["w1", "workflow.started"], ["w1", "workflow.completed"],
        ["w2", "workflow.started"], ["w2", "workflow.completed"],
    ]  # fmt: skip
    assert command_line("watch", "--from", "1h", "--timeout", "0").out == everything.out
    assert command_line("watch", "--timeout", "0").out == ""


def test_where_to_begin_is_for_all_runs(command_line: CommandLine) -> None:
    called = command_line("watch", "w1", "--from", "beginning")

    assert called.code == 2
    assert "--from is for all runs" in called.err


def test_without_a_store_it_says_what_to_do(command_line: CommandLine) -> None:
    called = command_line("watch")

    assert called.code == 3
    assert "afl-stream dev FILE.afl runs a file at once" in called.err


@pytest.mark.parametrize("run", [(), ("w1",)])
def test_ctrl_c_ends_it_with_130(command_line: CommandLine, run: tuple[str, ...]) -> None:
    command_line.waiting()
    process = command_line.process("watch", *run)
    assert process.stderr is not None
    assert "Ctrl-C ends it" in process.stderr.readline()

    process.send_signal(signal.SIGINT)

    _, said = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert "Ctrl-C: ends when this is done: closing the reader; no run is touched" in said


def test_a_run_is_watched_while_dev_runs_it(command_line: CommandLine) -> None:
    release = command_line.folder / "go"
    os.mkfifo(release)
    command_line.handlers = command_line.file(
        "slow_handlers.py",
        f"""
import pathlib

def note(payload):
    return {{"ok": pathlib.Path({str(release)!r}).read_text() == "go"}}

def register_handlers(runner):
    runner.register("net.Ping", lambda payload: {{"ms": 1}})
    runner.register("net.Note", note)
""",
    )
    words = ("--handlers", command_line.handlers, "--input", "hosts=[]", "--id", "w1")
    dev = command_line.process("dev", command_line.program, *words)
    eventually(lambda: (command_line.data_dir / "store.sqlite3").exists(), DEADLINE_S)
    eventually(lambda: command_line("watch", "w1", "--timeout", "0.3").out.count("step.started") == 1, DEADLINE_S)
    watch = command_line.process("watch", "w1")
    assert watch.stdout is not None
    first = [watch.stdout.readline().split()[1] for _ in range(2)]

    release.write_text("go")

    rest, _ = watch.communicate(timeout=DEADLINE_S)
    dev.communicate(timeout=DEADLINE_S)
    assert first == ["workflow.started", "step.started"]
    assert [line.split()[1] for line in rest.splitlines()] == ["step.completed", "workflow.completed"]
    assert (watch.returncode, dev.returncode) == (0, 0)
