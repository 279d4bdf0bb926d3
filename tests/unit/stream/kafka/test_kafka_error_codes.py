"""Every error that the client library can report has a decision, and the port's error says so."""

import re
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from afl_stream.kafka.error_codes import DECISIONS, Decision
from afl_stream.kafka.errors import transport_error
from afl_stream.transport import (
    AuthenticationFailed,
    BrokerTooOld,
    BrokerUnavailable,
    NotAuthorized,
    TransportError,
    UnknownTopic,
)

CODES = {
    name: code
    for name in dir(KafkaError)
    if name.isupper() and isinstance(code := getattr(KafkaError, name), int)
}  # fmt: skip
#: What a caller of the port gets for each decision.
RAISED: dict[Decision, type[TransportError]] = {
    Decision.PASS: BrokerUnavailable,
    Decision.WAIT: BrokerUnavailable,
    Decision.RECREATE: BrokerUnavailable,
    Decision.UNKNOWN_TOPIC: UnknownTopic,
    Decision.NOT_ALLOWED: NotAuthorized,
    Decision.AUTHENTICATION: AuthenticationFailed,
    Decision.TOO_OLD: BrokerTooOld,
}


def test_every_code_of_the_installed_library_has_a_decision() -> None:
    assert len(CODES) > 150
    assert {name for name, code in CODES.items() if code not in DECISIONS} == set()
    assert set(DECISIONS.values()) == set(Decision)


@pytest.mark.parametrize("code", [
    # Kafka's documentation calls these retriable: https://kafka.apache.org/protocol.html#protocol_error_codes
    KafkaError.INVALID_MSG, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT, KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.NETWORK_EXCEPTION,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, KafkaError.NOT_CONTROLLER,
    KafkaError.KAFKA_STORAGE_ERROR, KafkaError.FETCH_SESSION_ID_NOT_FOUND, KafkaError.INVALID_FETCH_SESSION_EPOCH,
    KafkaError.LISTENER_NOT_FOUND, KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
    KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE, KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError.THROTTLING_QUOTA_EXCEEDED, KafkaError.INCONSISTENT_TOPIC_ID, KafkaError.CONCURRENT_TRANSACTIONS,
])  # fmt: skip
def test_what_kafka_calls_retriable_is_waited_for(code: int) -> None:
    assert isinstance(transport_error(KafkaError(code), "here:1"), BrokerUnavailable)


@pytest.mark.parametrize("name", sorted(CODES))
def test_the_ports_error_is_that_of_the_decision(name: str) -> None:
    found = transport_error(KafkaError(CODES[name]), "here:1", "a.topic", "a group")

    assert type(found) is RAISED.get(DECISIONS[CODES[name]], TransportError)


def test_a_code_that_only_a_newer_broker_knows_is_waited_for() -> None:
    assert isinstance(transport_error(KafkaError(9_999), "here:1"), BrokerUnavailable)


def test_the_page_on_kafka_shows_each_decision_with_codes_that_have_it() -> None:
    page = (Path(__file__).parents[4] / "docs" / "kafka.md").read_text()
    rows = dict(re.findall(r"^\| ([^|]+) \| (`[A-Z_]+`[^|]*) \|$", page, re.MULTILINE))

    assert set(rows) == {decision.value for decision in Decision}
    for decision in Decision:
        for name in re.findall(r"`([A-Z_]+)`", rows[decision.value]):
            assert DECISIONS[CODES[name]] is decision
