"""A topic that a broker does not list is asked for by its name: it is missing, hidden, or not known right now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException

from afl_stream.kafka.errors import error_of, passes
from afl_stream.kafka.topic_ids import AskIds, hidden_topics, unknown_partition, unlisted
from afl_stream.transport import BrokerUnavailable, NotAuthorized, TopicPartition, TransportError, UnknownTopic

TOPIC = "afl.control"


def broker_that_says(error: BaseException | None) -> AskIds:
    """Return what asks a broker that gives this answer about every topic."""

    def ask(names: Sequence[str]) -> Mapping[str, Future[Any]]:
        answers: dict[str, Future[Any]] = {name: Future() for name in names}
        for answer in answers.values():
            answer.set_result(None) if error is None else answer.set_exception(error)
        return answers

    return ask


def refusal(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


def test_a_topic_that_the_user_may_not_describe_is_hidden() -> None:
    ask = broker_that_says(refusal(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    found = unlisted(ask, TOPIC)

    assert hidden_topics(ask, [TOPIC, "afl.commands"]) == {TOPIC, "afl.commands"}
    assert isinstance(found, NotAuthorized)
    assert "an ACL for this user is missing: Describe on topic afl.control" in str(found)


@pytest.mark.parametrize(
    "error",
    [
        refusal(KafkaError.UNKNOWN_TOPIC_OR_PART),
        refusal(KafkaError._TIMED_OUT),
        refusal(KafkaError.UNSUPPORTED_VERSION),
        TimeoutError(),
        BrokerUnavailable("told to end"),
        None,
    ],
    ids=str,
)
def test_what_is_not_told_to_be_hidden_is_missing(error: BaseException | None) -> None:
    ask = broker_that_says(error)

    assert hidden_topics(ask, [TOPIC]) == frozenset()
    assert isinstance(unlisted(ask, TOPIC), UnknownTopic)


def test_a_client_that_is_closed_hides_nothing() -> None:
    def closed(_names: Sequence[str]) -> Mapping[str, Future[Any]]:
        raise TransportError("this admin client is closed")

    assert hidden_topics(closed, [TOPIC]) == frozenset()


def test_nothing_is_asked_about_no_topic() -> None:
    def ask(_names: Sequence[str]) -> Mapping[str, Future[Any]]:
        raise AssertionError("asked")

    assert hidden_topics(ask, []) == frozenset()


class Partition(NamedTuple):
    id: int


class Description(NamedTuple):
    partitions: list[Partition]


class Describing:
    """A broker that describes a topic of two partitions, and counts the questions."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.asked = 0

    def __call__(self, names: Sequence[str]) -> Mapping[str, Future[Any]]:
        self.asked += 1
        answer: Future[Any] = Future()
        if self.error is None:
            answer.set_result(Description([Partition(0), Partition(1)]))
        else:
            answer.set_exception(self.error)
        return dict.fromkeys(names, answer)


@pytest.mark.parametrize(("number", "expected"), [(0, KafkaException), (1, KafkaException), (2, UnknownTopic)])
def test_a_partition_that_is_described_is_asked_for_again(number: int, expected: type[Exception]) -> None:
    found = unknown_partition(Describing(), TopicPartition(TOPIC, number))

    assert type(found) is expected
    assert not isinstance(found, KafkaException) or passes(error_of(found))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (refusal(KafkaError.UNKNOWN_TOPIC_OR_PART), UnknownTopic),
        (refusal(KafkaError.UNSUPPORTED_VERSION), UnknownTopic),
        (TimeoutError(), KafkaException),
        (refusal(KafkaError._TIMED_OUT), KafkaException),
        (BrokerUnavailable("told to end"), BrokerUnavailable),
        (refusal(KafkaError.TOPIC_AUTHORIZATION_FAILED), NotAuthorized),
        (refusal(KafkaError.LEADER_NOT_AVAILABLE), KafkaException),
    ],
    ids=str,
)
def test_one_description_says_what_an_unknown_partition_is(error: Exception, expected: type[Exception]) -> None:
    broker = Describing(error)

    assert type(unknown_partition(broker, TopicPartition(TOPIC, 0))) is expected
    assert broker.asked == 1
