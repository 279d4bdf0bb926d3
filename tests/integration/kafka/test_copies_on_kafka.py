"""The number of copies of topics on a cluster of three brokers, all of them up or one away."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.integration.kafka.test_cli_on_kafka import KafkaCommandLine, kafka_command_line
from tests.worlds.processes import DEADLINE_S, Processes
from tools.kafka import Cluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture
def cluster(tmp_path: Path, broker_installed: None) -> Iterator[Cluster]:
    started = Cluster.start(tmp_path / "cluster")
    yield started
    started.stop()


def plans(command_line: KafkaCommandLine) -> set[tuple[str, int, str, tuple[str, ...]]]:
    """Return the report about the topics: action, copies, copies in sync, differences."""
    called = command_line("topics", "plan", command_line.program, "--json")
    assert called.code == 0, called
    return {
        (topic["action"], topic["replication"], topic["settings"]["min.insync.replicas"], tuple(topic["differences"]))
        for topic in called.document
    }


def test_topics_have_three_copies_and_are_told_where_they_have_fewer(
    cluster: Cluster, processes: Processes, tmp_path: Path
) -> None:
    single = kafka_command_line(tmp_path, cluster.bootstrap, "single.", processes)
    nothing_set = {name: text for name, text in single.environment.items() if name != "AFL_TOPICS_REPLICATION"}
    usual = replace(single, environment={**nothing_set, "AFL_PREFIX": "usual."})
    missing = {("create", 3, "2", ())}

    assert single("topics", "apply", single.program).code == 0
    assert plans(usual) == missing
    applied = usual("topics", "apply", usual.program)

    assert applied.code == 0, applied
    assert "WARNING" not in applied.err
    assert plans(usual) == {("ok", 3, "2", ())}
    fewer = ("replication: found 1, declared 3", "min.insync.replicas: found 1, declared 2")
    assert plans(replace(single, environment={**nothing_set, "AFL_PREFIX": "single."})) == {("differs", 3, "2", fewer)}

    cluster.brokers[2].kill()
    more = replace(single, environment={**nothing_set, "AFL_PREFIX": "more."})
    eventually(lambda: plans(more) == {("create", 2, "2", ())}, DEADLINE_S)
    assert plans(usual) == {("ok", 3, "2", ())}
    assert "2 brokers, so each topic has 2 copies" in more("topics", "plan", more.program).err
