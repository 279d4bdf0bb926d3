"""One folder, the embedded log and a cluster, in either order: each has a store of its own, and no run is lost."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.kafka.test_cli_on_kafka import KafkaCommandLine, kafka_command_line
from tests.scenarios.command_lines import Called
from tests.worlds.processes import Processes

pytestmark = pytest.mark.long

Order = Callable[[KafkaCommandLine], None]


@pytest.fixture
def on_kafka(tmp_path: Path, kafka_bootstrap: str, kafka_prefix: str, processes: Processes) -> KafkaCommandLine:
    return kafka_command_line(tmp_path, kafka_bootstrap, kafka_prefix, processes)


def embedded(on_kafka: KafkaCommandLine) -> KafkaCommandLine:
    """Return the same folder without the cluster's address."""
    rest = {name: text for name, text in on_kafka.environment.items() if not name.startswith("AFL_KAFKA_")}
    return replace(on_kafka, environment=rest)


def run_in_dev(on_kafka: KafkaCommandLine) -> None:
    called = embedded(on_kafka)(
        "dev", on_kafka.program, "--handlers", on_kafka.handlers, "--input", 'hosts=["a"]', "--id", "of-dev"
    )
    assert called.code == 0, called


def run_on_the_cluster(on_kafka: KafkaCommandLine) -> None:
    on_kafka.deployed()
    started = on_kafka("start", "Watch", "--input", 'hosts=["a"]', "--id", "of-kafka")
    assert started.code == 0, started
    for words in (("evaluator",), ("agent", "--handlers", on_kafka.handlers), ("evaluator",)):
        called = on_kafka(*words, "--until-idle")
        assert called.code == 0, called


def runs(called: Called) -> dict[str, str]:
    assert called.code == 0, called
    return {run["workflow_id"]: run["status"] for run in called.document}


@pytest.mark.parametrize(
    "order",
    [(run_in_dev, run_on_the_cluster, run_in_dev), (run_on_the_cluster, run_in_dev, run_on_the_cluster)],
    ids=["dev first", "cluster first"],
)
def test_dev_and_the_cluster_share_a_folder_and_no_store(on_kafka: KafkaCommandLine, order: tuple[Order, ...]) -> None:
    for part in order:
        part(on_kafka)

    assert runs(on_kafka("status", "--json")) == {"of-kafka": "COMPLETED"}
    assert runs(embedded(on_kafka)("status", "--json")) == {"of-dev": "COMPLETED"}
    assert ".afl/store-kafka.sqlite3 (the Kafka cluster's; store.sqlite3 is the embed" in on_kafka("status").err
    assert "store .afl/store.sqlite3 (the embedded log's)" in embedded(on_kafka)("store", "check").err


def test_a_clusters_store_of_the_earlier_name_is_found_and_used_and_dev_gets_another(
    on_kafka: KafkaCommandLine,
) -> None:
    run_on_the_cluster(replace(on_kafka, environment={**on_kafka.environment, "AFL_STORE_PATH": ".afl/store.sqlite3"}))

    run_in_dev(on_kafka)
    run_on_the_cluster(on_kafka)

    assert runs(on_kafka("status", "--json")) == {"of-kafka": "COMPLETED"}
    assert ".afl/store.sqlite3 (the Kafka cluster's, from an earlier release)" in on_kafka("config").err
    assert (
        ".afl/store-embedded.sqlite3 (the embedded log's; store.sqlite3 is a Kafka" in embedded(on_kafka)("status").err
    )


def test_a_store_that_is_named_for_both_is_refused_by_the_second_with_the_embedded_logs_name(
    on_kafka: KafkaCommandLine,
) -> None:
    named = replace(on_kafka, environment={**on_kafka.environment, "AFL_STORE_PATH": "mine.sqlite3"})
    run_in_dev(named)
    named.deployed()

    refused = named("evaluator", "--until-idle")

    assert refused.code == 3, refused
    assert "mine.sqlite3 belongs to the embedded log " in refused.err
    assert refused.err.index("a cluster needs a store of its own") < refused.err.index("lost_records")


def test_dev_stays_in_its_process_and_store_where_the_settings_name_a_cluster(on_kafka: KafkaCommandLine) -> None:
    waits = on_kafka("dev", on_kafka.program, "--input", 'hosts=["a"]', "--id", "of-dev")

    assert waits.code == 1, waits
    assert "dev does not use the Kafka cluster of the settings" in waits.err
    assert "AFL_TRANSPORT=embedded afl-stream continue of-dev:" in waits.out
    assert list(runs(embedded(on_kafka)("status", "--json"))) == ["of-dev"]
    assert not (on_kafka.folder / ".afl" / "store-kafka.sqlite3").exists()
