"""What evaluator and agent log of a real run: one line for each event, as text or as JSON, and nothing unless asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.command_lines import Called, CommandLine

HANDLERS = """
import logging

def note(payload):
    if payload["text"] == "bad":
        raise RuntimeError("no paper left")
    return {"ok": True}

def register_handlers(runner):
    runner.register("net.Note", note)
"""
#: An input whose text is found nowhere in the logs unless values are asked for.
TELLING = "Zanzibar"


@pytest.fixture
def deployed(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine(tmp_path, capsys).deployed()


def run(called: CommandLine, label: str, *words: str) -> tuple[Called, Called]:
    """Start a run, and let an agent and an evaluator finish it as processes; return what these wrote."""
    handlers = called.file("handlers_of_note.py", HANDLERS)
    assert called("start", "Watch", "--input", "hosts=[]", "--input", f"label={label}", "--id", "w1").code == 0
    assert called("evaluator", "--until-idle").code in (0, 1)
    agent = called.run("agent", "--handlers", handlers, "--until-idle", *words)
    evaluator = called.run("evaluator", "--until-idle", *words)
    return agent, evaluator


def lines_of(called: Called) -> list[dict[str, Any]]:
    """Return the lines of JSON that a process has logged."""
    return [json.loads(line) for line in called.err.splitlines() if line.startswith("{")]


def about_events(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line["logger"].endswith(".events")]


def chosen(line: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(line.get(name) for name in names)


def test_nothing_is_logged_of_a_run_that_goes_well(deployed: CommandLine) -> None:
    agent, evaluator = run(deployed, TELLING)

    assert " INFO " not in agent.err + evaluator.err
    assert " WARNING " not in agent.err + evaluator.err


def test_with_v_each_event_is_one_line_with_facet_step_attempt_duration_and_outcome(deployed: CommandLine) -> None:
    agent, evaluator = run(deployed, TELLING, "-v")
    (step_id,) = deployed.steps("w1", "net.Note")

    (line,) = [line for line in agent.err.splitlines() if "afl_stream.agent.events" in line]
    assert f"net.Note step {step_id} attempt 1: completed after 0." in line
    answered, ended = [line for line in evaluator.err.splitlines() if "afl_stream.evaluator.events" in line]
    assert f"net.Note step {step_id} attempt 1: completed after " in answered
    assert "run w1 (net.Watch): completed after " in ended
    assert TELLING not in agent.err + evaluator.err


def test_json_has_ids_facet_attempt_outcome_and_duration_as_fields(
    deployed: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFL_LOGGING_FORMAT", "json")
    monkeypatch.setenv("AFL_LOGGING_LEVEL", "info")
    agent, evaluator = run(deployed, TELLING)
    (step_id,) = deployed.steps("w1", "net.Note")

    (handled,) = about_events(lines_of(agent))
    named = ("workflow_id", "step_id", "facet", "attempt", "outcome", "group", "tries")
    assert chosen(handled, *named) == ("w1", step_id, "net.Note", 1, "completed", "afl.agent.net.Note", 1)
    assert handled["duration_ms"] >= 0
    answered, ended = about_events(lines_of(evaluator))
    assert chosen(answered, *named[:6]) == ("w1", step_id, "net.Note", 1, "completed", "afl.agent.net.Note")
    assert chosen(ended, "workflow_id", "workflow", "outcome") == ("w1", "net.Watch", "completed")
    assert {line["level"] for line in (handled, answered, ended)} == {"INFO"}
    assert TELLING not in agent.err + evaluator.err


def test_a_failure_is_an_outcome_with_its_type_and_the_traceback_stays_in_its_record(
    deployed: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFL_LOGGING_FORMAT", "json")
    agent, evaluator = run(deployed, "bad", "-v")

    lines = lines_of(agent)
    (warned,) = [line for line in lines if line["level"] == "WARNING"]
    assert "RuntimeError: no paper left" in warned["details"]
    assert chosen(warned, "workflow_id", "facet", "attempt") == ("w1", "net.Note", 1)
    (handled,) = about_events(lines)
    assert chosen(handled, "outcome", "error_type") == ("failed", "RuntimeError")
    answered, ended = about_events(lines_of(evaluator))
    assert chosen(answered, "outcome", "error_type") == ("failed", "RuntimeError")
    assert chosen(ended, "outcome", "error_type") == ("failed", "RuntimeError")


def test_payloads_and_results_are_logged_only_where_that_is_asked_for(
    deployed: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFL_LOGGING_FORMAT", "json")
    monkeypatch.setenv("AFL_LOGGING_VALUES", "true")
    agent, evaluator = run(deployed, TELLING, "-v")

    (handled,) = about_events(lines_of(agent))
    assert json.loads(handled["payload"]) == {"text": TELLING}
    assert json.loads(handled["result"]) == {"ok": True}
    answered, _ = about_events(lines_of(evaluator))
    assert json.loads(answered["result"]) == {"ok": True}


def test_a_level_of_the_settings_silences_warnings(deployed: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFL_LOGGING_LEVEL", "error")

    agent, _ = run(deployed, "bad")

    assert " WARNING " not in agent.err


def test_an_answer_that_comes_twice_is_a_line_that_says_so(
    deployed: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFL_LOGGING_FORMAT", "json")
    deployed("start", "Watch", "--input", 'hosts=["a"]', "--id", "w1")
    deployed("evaluator", "--until-idle")
    (step_id,) = deployed.steps("w1", "net.Ping")
    for _ in range(2):
        deployed("continue", step_id, "--result", '{"ms": 1}')

    lines = about_events(lines_of(deployed.run("evaluator", "--until-idle", "-v")))

    answered = [line for line in lines if line.get("step_id") == step_id]
    assert [line["outcome"] for line in answered] == ["completed", "duplicate"]


def test_a_level_that_is_none_is_refused_by_its_name(deployed: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFL_LOGGING_LEVEL", "loud")

    found = deployed("status")

    assert found.code == 2
    assert "AFL_LOGGING_LEVEL" in found.err
    assert "warning" in found.err
