"""Texts that answers and commands bring along: bounded where they are kept, printable where they are shown."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from afl.core.text.log_lines import LogLineFormatter
from afl_stream.limits import MAX_FAILURE_CHARS, MAX_NAME_CHARS
from afl_stream.wire.messages import CancelWorkflow, FailureReason, StartWorkflow, StepContinue, StepFailed
from tests.scenarios.command_lines import CommandLine
from tests.worlds.desk import ASK, DESK, FIRST, REPORT, SECOND, THIRD, Desk
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED

#: What a text is does not depend on the broker.
WORLDS = EMBEDDED

#: Moves the cursor, begins a line of its own, turns text round, sets the window's title.
HOSTILE = "x\x1b[2J\nERROR fake\r\x9b1m\u202e\u2028\x1b]0;t\x07"
LONG = "g" * 50_000


@pytest.fixture
def desk(world: World) -> Desk:
    return Desk(world.deployment(DESK))


def log_of(caplog: pytest.LogCaptureFixture) -> str:
    """Return what the commands would have written."""
    return "\n".join(LogLineFormatter().format(record) for record in caplog.records)


def test_groups_that_answer_one_facet_are_told_once_whatever_they_call_themselves(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    desk.start()
    step_id = desk.step(FIRST).id
    desk.answer(step_id, THIRD, group="one")

    for number in range(100):
        desk.deployment.send(StepContinue(step_id=step_id, result={}, group=f"{number}{HOSTILE}{LONG}"))
    desk.deployment.settle()

    ((facet, first, other),) = desk.evaluator.service.loop.stats().doubled
    assert (facet, first) == (ASK, "one")
    assert len(other) < 2 * MAX_NAME_CHARS
    assert len(log_of(caplog)) < 2_000
    assert log_of(caplog).isprintable()


def test_what_is_kept_of_an_answer_is_bounded(desk: Desk) -> None:
    desk.start()
    desk.answer(desk.step(FIRST).id, THIRD, group=HOSTILE + LONG)
    failure = FailureReason(type=HOSTILE + LONG, message=HOSTILE + LONG)
    desk.send(StepFailed(step_id=desk.step(SECOND).id, error=failure, group="g"))

    desk.answer(desk.step(FIRST).id, THIRD, group="other")
    desk.answer(desk.step(THIRD).id, "third")

    ((_, first, _),) = desk.evaluator.service.loop.stats().doubled
    assert len(first) < 2 * MAX_NAME_CHARS
    assert first.isprintable()
    error = desk.deployment.workflow("wf-1").error
    assert error is not None
    assert len(error.message) <= MAX_FAILURE_CHARS
    assert len(error.type) < 1_000
    assert error.type.isprintable()


def test_what_is_kept_of_a_command_is_bounded_and_done_once_all_the_same(desk: Desk) -> None:
    start = StartWorkflow(workflow_id="wf-1", workflow=REPORT, inputs={"subject": FIRST}, requested_by=LONG)
    desk.send(start)
    desk.send(StepFailed(step_id=desk.step(FIRST).id, error=FailureReason(type="T", message="m")))
    desk.answer(desk.step(SECOND).id, "second")
    failed = desk.step(FIRST).id
    for _ in range(2):
        desk.deployment.client.retry("wf-1", failed, reason=LONG, command_id=LONG)
        desk.deployment.settle()
    desk.send(CancelWorkflow(workflow_id="wf-1", reason=LONG))

    row = desk.deployment.workflow("wf-1")
    logs = desk.deployment.store.get_logs_by_runner("wf-1")
    assert desk.deployment.outcomes()["duplicate"] == 1
    assert len(row.runner_id) < 2 * MAX_NAME_CHARS
    assert row.error is not None
    assert len(row.error.message) <= MAX_FAILURE_CHARS
    assert logs != []
    assert all(len(entry.message) + len(entry.uuid) < 2 * MAX_FAILURE_CHARS for entry in logs)


def test_a_failure_is_shown_on_lines_of_the_commands_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = CommandLine(tmp_path, capsys).waiting()
    (step_id,) = run.steps("w1", "net.Note")
    run("fail", step_id, "--type", HOSTILE, "--message", HOSTILE)
    run("evaluator", "--until-idle")

    for called in (
        run("status", "w1"),
        run("status", "w1", "--json"),
        run("audit", "--until-idle"),
        run("status", HOSTILE),
        run("start", HOSTILE),
        run("start", "Watch", "--id", HOSTILE),
        run("continue", HOSTILE, "--result", "{}"),
        run("deploy", HOSTILE),
        run("audit", "--file", str(tmp_path / HOSTILE / "x"), "--group", HOSTILE),
        run("agent", "--handlers", HOSTILE, "--until-idle"),
        run("agent", "--handlers", run.handlers, "--group", HOSTILE, "--until-idle"),
        run("evaluator", f"--{HOSTILE}"),
        run(HOSTILE),
        run("config", "--prefix", HOSTILE),
        run("config", "--config", HOSTILE),
    ):
        for line in (called.out + called.err).splitlines():
            assert line.replace("\t", "").isprintable(), called
            assert not line.startswith("ERROR fake")
        # `splitlines` knows more ends of lines than a terminal.
        assert "\u2028" not in called.out + called.err
