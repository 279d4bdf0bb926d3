"""`afl-stream evaluator --until-idle` with runs that sleep: it does not wait for them, and says until when they do."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from tests.scenarios.command_lines import CommandLine

PROGRAM = """namespace nap {
    event facet Ask(question: String) => (answer: String)
    workflow Doze(minutes: Long) => (woke_at: Long) andThen {
        nap = afl.Sleep(minutes = $.minutes)
        yield Doze(woke_at = nap.woke_at)
    }
    workflow Urgent() => (answer: String) andThen {
        ask = Ask(question = "who") with Timeout(hours = 1)
        yield Urgent(answer = ask.answer)
    }
}
"""


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    made = CommandLine(tmp_path, capsys)
    made.program = made.file("nap.afl", PROGRAM)
    return made.deployed()


def test_an_evaluator_that_ends_when_it_is_idle_says_how_many_runs_sleep_and_until_when(
    command_line: CommandLine,
) -> None:
    for minutes in (90, 60):
        command_line("start", "nap.Doze", "--input", f"minutes={minutes}", "--id", f"w{minutes}")

    called = command_line("evaluator", "--until-idle")
    as_json = command_line("evaluator", "--until-idle", "--json")

    assert called.code == 0
    next_at_ms = as_json.document["sleeping"]["next_at_ms"]
    assert as_json.document["sleeping"]["runs"] == 2
    shown = datetime.fromtimestamp(next_at_ms / 1_000).strftime("%Y-%m-%d %H:%M:%S")
    assert f"2 runs sleep, the first until {shown}, when an evaluator has to run" in called.err
    created_ms = command_line("status", "w60", "--json").document["created_at_ms"]
    assert 0 <= next_at_ms - created_ms - 3_600_000 < 60_000


def test_a_run_that_waits_for_an_answer_with_a_deadline_does_not_sleep(command_line: CommandLine) -> None:
    command_line("start", "nap.Urgent", "--id", "w1")

    called = command_line("evaluator", "--until-idle")

    assert "sleep" not in called.err
    assert "nap.Ask" in called.err
