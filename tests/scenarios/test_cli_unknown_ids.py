"""Ids that no run and no step has: commands that go on all the same say which may be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.command_lines import CommandLine

DRAWN = "01936d00-1111-7000-8000-000000000001"


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """With a run order-17 and one with an id as clients draw them; both wait for an answer."""
    monkeypatch.chdir(tmp_path)
    made = CommandLine(tmp_path, capsys)
    for run in ("order-17", DRAWN):
        assert made("dev", made.program, "--input", "hosts=[]", "--id", run).code == 1
    return made


def test_a_run_that_is_not_there_is_told_with_the_one_that_may_be_meant(commands: CommandLine) -> None:
    for words, code in (
        (("audit", "--until-idle", "--workflow"), 0),
        (("dlq", "list", "--workflow"), 0),
        (("dlq", "replay", "--all", "--workflow"), 0),
        (("dlq", "drop", "--all", "--workflow"), 0),
        (("pause", "--workflow"), 0),
        (("resume", "--workflow"), 0),
        (("resume", "--workflow"), 0),
        (("watch", "--timeout", "0"), 4),
        (("cancel",), 0),
    ):
        called = commands(*words, "order-71")

        assert called.code == code
        is_resumed = called.out == "run order-71 is resumed\n"
        told = "Note: there is no run order-71 in the store yet; did you mean order-17?\n"
        assert is_resumed or told in called.err, words


def test_an_event_for_a_run_that_is_not_there_names_the_run_that_may_be_meant(commands: CommandLine) -> None:
    assert (
        "there is no run order-71 in the store yet; did you mean order-17?" in commands("raise", "order-71", "ok").err
    )
    assert "the event is kept for one that is started later" in commands("raise", "x", "ok").err


def test_the_beginning_of_an_id_names_the_whole_id_where_a_filter_needs_it(commands: CommandLine) -> None:
    for command in (("audit", "--until-idle"), ("dlq", "list")):
        assert f"did you mean {DRAWN}?" in commands(*command, "--workflow", DRAWN[:8]).err


def test_the_beginning_of_a_drawn_id_pauses_its_run(commands: CommandLine) -> None:
    paused = commands("pause", "--workflow", DRAWN[:8])

    assert paused.out == f"run {DRAWN} is paused\n"
    assert paused.err == f"{DRAWN[:8]} is short for {DRAWN}\n"
    assert commands("resume", "--workflow", DRAWN[:13]).out == f"run {DRAWN} is resumed\n"


def test_a_step_that_is_not_there_is_told_with_the_one_that_may_be_meant(commands: CommandLine) -> None:
    (step,) = commands.steps("order-17", "net.Note")

    assert (
        f"there is no step {step[:-1]} in the store yet; did you mean {step}?"
        in commands("dlq", "list", "--step", step[:-1]).err
    )
    other_run = step.replace("order-17", "order-71")
    assert (
        "there is no run order-71 in the store yet; did you mean order-17?"
        in commands("dlq", "list", "--step", other_run).err
    )


def test_an_id_that_is_there_is_not_doubted(commands: CommandLine) -> None:
    for words in (("audit", "--until-idle", "--workflow"), ("dlq", "list", "--workflow"), ("watch", "--timeout", "0")):
        assert "there is no" not in commands(*words, "order-17").err


def test_a_run_that_never_began_is_not_doubted_where_it_has_dead_letters(commands: CommandLine) -> None:
    assert commands("cancel", "order-71").code == 0
    assert commands("evaluator", "--until-idle").code == 0

    listed = commands("dlq", "list", "--workflow", "order-71", "--reason", "bad_json")
    assert listed.err == "no dead letters that fit\n"
    assert "there is no run w3 in the store yet\n" in commands("dlq", "list", "--workflow", "w3").err


def test_a_purged_run_is_not_doubted(commands: CommandLine) -> None:
    assert commands("cancel", "order-17").code == 0
    assert commands("evaluator", "--until-idle").code == 0
    assert commands("store", "purge", "--workflow", "order-17").code == 0

    assert "there is no run" not in commands("dlq", "list", "--workflow", "order-17").err
    assert "there is no run" not in commands("pause", "--workflow", "order-17").err


def test_a_store_whose_runs_were_purged_does_not_claim_that_there_never_were_any(commands: CommandLine) -> None:
    for run in ("order-17", DRAWN):
        assert commands("cancel", run).code == 0
    assert commands("evaluator", "--until-idle").code == 0
    assert commands("store", "purge", "--older-than", "0s").code == 0

    for command in ("status", "list"):
        told = commands(command).err
        assert "no runs: those that there were have been purged (afl-stream status WORKFLOW_ID" in told
    assert "no such runs" in commands("list", "--state", "failed").err


def test_an_empty_store_says_how_a_run_is_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = CommandLine(tmp_path, capsys).deployed()
    assert commands("evaluator", "--until-idle").code == 0

    for command in ("status", "list"):
        assert "no runs; start one with: afl-stream start WORKFLOW --data-dir" in commands(command).err
