"""An admin client that is not answered makes way for another one."""

from __future__ import annotations

import weakref
from concurrent.futures import Future
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from afl_stream.kafka.admin_client import RENEW_AFTER_S, RenewedClient

TIMED_OUT = KafkaException(KafkaError(KafkaError._TIMED_OUT))
NOT_THERE = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))


class Told(NamedTuple):
    offset: int


def _admin_client() -> AdminClient:
    return AdminClient({"bootstrap.servers": "", "log_level": 0})


class Renewal:
    """A client whose clock and answers the test decides."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.client = RenewedClient(_admin_client, lambda: self.now_s)
        self.first = self.client.now()

    def ask(self, outcome: Told | Exception) -> None:
        future: Future[Told] = Future()
        self.client.ask(lambda client: {"bounds": future})
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    @property
    def is_another(self) -> bool:
        return self.client.now() is not self.first


def test_a_question_in_flight_does_not_keep_the_client_that_it_was_put_to() -> None:
    renewed, question = RenewedClient(_admin_client), Future[Told]()
    client = weakref.ref(renewed.now())
    renewed.ask(lambda client: {"bounds": question})

    del renewed

    # Its answer comes on the client's own thread, where dropping the client would end the process.
    assert client() is None
    question.set_result(Told(0))


def test_a_question_that_was_not_answered_is_followed_by_one_to_another_client() -> None:
    renewal = Renewal()
    renewal.now_s += RENEW_AFTER_S

    renewal.ask(TIMED_OUT)

    assert renewal.is_another


def test_a_client_that_is_replaced_makes_way_at_once_and_only_once() -> None:
    renewal = Renewal()

    renewal.client.replace(renewal.first)
    second = renewal.client.now()
    renewal.client.replace(renewal.first)

    assert renewal.is_another
    assert renewal.client.now() is second


def test_whatever_a_broker_answers_keeps_the_client() -> None:
    renewal = Renewal()
    renewal.now_s += RENEW_AFTER_S

    for answer in (NOT_THERE, Told(0)):
        renewal.ask(answer)
        assert not renewal.is_another


def test_during_an_outage_a_client_is_given_its_time() -> None:
    renewal = Renewal()
    renewal.ask(TIMED_OUT)
    renewal.now_s += RENEW_AFTER_S - 0.5
    assert not renewal.is_another

    renewal.now_s += 0.5
    assert renewal.is_another
