"""The command line as real processes: one after another on one embedded log, and stopped by signals."""

import json
import signal
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.scenarios.command_lines import CommandLine

_SLOW_HANDLERS = """
import pathlib, threading
def ping(payload):
    pathlib.Path(__file__).with_name("ping-began").touch()
    threading.Event().wait(0.5)
    return {"ms": 7}
def register_handlers(runner):
    runner.register("net.Ping", ping)
    runner.register("net.Note", lambda payload: {"ok": True})
"""


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys)


def test_processes_one_after_another_bring_a_run_to_its_end(command_line: CommandLine) -> None:
    run = command_line.run
    codes = [
        run("topics", "apply", command_line.program).code,
        run("deploy", command_line.program).code,
        run("start", "Watch", "--input", 'hosts=["a", "bbb"]', "--id", "w1").code,
        run("evaluator", "--until-idle").code,
        run("agent", "--handlers", command_line.handlers, "--until-idle").code,
        run("evaluator", "--until-idle").code,
    ]
    status = run("status", "w1", "--json")

    assert codes == [0] * 6
    assert (status.document["status"], status.document["outputs"]) == ("COMPLETED", {"times": [1, 3], "label": "none"})


def test_a_second_process_goes_through_the_one_that_holds_the_log(command_line: CommandLine) -> None:
    command_line.deployed()
    holder = command_line.process("evaluator")
    assert holder.stderr is not None
    assert "Ctrl-C" in holder.stderr.readline()

    second = command_line.run("start", "Watch", "--input", "hosts=[]", "--id", "w1")
    status = command_line.run("status", "w1", "--json")

    holder.send_signal(signal.SIGTERM)
    holder.communicate()
    assert (second.code, "an evaluator has accepted it" in second.err) == (0, True)
    assert (status.code, status.document["status"]) == (0, "WAITING")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("words", [("evaluator",), ("agent", "--handlers", "handlers_of_watch.py"), ("audit",)])
def test_a_service_ends_with_0_when_it_is_told_to(
    words: tuple[str, ...], number: signal.Signals, command_line: CommandLine
) -> None:
    command_line.deployed()
    service = command_line.process(*words)
    assert service.stderr is not None
    assert "Ctrl-C" in service.stderr.readline()

    service.send_signal(number)
    _, err = service.communicate()

    assert service.returncode == 0
    assert "Traceback" not in err


def test_dev_finishes_and_answers_what_runs_when_it_is_told_to_end(command_line: CommandLine) -> None:
    handlers = command_line.file("slow.py", _SLOW_HANDLERS)
    dev = command_line.process(
        "dev", command_line.program, "--handlers", handlers, "--input", 'hosts=["a"]', "--id", "w1"
    )
    eventually(lambda: (command_line.folder / "ping-began").exists())

    dev.send_signal(signal.SIGTERM)
    _, err = dev.communicate()
    command_line("evaluator", "--until-idle")

    assert dev.returncode == 0
    assert "Traceback" not in err
    assert command_line("status", "w1", "--json").document["outputs"] == {"times": [7], "label": "none"}


def test_a_reader_that_goes_away_ends_the_audit_without_a_word(command_line: CommandLine) -> None:
    command_line("dev", command_line.program, "--input", f"hosts={json.dumps([str(n) for n in range(2000)])}")
    audit = command_line.process("audit", "--from-beginning", "--until-idle")
    assert audit.stdout is not None
    audit.stdout.readline()
    audit.stdout.close()
    audit.stdout = None
    _, err = audit.communicate()

    assert audit.returncode == 130
    assert "Traceback" not in err


def test_a_wait_that_is_interrupted_says_so_and_the_run_stays(command_line: CommandLine) -> None:
    handlers = command_line.file("slow.py", _SLOW_HANDLERS)
    command_line.deployed()
    waits = command_line.process(
        "start", "Watch", "--input", 'hosts=["a"]', "--id", "w1", "--wait", "--handlers", handlers
    )
    eventually(lambda: (command_line.folder / "ping-began").exists())

    waits.send_signal(signal.SIGINT)
    out, err = waits.communicate()

    assert waits.returncode == 130
    assert "interrupted" in out
    assert "Traceback" not in err
    assert command_line("status", "w1", "--json").document["status"] in ("WAITING", "COMPLETED")


def test_dev_that_stays_continues_after_the_end_of_its_run(command_line: CommandLine) -> None:
    dev = command_line.process(
        "dev", command_line.program, "--handlers", command_line.handlers, "--input", "hosts=[]", "--stay"
    )
    assert dev.stderr is not None
    while "Ctrl-C" not in dev.stderr.readline():
        assert dev.poll() is None

    dev.send_signal(signal.SIGTERM)
    out, _ = dev.communicate()

    assert dev.returncode == 0
    assert "net.Watch completed" in out
