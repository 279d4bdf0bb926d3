"""Dead letters and logs of a deployment on a real broker: listed, replayed, dropped, and told of in JSON lines."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.integration.kafka.test_cli_on_kafka import KafkaCommandLine, kafka_command_line
from tests.worlds.processes import Processes


@pytest.fixture
def called(tmp_path: Path, kafka_bootstrap: str, kafka_prefix: str, processes: Processes) -> KafkaCommandLine:
    return kafka_command_line(tmp_path, kafka_bootstrap, kafka_prefix, processes).deployed()


def listed(called: KafkaCommandLine, *words: str) -> list[dict[str, Any]]:
    letters: list[dict[str, Any]] = called("dlq", "list", *words, "--json").document["dead_letters"]
    return letters


def send(called: KafkaCommandLine, topic: str, key: str, value: str) -> None:
    """Produce a record as kcat does."""
    producer = Producer({"bootstrap.servers": called.environment["AFL_KAFKA_BOOTSTRAP"]})
    producer.produce(f"{called.environment['AFL_PREFIX']}{topic}", value, key)
    assert producer.flush(30) == 0


@pytest.mark.long
def test_a_refused_answer_is_warned_of_listed_shown_with_its_step_replayed_and_dropped(
    called: KafkaCommandLine,
) -> None:
    secret = {"AFL_ANSWERS_TOKEN_SECRET": "a secret that is long enough", "AFL_LOGGING_FORMAT": "json"}
    assert called("start", "Watch", "--input", "hosts=[]", "--id", "w1").code == 0
    assert called("evaluator", "--until-idle", **secret).code in (0, 1)
    steps = called("status", "w1", "--json").document["steps"]
    (step_id,) = [step["step_id"] for step in steps if step["facet"] == "net.Note"]
    send(called, "control", "w1", json.dumps({"step_id": step_id, "result": {"ok": True}}))

    told = called("evaluator", "--until-idle", **secret)

    (warned,) = [line for line in map(json.loads, _json_lines(told.err)) if line.get("reason") == "AnswerRefused"]
    assert (warned["level"], warned["workflow_id"]) == ("WARNING", "w1")
    assert "afl-stream dlq list --workflow w1" in warned["message"]
    (letter,) = listed(called, "--workflow", "w1")
    assert (letter["reason"], letter["step_id"], letter["hop"]) == ("AnswerRefused", step_id, "control")
    status = called("status", "w1")
    assert f"dead letters of step {step_id}:" in status.out
    assert letter["place"] in status.out
    assert called("dlq", "show", letter["place"], "--json").document["record"]["step_id"] == step_id

    # Without tokens the same record is a good answer.
    assert called("dlq", "replay", letter["place"]).code == 0
    again = called("dlq", "replay", letter["place"], "--json").document["replayed"]
    assert [row["sent"] for row in again] == [False]
    assert called("evaluator", "--until-idle").code == 0
    assert called("status", "w1", "--json").document["status"] == "COMPLETED"
    assert listed(called) == []

    send(called, "control", "w1", "{")
    called("evaluator", "--until-idle")
    assert called("dlq", "drop", "--all", "--reason", "bad_json").code == 0
    assert listed(called) == []
    assert {letter["reason"] for letter in listed(called, "--handled")} == {"AnswerRefused", "bad_json"}


@pytest.mark.long
def test_each_event_is_a_line_of_json_at_agent_and_evaluator(called: KafkaCommandLine) -> None:
    as_json = {"AFL_LOGGING_FORMAT": "json", "AFL_LOGGING_LEVEL": "info"}
    assert called("start", "Watch", "--input", 'hosts=["a", "bb"]', "--id", "w1").code == 0
    assert called("evaluator", "--until-idle").code in (0, 1)

    agent = called("agent", "--handlers", called.handlers, "--until-idle", **as_json)
    evaluator = called("evaluator", "--until-idle", **as_json)

    steps = {step["step_id"] for step in called("status", "w1", "--json").document["steps"] if step["attempt"]}
    assert len(steps) == 3
    for told in (agent, evaluator):
        lines = [line for line in map(json.loads, _json_lines(told.err)) if line["logger"].endswith(".events")]
        of_steps = [line for line in lines if "facet" in line]
        assert {line["step_id"] for line in of_steps} == steps
        assert len(of_steps) == 3
        assert {(line["outcome"], line["attempt"], line["workflow_id"]) for line in of_steps} == {
            ("completed", 1, "w1")
        }


def _json_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("{")]
