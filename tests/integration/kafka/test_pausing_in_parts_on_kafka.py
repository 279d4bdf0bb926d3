"""Pauses of a deployment whose evaluators have a file each: every one heeds them, and `why` and `status` tell them."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from afl.stores.sqlite.store import SqliteStore
from afl_stream.partitioner import partition_for
from tests.eventually import eventually
from tests.integration.kafka.test_cli_on_kafka import KafkaCommandLine, kafka_command_line
from tests.integration.kafka.test_processes_on_kafka import (
    RUNS,
    config_of,
    evaluators,
    part_file,
    process_ids,
    start_all,
    statuses,
)
from tests.worlds.processes import DEADLINE_S, Processes

pytestmark = pytest.mark.timeout(300)
#: A run of the first part, and one of the second.
FIRST, SECOND = (next(one for one in RUNS if partition_for(one.encode(), 4) % 2 == index) for index in (0, 1))


@pytest.fixture
def run(tmp_path: Path, kafka_bootstrap: str, kafka_prefix: str, processes: Processes) -> KafkaCommandLine:
    made = kafka_command_line(tmp_path, kafka_bootstrap, kafka_prefix, processes)
    return replace(made, environment={**made.environment, "AFL_TOPICS_CONTROL_PARTITIONS": "4"}).deployed()


def causes(run: KafkaCommandLine, workflow_id: str) -> dict[str, str]:
    """Return the causes that `why` tells, with their texts."""
    report = run("why", workflow_id, "--json").document
    told = [*report["causes"], *(cause for wait in report["waits"] for cause in wait["causes"])]
    return {cause["code"]: cause["text"] for cause in told}


def test_a_paused_facet_holds_the_events_of_all_parts_and_a_killed_process_publishes_none(
    run: KafkaCommandLine,
) -> None:
    party = evaluators(run, 2)
    assert run("pause", "--facet", "Ping", "--reason", "the net is down").code == 0
    eventually(lambda: all(held_pauses(run, number) for number in (1, 2)), DEADLINE_S)
    run.agent()
    start_all(run)
    eventually(lambda: set(statuses(run)) == set(RUNS), DEADLINE_S)

    told = [causes(run, one) for one in (FIRST, SECOND)]
    os.kill(process_ids(party, "2 of 2")[0], signal.SIGKILL)
    eventually(lambda: len(process_ids(party, "2 of 2")) == 2, DEADLINE_S)
    after = causes(run, SECOND)
    shown = run("status", SECOND)
    listed = run("pause")
    assert run("resume", "--facet", "Ping").code == 0
    eventually(lambda: statuses(run) == dict.fromkeys(RUNS, "COMPLETED"), DEADLINE_S)

    assert [{"facet-paused", "not-published"} <= one.keys() for one in (*told, after)] == [True] * 3
    assert all("(the net is down)" in one["facet-paused"] for one in told)
    assert "resume --facet net.Ping" in shown.out
    assert "net.Ping" in listed.out


def test_paused_runs_of_all_parts_stay_and_stay_paused_in_other_files(run: KafkaCommandLine) -> None:
    party = evaluators(run, 2)
    run.agent()
    for one in (FIRST, SECOND):
        assert run("pause", "--workflow", one).code == 0
    start_all(run)
    others = [one for one in RUNS if one not in (FIRST, SECOND)]
    eventually(lambda: all(statuses(run).get(one) == "COMPLETED" for one in others), DEADLINE_S)
    eventually(lambda: all(held_pauses(run, number) for number in (1, 2)), DEADLINE_S)

    told = [causes(run, one) for one in (FIRST, SECOND)]
    party.ask_to_stop()
    assert party.exit_code() == 0
    checked = run("store", "check", "--json").document
    divided = run("store", "divide", "3")
    again = evaluators(run, 3)
    still = [causes(run, one) for one in (FIRST, SECOND)]
    assert run("resume", "--workflow", FIRST).code == 0
    eventually(lambda: statuses(run)[FIRST] == "COMPLETED", DEADLINE_S)
    assert statuses(run)[SECOND] != "COMPLETED"
    assert run("resume", "--workflow", SECOND).code == 0
    eventually(lambda: statuses(run) == dict.fromkeys(RUNS, "COMPLETED"), DEADLINE_S)
    again.ask_to_stop()

    assert [one.keys() >= {"workflow-paused"} for one in (*told, *still)] == [True] * 4
    assert divided.code == 0, divided
    assert checked["findings"] == []
    assert again.exit_code() == 0


def held_pauses(run: KafkaCommandLine, number: int) -> bool:
    """Return whether the evaluator of a part has copied the pauses into its file."""
    with closing(SqliteStore(part_file(run, number, 2), config_of(run).prefix, create=False)) as store:
        return store.schedule("#pauses") is not None


def test_everything_is_paused_and_resumed_in_all_parts(run: KafkaCommandLine) -> None:
    evaluators(run, 2)
    run.agent()
    assert run("pause", "--all", "--reason", "night").code == 0
    eventually(lambda: all(held_pauses(run, number) for number in (1, 2)), DEADLINE_S)
    start_all(run)
    eventually(lambda: set(statuses(run)) == set(RUNS), DEADLINE_S)

    told = [causes(run, one) for one in (FIRST, SECOND)]
    assert run("resume", "--all").code == 0
    eventually(lambda: statuses(run) == dict.fromkeys(RUNS, "COMPLETED"), DEADLINE_S)

    assert all("everything is paused" in one["workflow-paused"] for one in told)


def test_the_evaluators_that_why_asks_for_are_as_many_as_the_store_has_files(run: KafkaCommandLine) -> None:
    party = evaluators(run, 2)
    party.ask_to_stop()
    assert party.exit_code() == 0
    start_all(run, [SECOND])

    told = run("why", SECOND)
    started = run("start", "net.Watch", "--input", 'hosts=["a"]', "--id", "later")

    assert "evaluator --processes 2" in told.out
    assert "evaluator --processes 2" in started.err
