"""What `afl-stream evaluator` says at its end of external events that no workflow gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.command_lines import CommandLine


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AFL_EVALUATOR_MAX_PENDING_EVENTS", "1")
    found = CommandLine(tmp_path, capsys)
    found("topics", "apply")
    for number in range(3):
        assert found("raise", "wf-1", "go", "--data", str(number)).code == 0
    return found


def test_people_are_told_why_events_were_dropped(command_line: CommandLine) -> None:
    found = command_line("evaluator", "--until-idle")

    assert "external events that became dead letters: 2 TooManyEarlyEvents" in found.err


def test_programs_get_the_counts_of_external_events(command_line: CommandLine) -> None:
    found = command_line("evaluator", "--until-idle", "--json")

    assert found.document["events"] == {
        "raised": 3,
        "early": 1,
        "dropped": 2,
        "dropped_for": {"TooManyEarlyEvents": 2},
    }
