"""`afl-stream dev`, and what a person does to a run by hand."""

import json
from pathlib import Path

import pytest

from tests.scenarios.command_lines import PROGRAM, CommandLine

_FAILING_HANDLERS = """
def ping(payload):
    raise ValueError(f"no route to {payload['host']} \\x1b[2J")
def register_handlers(runner):
    runner.register("net.Ping", ping)
    runner.register("net.Note", lambda payload: {"ok": True})
"""


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys)


def test_dev_runs_the_only_workflow_and_shows_its_outputs(command_line: CommandLine) -> None:
    called = command_line(
        "dev", command_line.program, "--handlers", command_line.handlers, "--input", 'hosts=["a", "bb"]'
    )

    assert called.code == 0
    assert "net.Watch completed" in called.out
    assert "times = [1, 2]" in called.out


def test_dev_writes_one_document_for_programs(command_line: CommandLine) -> None:
    called = command_line(
        "dev", command_line.program, "--handlers", command_line.handlers, "--inputs", '{"hosts": ["a"]}', "--json"
    )

    assert (called.document["status"], called.document["outputs"]) == ("COMPLETED", {"times": [1], "label": "none"})
    assert (called.document["events"], called.document["answers"]) == (2, 2)
    assert called.err == ""


def test_dev_leaves_an_audit_file_with_every_record_once(command_line: CommandLine) -> None:
    command_line("dev", command_line.program, "--handlers", command_line.handlers, "--input", 'hosts=["a", "bb"]')

    lines = [json.loads(line) for line in (command_line.data_dir / "audit.jsonl").read_text().splitlines()]
    kinds = [line["kind"] for line in lines]
    assert {kind: kinds.count(kind) for kind in kinds} == {"command": 1, "event": 3, "answer": 3, "lifecycle": 2}
    assert len({(line["topic"], line["partition"], line["offset"]) for line in lines}) == len(lines)


def test_a_failed_run_is_told_with_its_first_cause_and_nothing_that_a_terminal_obeys(command_line: CommandLine) -> None:
    handlers = command_line.file("failing.py", _FAILING_HANDLERS)

    called = command_line("dev", command_line.program, "--handlers", handlers, "--input", 'hosts=["a"]', "--id", "w1")
    status = command_line("status", "w1")

    assert called.code == 1
    for out in (called.out, status.out):
        place = f"{command_line.program}:5:9"
        assert f"net.Watch.s[0].p (net.Ping, {place}) failed: ValueError: no route to a" in out
        assert "  5 |         p = Ping(host = $.h)\n    |         ^\n" in out
        assert "\x1b" not in out


def test_a_failed_run_of_a_file_that_has_changed_is_told_without_a_line_that_may_be_another(
    command_line: CommandLine,
) -> None:
    handlers = command_line.file("failing.py", _FAILING_HANDLERS)
    command_line("dev", command_line.program, "--handlers", handlers, "--input", 'hosts=["a"]', "--id", "w1")
    command_line.file("watch.afl", "// another line above\n" + PROGRAM)

    status = command_line("status", "w1")

    assert f"{command_line.program}:5:9) failed" in status.out
    assert "^" not in status.out
    assert command_line("status", "w1", "--json").document["error"]["place"] == f"{command_line.program}:5:9"


def test_the_evaluators_log_says_where_in_which_file_a_step_failed(command_line: CommandLine) -> None:
    handlers = command_line.file("failing.py", _FAILING_HANDLERS)

    called = command_line.run(
        "dev", command_line.program, "--handlers", handlers, "--input", 'hosts=["a"]', "--id", "w1", "-v"
    )

    assert f"workflow w1: net.Watch.s[0].p at {command_line.program}:5:9 failed: ValueError" in called.err


def test_without_handlers_dev_says_how_to_answer_and_answers_by_hand_bring_the_run_to_its_end(
    command_line: CommandLine,
) -> None:
    dev = command_line("dev", command_line.program, "--input", 'hosts=["a"]', "--id", "w1")
    (ping,) = command_line.steps("w1", "net.Ping")
    (note,) = command_line.steps("w1", "net.Note")

    assert dev.code == 1
    assert f"""afl-stream continue {ping} --result '{{"ms": <Long>}}' --data-dir {command_line.data_dir}""" in dev.out
    assert command_line("continue", ping, "--result", '{"ms": 5}').code == 0
    assert command_line("continue", note, "--result", '{"ok": true}').code == 0
    assert command_line("evaluator", "--until-idle").code == 0
    assert command_line("status", "w1", "--json").document["outputs"] == {"times": [5], "label": "none"}


