"""Looking back at a run whose records are on a real broker: who answered, and where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer

from afl_stream.partitioner import partition_for
from tests.integration.kafka.test_cli_on_kafka import KafkaCommandLine, kafka_command_line
from tests.worlds.processes import Processes


@pytest.fixture
def command_line(tmp_path: Path, kafka_bootstrap: str, kafka_prefix: str, processes: Processes) -> KafkaCommandLine:
    return kafka_command_line(tmp_path, kafka_bootstrap, kafka_prefix, processes)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_trace_has_the_offsets_of_events_and_answers_whatever_else_is_in_their_partition(
    command_line: KafkaCommandLine, kafka_bootstrap: str, kafka_prefix: str
) -> None:
    run = command_line.deployed()
    # A record that nobody can read, in the partition of the run.
    producer = Producer({"bootstrap.servers": kafka_bootstrap})
    producer.produce(
        f"{kafka_prefix}control", key=b"w1", value=b'{"type": "StepContinue"}', partition=partition_for(b"w1", 2)
    )
    producer.flush(30)
    run.evaluator()
    run.agent()
    started = run("start", "Watch", "--input", 'hosts=["a"]', "--id", "w1", "--wait", "--timeout", "90")
    assert started.code == 0, started

    traced = json.loads(run("trace", "w1", "--json").out)
    shown = json.loads(run("show", "w1", "--json").out)

    assert shown["status"] == "COMPLETED"
    assert traced["gaps"] == []
    answers = [found for found in traced["records"] if found["kind"] == "answer"]
    events = [found for found in traced["records"] if found["kind"] == "event"]
    assert sorted(found["facet"] for found in events) == ["net.Note", "net.Ping"]
    assert {found["topic"] for found in answers} == {f"{kafka_prefix}control"}
    # The unreadable record stands before both.
    assert sorted(found["offset"] for found in answers) == [1, 2]
    assert all(found["agent"] and found["group"].startswith(f"{kafka_prefix}agent.net.") for found in answers)
    assert [found["at_ms"] for found in traced["records"]] == sorted(found["at_ms"] for found in traced["records"])
