"""`afl-stream pubsub` on a real broker: workers share the requests, callers see their output from elsewhere."""

from pathlib import Path

import pytest

from tests.integration.kafka.test_cli_on_kafka import KafkaCommandLine
from tests.scenarios.command_lines import Called
from tests.scenarios.test_cli_pubsub import REVIEW
from tests.worlds.processes import Party, Processes

_WORKFLOW = "reviewing:review"


class Cluster:
    """The commands about one workflow, each a process, with a store that all of them share."""

    def __init__(self, commands: KafkaCommandLine) -> None:
        self._commands = commands
        (commands.folder / "reviewing.py").write_text(REVIEW)

    def __call__(self, command: str, *words: str) -> Called:
        return self._commands("pubsub", command, _WORKFLOW, *words)

    def worker(self, name: str) -> Party:
        return self._commands.service(name, "pubsub", "run", _WORKFLOW)


@pytest.fixture
def environment(kafka_bootstrap: str, kafka_prefix: str) -> dict[str, str]:
    return {
        "AFL_KAFKA_BOOTSTRAP": kafka_bootstrap,
        "AFL_PREFIX": kafka_prefix,
        "AFL_TOPICS_REPLICATION": "1",
        "AFL_TOPICS_CONTROL_PARTITIONS": "2",
        "AFL_KAFKA_CONSUMER_SESSION_TIMEOUT_MS": "6000",
        "AFL_KAFKA_CONSUMER_HEARTBEAT_INTERVAL_MS": "500",
    }


@pytest.fixture
def cluster(tmp_path: Path, environment: dict[str, str], processes: Processes) -> Cluster:
    """With the requests on the topic of the workflow, as on Kafka they are where nothing else is said."""
    return Cluster(KafkaCommandLine(folder=tmp_path, processes=processes, environment=environment))


@pytest.fixture
def with_file(tmp_path: Path, environment: dict[str, str], processes: Processes) -> Cluster:
    store = {"AFL_PUBSUB_STORE": str(tmp_path / "events.sqlite3")}
    return Cluster(KafkaCommandLine(folder=tmp_path, processes=processes, environment={**environment, **store}))


@pytest.mark.parametrize("kept", ["cluster", "with_file"])
def test_a_worker_answers_requests_that_callers_send_through_the_cluster(
    kept: str, request: pytest.FixtureRequest
) -> None:
    cluster: Cluster = request.getfixturevalue(kept)
    missing = cluster("invoke", '{"order": 3}', "--remote")
    assert missing.code == 3
    assert f"afl-stream pubsub topics {_WORKFLOW} --apply" in missing.err
    assert cluster("topics", "--apply").code == 0
    worker = cluster.worker("worker")

    answered = cluster("invoke", '{"order": 3}', "--request", "r1", "--remote", "--timeout", "60")

    assert (answered.code, answered.out) == (0, 'decisions: {"approved": true, "by": "rule"}\n'), answered.err
    asked = cluster("invoke", '{"order": 30}', "--request", "r2", "--remote", "--timeout", "60")
    assert (asked.code, asked.out) == (1, 'ask: "is 30 too much?"\n'), asked.err
    assert f"afl-stream pubsub invoke {_WORKFLOW} INPUT --request r2 --topic said --remote" in asked.err
    decided = cluster("invoke", "true", "--request", "r2", "--remote", "--timeout", "60")
    assert (decided.code, decided.out) == (0, 'decisions: {"approved": true, "by": "person"}\n'), decided.err
    further = cluster("invoke", '{"order": 4}', "--request", "r1", "--remote", "--timeout", "60")
    assert (further.code, further.out) == (0, 'decisions: {"approved": true, "by": "rule"}\n'), further.err
    assert {each["status"] for each in cluster("requests", "--json").document} == {"finished"}

    assert "output decisions 0 person" in " ".join(cluster("show", "r2").out.split())

    worker.ask_to_stop()
    assert worker.exit_code() == 0
    assert "3 finished, 1 waiting" in worker.log


def test_a_failed_node_is_told_to_the_caller_from_afar(cluster: Cluster) -> None:
    assert cluster("topics", "--apply").code == 0
    cluster.worker("worker")

    called = cluster("invoke", '{"no order": 1}', "--request", "r1", "--remote", "--timeout", "60")

    assert called.code == 1
    assert "node check failed: KeyError: 'order'" in called.err


def test_without_a_worker_the_wait_ends_with_4(cluster: Cluster) -> None:
    assert cluster("topics", "--apply").code == 0

    called = cluster("invoke", '{"order": 3}', "--request", "r1", "--remote", "--timeout", "1")

    assert called.code == 4
    assert "request r1: not answered in 1 s" in called.err
