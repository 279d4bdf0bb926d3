"""`afl-stream watch` and step milestones on a real broker, where the lifecycle topic tells of runs to any machine."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.integration.kafka.test_cli_on_kafka import KafkaCommandLine, kafka_command_line
from tests.worlds.processes import DEADLINE_S, Processes

#: Half a dozen processes one after another.
pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


@pytest.fixture
def command_line(tmp_path: Path, kafka_bootstrap: str, kafka_prefix: str, processes: Processes) -> KafkaCommandLine:
    made = kafka_command_line(tmp_path, kafka_bootstrap, kafka_prefix, processes)
    return replace(made, environment={**made.environment, "AFL_LIFECYCLE_STEPS": "on"}).deployed()


def kinds(text: str) -> list[str]:
    return [json.loads(line)["kind"] for line in text.splitlines()]


def test_runs_are_watched_while_they_happen_and_afterwards(command_line: KafkaCommandLine) -> None:
    everything = command_line.service("watch-all", "watch")
    command_line.evaluator()
    command_line.agent()

    started = command_line("start", "Watch", "--id", "w1", "--input", 'hosts=["a"]', "--wait", "--timeout", "120")
    assert started.code == 0, started

    one = command_line("watch", "w1", "--json", "--timeout", "120")
    assert one.code == 0, one
    told = kinds(one.out)
    assert (told[0], told[-1]) == ("workflow.started", "workflow.completed")
    assert sorted(told[1:-1]) == ["step.completed"] * 2 + ["step.started"] * 2
    eventually(lambda: everything.check_alive() and "workflow.completed" in "".join(everything.lines), DEADLINE_S)
    assert sorted(line.split()[2] for line in everything.lines) == sorted(told)
    assert {line.split()[1] for line in everything.lines} == {"w1"}
    everything.send(signal.SIGINT)
    assert everything.exit_code() == 130


def test_a_cancelled_run_ends_the_watch_with_1_and_one_that_does_not_end_with_4(command_line: KafkaCommandLine) -> None:
    command_line.evaluator()
    assert command_line("start", "Watch", "--id", "w1", "--input", "hosts=[]").code == 0

    waiting = command_line("watch", "w1", "--timeout", "5")
    assert waiting.code == 4, waiting
    assert "workflow.started" in waiting.out
    assert command_line("cancel", "w1").code == 0
    cancelled = command_line("watch", "w1", "--timeout", "120")

    assert cancelled.code == 1, cancelled
    assert "workflow.cancelled" in cancelled.out.splitlines()[-1]
