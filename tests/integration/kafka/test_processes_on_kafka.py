"""`afl-stream evaluator --processes N`: each has its file and its partitions, and one that dies is started again."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from afl.stores.sqlite.store import SqliteStore
from afl_stream.client.client import Client
from afl_stream.evaluator.stores import open_configured_store
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.partitioner import partition_for
from afl_stream.settings.config import StreamConfig, load_config
from tests.eventually import eventually
from tests.integration.kafka.test_cli_on_kafka import KafkaCommandLine, kafka_command_line
from tests.worlds.processes import DEADLINE_S, Party, Processes

RUNS = [f"w{number}" for number in range(8)]
pytestmark = pytest.mark.timeout(300)
#: What a stranger answers to each facet.
RESULTS = {"net.Ping": {"ms": 1}, "net.Note": {"ok": True}}
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.long)])


@pytest.fixture
def command_line(tmp_path: Path, kafka_bootstrap: str, kafka_prefix: str, processes: Processes) -> KafkaCommandLine:
    made = kafka_command_line(tmp_path, kafka_bootstrap, kafka_prefix, processes)
    return replace(made, environment={**made.environment, "AFL_TOPICS_CONTROL_PARTITIONS": "4"})


def in_protocol(run: KafkaCommandLine, protocol: str) -> KafkaCommandLine:
    environment = {name: text for name, text in run.environment.items() if "_CONSUMER_" not in name}
    return replace(run, environment={**environment, "AFL_KAFKA_GROUP_PROTOCOL": protocol})


def evaluators(run: KafkaCommandLine, count: int, *options: str) -> Party:
    """Start that many; ready when each has said that it runs."""
    party = run.service("evaluators", "evaluator", "--processes", str(count), *options)
    names = [f"[{number} of {count}] evaluator of group" for number in range(1, count + 1)]
    eventually(lambda: party.check_alive() and all(name in party.log for name in names), DEADLINE_S)
    return party


def config_of(run: KafkaCommandLine) -> StreamConfig:
    return load_config(environ={"AFL_EMBEDDED_DATA_DIR": str(run.folder / ".afl"), **run.environment})


def start_all(run: KafkaCommandLine, ids: Sequence[str] = RUNS) -> None:
    config = config_of(run)
    with closing(KafkaTransport(config)) as transport, Client(config, transport) as client:
        for workflow_id in ids:
            client.start("net.Watch", {"hosts": ["a", "bbb"]}, workflow_id=workflow_id)


def statuses(run: KafkaCommandLine) -> dict[str, str]:
    with closing(open_configured_store(config_of(run), create=False)) as store:
        return {row.id: row.status for row in store.list_workflows(limit=100)}


def runs_in(path: Path, prefix: str) -> set[str]:
    with closing(SqliteStore(path, prefix=prefix, create=False)) as store:
        return set(store.workflow_ids())


def part_file(run: KafkaCommandLine, number: int, count: int) -> Path:
    return run.folder / ".afl" / f"store-kafka-{number}-of-{count}.sqlite3"


def listed(run: KafkaCommandLine, name: str) -> list[tuple[str, str]]:
    """Return the state and the error of each server of this name, as `servers` lists them."""
    servers = run("servers", "--json").document
    found = [server for server in servers if server["server_name"].endswith(f"({name})")]
    assert not [server for server in found if server["state"] == "error" and server["presence"]]
    return sorted((server["state"], (server["error"] or {}).get("message", "")) for server in found)


def process_ids(party: Party, name: str) -> list[int]:
    return [int(found) for found in re.findall(rf"^process {name} is (\d+)$", party.log, re.MULTILINE)]


@PROTOCOLS
def test_each_process_has_the_runs_of_its_partitions_in_its_own_file_and_status_shows_all(
    command_line: KafkaCommandLine, protocol: str
) -> None:
    run = in_protocol(command_line.deployed(), protocol)
    party = evaluators(run, 2)
    agent = run.agent()
    start_all(run)

    eventually(lambda: statuses(run) == dict.fromkeys(RUNS, "COMPLETED"), DEADLINE_S)
    party.ask_to_stop()
    agent.ask_to_stop()

    assert [party.exit_code(), agent.exit_code()] == [0, 0]
    held = [runs_in(part_file(run, number, 2), run.environment["AFL_PREFIX"]) for number in (1, 2)]
    assert held == [{one for one in RUNS if partition_for(one.encode(), 4) % 2 == index} for index in (0, 1)]
    assert all(held), "a file is empty"
    shown = run("status", RUNS[0], "--json").document
    assert (shown["outputs"], len(shown["steps"]) > 3) == ({"times": [1, 3], "label": "none"}, True)
    assert run("store", "check").code == 0
    servers = run("servers", "--all", "--json").document
    assert {server["server_name"].partition(" (")[2] for server in servers} == {"1 of 2)", "2 of 2)"}


def test_a_process_that_is_killed_is_started_again_and_loses_nothing(command_line: KafkaCommandLine) -> None:
    run = command_line.deployed()
    party = evaluators(run, 2)
    (first,) = process_ids(party, "2 of 2")
    start_all(run, RUNS[:4])

    os.kill(first, signal.SIGKILL)
    # Long before it would be stale: its parent says so.
    eventually(lambda: listed(run, "2 of 2") == [("error", "it was ended by SIGKILL"), ("running", "")], DEADLINE_S)
    start_all(run, RUNS[4:])
    run.agent()
    eventually(lambda: statuses(run) == dict.fromkeys(RUNS, "COMPLETED"), DEADLINE_S)

    assert "process 2 of 2 was ended by SIGKILL; it is started again in 1 s" in party.log
    assert len(process_ids(party, "2 of 2")) == 2
    assert len(process_ids(party, "1 of 2")) == 1


@pytest.mark.long
def test_the_processes_drain_and_end_when_the_one_that_watches_them_is_killed(command_line: KafkaCommandLine) -> None:
    run = command_line.deployed()
    party = evaluators(run, 2)
    children = [*process_ids(party, "1 of 2"), *process_ids(party, "2 of 2")]

    party.kill()

    eventually(lambda: not any(is_alive(child) for child in children), DEADLINE_S)
    again = evaluators(run, 2)
    again.ask_to_stop()
    assert again.exit_code() == 0


def is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.long
@PROTOCOLS
def test_with_one_file_the_processes_are_members_of_the_group(command_line: KafkaCommandLine, protocol: str) -> None:
    run = in_protocol(command_line.deployed(), protocol)
    party = evaluators(run, 2, "--one-file", "--instance-id", "host")
    run.agent()
    start_all(run)
    eventually(lambda: statuses(run) == dict.fromkeys(RUNS, "COMPLETED"), DEADLINE_S)
    party.ask_to_stop()

    assert party.exit_code() == 0
    assert runs_in(run.folder / ".afl" / "store-kafka.sqlite3", run.environment["AFL_PREFIX"]) == set(RUNS)


@pytest.mark.long
def test_runs_that_wait_go_on_in_other_files_when_the_store_is_divided_anew(command_line: KafkaCommandLine) -> None:
    run = command_line.deployed()
    single = run.evaluator()
    start_all(run, RUNS[:4])
    eventually(lambda: set(statuses(run)) == set(RUNS[:4]), DEADLINE_S)
    in_use = run("store", "divide", "3")
    single.ask_to_stop()
    assert single.exit_code() == 0
    refused = run("evaluator", "--processes", "3")

    divided = run("store", "divide", "3")
    party = evaluators(run, 3)
    too_few = run("evaluator")
    start_all(run, RUNS[4:])
    run.agent()
    eventually(lambda: statuses(run) == dict.fromkeys(RUNS, "COMPLETED"), DEADLINE_S)
    party.ask_to_stop()
    assert party.exit_code() == 0
    joined = run("store", "divide", "1")
    last = run.evaluator()
    start_all(run, ["after"])
    eventually(lambda: statuses(run).get("after") == "COMPLETED", DEADLINE_S)
    last.ask_to_stop()

    assert [in_use.code, refused.code, divided.code, too_few.code, joined.code] == [3, 2, 0, 2, 0]
    assert "it is in use" in in_use.err
    assert "is one file, and 3 processes would need 3 files" in refused.err
    assert "afl-stream store divide 3" in refused.err
    assert "is 3 files, and 1 process would need one file" in too_few.err
    assert run("store", "check").code == 0
    assert statuses(run) == dict.fromkeys([*RUNS, "after"], "COMPLETED")


@pytest.mark.long
def test_evaluators_of_another_host_with_files_of_their_own_are_refused_and_read_nothing(
    command_line: KafkaCommandLine,
) -> None:
    run = command_line.deployed()
    evaluators(run, 2)
    (elsewhere := run.folder / "elsewhere").mkdir()
    other = replace(run, environment={**run.environment, "AFL_EMBEDDED_DATA_DIR": str(elsewhere)})

    refused = other("evaluator", "--processes", "2")
    alone = other("evaluator", AFL_STORE_PATH=str(elsewhere / "alone.sqlite3"))

    assert [refused.code, alone.code] == [3, 3]
    assert "all end, because it would do so again" in refused.err
    assert "have store" in refused.err
    assert "have store" in alone.err
    for number in (1, 2):
        with closing(
            SqliteStore(elsewhere / f"store-kafka-{number}-of-2.sqlite3", prefix=run.environment["AFL_PREFIX"])
        ) as store:
            assert store.positions() == {}


@pytest.mark.long
def test_an_answer_under_another_key_reaches_the_file_of_its_run(command_line: KafkaCommandLine) -> None:
    run = command_line.deployed()
    party = evaluators(run, 2)
    start_all(run, RUNS[:4])
    eventually(lambda: set(statuses(run)) == set(RUNS[:4]), DEADLINE_S)
    producer = Producer({"bootstrap.servers": run.environment["AFL_KAFKA_BOOTSTRAP"]})

    def answer_all() -> bool:
        """Answer each step that waits, as a stranger does: into a partition that is not its run's."""
        with closing(open_configured_store(config_of(run), create=False)) as store:
            steps = [step for workflow_id in RUNS[:4] for step in store.load_steps(workflow_id)]
        for step in steps:
            if step.event_state in ("event.Created", "event.Dispatched"):
                answer = {"step_id": step.id, "result": RESULTS[step.facet_name or ""]}
                foreign = (partition_for(step.id.partition(":")[0].encode(), 4) + 1) % 4
                producer.produce(f"{run.environment['AFL_PREFIX']}control", json.dumps(answer), partition=foreign)
        assert producer.flush(30) == 0
        return set(statuses(run).values()) == {"COMPLETED"}

    eventually(answer_all, DEADLINE_S, interval_s=1.0)
    party.ask_to_stop()

    assert party.exit_code() == 0
    assert sum(map(int, re.findall(r"(\d+) forwarded", party.log))) >= 12
    assert "unreadable" not in party.log