def test_a_step_that_is_failed_by_hand_ends_its_run(command_line: CommandLine) -> None:
    command_line("dev", command_line.program, "--input", "hosts=[]", "--id", "w1")
    (note,) = command_line.steps("w1", "net.Note")

    command_line("fail", note, "--message", "no paper", "--type", "PaperOut")
    again = command_line("dev", command_line.program, "--input", "hosts=[]", "--id", "w1", "--json")

    assert again.code == 1
    assert again.document["status"] == "ERROR"
    assert (again.document["error"]["type"], again.document["error"]["message"]) == ("PaperOut", "no paper")


def test_a_cancelled_run_is_over(command_line: CommandLine) -> None:
    command_line("dev", command_line.program, "--input", "hosts=[]", "--id", "w1")

    assert command_line("cancel", "w1", "--reason", "changed my mind").code == 0
    command_line("evaluator", "--until-idle")

    assert command_line("status", "w1", "--json").document["status"] == "CANCELLED"


def test_start_prints_the_id_alone_and_the_same_id_starts_one_run(command_line: CommandLine) -> None:
    command_line.deployed()

    drawn = command_line("start", "Watch", "--input", "hosts=[]").out.strip()
    for _ in range(2):
        assert command_line("start", "Watch", "--input", "hosts=[]", "--id", "w1").out == "w1\n"
    command_line("evaluator", "--until-idle")

    runs = command_line("status", "--json").document
    assert sorted(run["workflow_id"] for run in runs) == sorted([drawn, "w1"])


def test_start_and_wait_runs_what_is_needed_in_its_own_process(command_line: CommandLine) -> None:
    called = command_line.deployed()(
        "start", "net.Watch", "--input", 'hosts=["abcd"]', "--wait", "--handlers", command_line.handlers, "--json"
    )

    assert called.code == 0
    assert called.document["outputs"] == {"times": [4], "label": "none"}


def test_a_wait_that_is_too_short_ends_with_its_own_code_and_the_run_continues(command_line: CommandLine) -> None:
    command_line.deployed()

    called = command_line("start", "Watch", "--input", "hosts=[]", "--wait", "--timeout", "0", "--id", "w1")
    wait = ("--wait", "--handlers", command_line.handlers)
    later = command_line("start", "Watch", "--input", "hosts=[]", "--id", "w1", *wait)

    assert (called.code, later.code) == (4, 0)
    assert "w1" in called.err


def test_text_for_a_string_is_taken_as_it_stands(command_line: CommandLine) -> None:
    called = command_line(
        "dev", command_line.program, "--handlers", command_line.handlers, "--json",
        "--input", "hosts=[]", "--input", "label=17", "--input", "factor=2",
    )  # fmt: skip

    assert called.document["outputs"]["label"] == "17"


def test_a_plan_creates_nothing_and_apply_creates_each_topic_once(command_line: CommandLine) -> None:
    plan = command_line("topics", "plan", command_line.program, "--json").document
    assert not command_line.data_dir.exists()

    applied = command_line("topics", "apply", command_line.program, "--json").document
    again = command_line("topics", "apply", command_line.program, "--json").document

    assert {topic["action"] for topic in plan} == {topic["action"] for topic in applied} == {"create"}
    assert {topic["topic"] for topic in plan} >= {"afl.control", "afl.events.net.Ping", "afl.dlq.events.net.Ping"}
    assert {topic["action"] for topic in again} == {"ok"}


def test_the_settings_are_shown_with_secrets_masked(command_line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFL_ANSWERS_TOKEN_SECRET", "s3cret")

    shown = command_line("config", "--prefix", "shop.")
    described = command_line("config", "--json")

    assert "shop." in shown.out
    assert described.document["answers.token_secret"] == "********"
    assert "s3cret" not in shown.out + described.out


def test_a_handler_that_exits_fails_its_step_and_does_not_end_the_command(command_line: CommandLine) -> None:
    handlers = command_line.file("exiting.py", "import sys\ndef handle(payload): sys.exit(0)\n")

    called = command_line(
        "dev",
        command_line.program,
        "--input",
        "hosts=[]",
        "--handlers",
        handlers,
        "--facet",
        "net.Note",
        "--facet",
        "net.Ping",
    )

    assert called.code == 1
    assert f"net.Watch.n (net.Note, {command_line.program}:12:9) failed: SystemExit: 0" in called.out
