"""`afl-stream retry|rerun|reset|cancel`, command by command: what they say, refuse, and bring about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.scenarios.command_lines import CommandLine


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys)


def answered(command_line: CommandLine) -> None:
    """Everything that waits is answered, and all that follows is done."""
    for _ in range(2):
        assert command_line("evaluator", "--until-idle").code == 0
        assert command_line("agent", "--handlers", command_line.handlers, "--until-idle").code == 0
    assert command_line("evaluator", "--until-idle").code == 0


def run_of(command_line: CommandLine) -> dict[str, object]:
    document = command_line("status", "w1", "--json").document
    assert isinstance(document, dict)
    return document


@pytest.fixture
def failed(command_line: CommandLine) -> CommandLine:
    """With a run w1 whose note failed, and whose ping is answered."""
    command_line("dev", command_line.program, "--input", 'hosts=["abc"]', "--id", "w1")
    (note,), (ping,) = command_line.steps("w1", "net.Note"), command_line.steps("w1", "net.Ping")
    command_line("fail", note, "--message", "no paper")
    command_line("continue", ping, "--result", '{"ms": 5}')
    command_line("evaluator", "--until-idle")
    assert run_of(command_line)["status"] == "ERROR"
    return command_line


@pytest.mark.parametrize("whole", [True, False])
def test_a_failed_step_is_retried_and_the_run_completes(failed: CommandLine, whole: bool) -> None:
    (note,) = failed.steps("w1", "net.Note")

    called = failed("retry", "w1" if whole else note, "--reason", "paper is back")

    assert called.code == 0
    assert f"asked to retry {'w1' if whole else note}: 1 step will be run again" in called.out
    assert "afl-stream evaluator --until-idle" in called.err
    answered(failed)
    run = run_of(failed)
    assert (run["status"], run["outputs"]) == ("COMPLETED", {"times": [5], "label": "none"})


def test_a_step_is_run_again_and_the_status_shows_what_counts(failed: CommandLine) -> None:
    failed("retry", "w1")
    answered(failed)
    (ping,) = failed.steps("w1", "net.Ping")

    called = failed("rerun", ping, "--json")

    assert called.code == 0
    assert called.document["step_id"] == ping
    assert f"{ping}a2" in called.document["steps"]
    answered(failed)
    run = run_of(failed)
    # The handler gives what is right: the first answer was by hand.
    assert (run["status"], run["execution"], run["outputs"]) == ("COMPLETED", 2, {"times": [3], "label": "none"})
    assert failed.steps("w1", "net.Ping") == [f"{ping}a2"]
    assert "run again 1 times" in failed("status", "w1").out


@pytest.mark.long
def test_a_run_is_reset_after_it_was_cancelled(command_line: CommandLine) -> None:
    command_line.waiting()
    command_line("cancel", "w1", "--reason", "not now")
    command_line("evaluator", "--until-idle")
    assert run_of(command_line)["status"] == "CANCELLED"

    called = command_line("reset", "w1")

    assert called.code == 0
    assert "asked to reset w1" in called.out
    answered(command_line)
    assert run_of(command_line)["status"] == "COMPLETED"


@pytest.mark.long
def test_the_audit_tells_who_did_what(failed: CommandLine) -> None:
    failed("retry", "w1", "--reason", "paper is back")
    answered(failed)
    failed("reset", "w1")
    failed("evaluator", "--until-idle")

    lines = failed("audit", "--from-beginning", "--until-idle").out.splitlines()

    reported = [line for line in lines if '"kind":"command"' in line]
    assert any('"command":"RetryStep"' in line and '"reason":"paper is back"' in line for line in reported)
    assert any('"command":"ResetWorkflow"' in line and '"command_id":' in line for line in reported)
    assert any('"milestone":"workflow.retried"' in line for line in lines)


REFUSED: list[tuple[Callable[[str], Sequence[str]], int, Sequence[str]]] = [
    (lambda step: ["retry", step], 2, ["has not failed", "rerun runs a step again"]),
    (lambda step: ["retry", "w1"], 2, ["has not failed"]),
    (lambda step: ["retry", "w2"], 3, ["no run w2", "afl-stream status"]),
    (lambda step: ["retry", "w1:00"], 3, ["no step w1:00"]),
    (lambda step: ["retry", "w/1"], 2, ["'w/1'", "workflow id"]),
    (lambda step: ["rerun", step[:-1]], 3, ["no step", "did you mean"]),
    (lambda step: ["rerun", "w1"], 2, ["'w1'", "step id"]),
    (lambda step: ["rerun", "w2:00"], 3, ["no run w2"]),
    (lambda step: ["reset", "w2"], 3, ["no run w2"]),
    (lambda step: ["reset", step], 2, ["workflow id"]),
]


@pytest.mark.parametrize(("words", "code", "said"), REFUSED)
def test_what_cannot_be_done_is_refused_before_anything_is_produced(
    words: Callable[[str], Sequence[str]], code: int, said: Sequence[str], command_line: CommandLine
) -> None:
    (note,) = command_line.waiting().steps("w1", "net.Note")

    called = command_line(*words(note))

    assert called.code == code
    for text in said:
        assert text in called.err
    assert command_line.records() == 1


def test_a_step_that_was_run_again_takes_no_answer_under_its_old_id(command_line: CommandLine) -> None:
    (note,) = command_line.waiting().steps("w1", "net.Note")
    command_line("rerun", note)
    command_line("evaluator", "--until-idle")

    called = command_line("continue", note, "--result", '{"ok": true}')

    assert called.code == 2
    assert "was run again since, under another id" in called.err
    assert "was run again since" in command_line("rerun", note).err
