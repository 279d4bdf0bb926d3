"""A topic that a broker lists with an error exists, unless the error says that it does not."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from afl_stream.kafka.admin import KafkaAdmin
from afl_stream.kafka.bounds import answer_to
from afl_stream.kafka.errors import Connection
from afl_stream.kafka.listed_topics import names_in, topics_in
from afl_stream.transport import BrokerUnavailable
from tests.unit.stream.kafka.mock_cluster import MockCluster, mock_cluster

TOPIC = "afl.control"


def listed(**codes: int) -> Any:
    """Return a cluster's metadata with these topics and their errors; 0 is none."""
    return SimpleNamespace(
        topics={name: SimpleNamespace(error=KafkaError(code) if code else None) for name, code in codes.items()}
    )


def test_a_topic_without_a_leader_exists() -> None:
    found = listed(there=0, leaderless=KafkaError.LEADER_NOT_AVAILABLE, gone=KafkaError.UNKNOWN_TOPIC_OR_PART)

    assert names_in(found) == {"there", "leaderless"}


@pytest.mark.parametrize("names", [None, {"there", "leaderless"}], ids=["all", "named"])
def test_the_error_of_a_wanted_topic_is_raised_with_its_name(names: set[str] | None) -> None:
    with pytest.raises(KafkaException, match=r"topic leaderless: .*[Ll]eader not available"):
        topics_in(listed(there=0, leaderless=KafkaError.LEADER_NOT_AVAILABLE), names)


def test_the_errors_of_other_topics_do_not_matter() -> None:
    found = listed(
        there=0,
        other=KafkaError.LEADER_NOT_AVAILABLE,
        gone=KafkaError.UNKNOWN_TOPIC_OR_PART,
        hidden=KafkaError.TOPIC_AUTHORIZATION_FAILED,
    )

    assert set(topics_in(found, {"there", "gone", "hidden", "never"})) == {"there"}


def test_a_topic_is_asked_for_again_until_its_error_has_passed() -> None:
    answers = [listed(t=KafkaError.LEADER_NOT_AVAILABLE), listed(t=KafkaError.REPLICA_NOT_AVAILABLE), listed(t=0)]

    assert set(answer_to(lambda _left_s: topics_in(answers.pop(0), {"t"}), 60.0, 0.0)) == {"t"}


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with mock_cluster() as cluster:
        yield cluster


@pytest.fixture
def admin(cluster: MockCluster) -> Iterator[KafkaAdmin]:
    settings = {"bootstrap.servers": cluster.address}
    admin = KafkaAdmin(settings, {**settings, "group.id": "none"}, Connection(cluster.address))
    yield admin
    admin.close()


def test_a_topic_whose_leader_does_not_come_is_not_called_missing(cluster: MockCluster, admin: KafkaAdmin) -> None:
    cluster.create_topic(TOPIC, KafkaError.LEADER_NOT_AVAILABLE)

    with pytest.raises(BrokerUnavailable, match=rf"{cluster.address}: topic {TOPIC}: .*[Ll]eader not available"):
        admin.limit_of(TOPIC)
    assert admin.topic_names() == {TOPIC}


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_TOPIC_OR_PART, None], ids=["unknown", "unlisted"])
def test_a_topic_that_is_not_there_is_not_described(cluster: MockCluster, admin: KafkaAdmin, code: int | None) -> None:
    if code is not None:
        cluster.create_topic(TOPIC, code)

    assert admin.topics([TOPIC]) == {}
    assert admin.topic_names() == frozenset()
