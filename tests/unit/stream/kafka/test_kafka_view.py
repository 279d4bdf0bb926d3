"""A consumer's view of a broker's answers, and of their absence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from afl_stream.kafka.offset_questions import Offsets
from afl_stream.kafka.view import KafkaView
from afl_stream.transport import BrokerView, TopicPartition, Watermarks

WHERE = TopicPartition("t", 0)
#: What the client gives for an unknown offset.
NONE = -1001
TIMED_OUT = KafkaError(KafkaError._TIMED_OUT)


class Broker:
    """Answers questions for bounds when told to; a client that has had fetches answered up to `told`."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.told = NONE
        self.asked: list[tuple[Future[Offsets], Future[Offsets]]] = []
        self.asked_ids: list[Future[Any]] = []
        self.view = KafkaView(self, self._ask_bounds, self._ask_ids, lambda: self.now_s)  # type: ignore[arg-type]

    def get_watermark_offsets(self, tp: KafkaPartition, *, cached: bool) -> tuple[int, int]:
        assert cached
        return NONE, self.told

    def _ask_bounds(self, partitions: Sequence[TopicPartition]) -> tuple[Future[Offsets], Future[Offsets]]:
        pair = (Future[Offsets](), Future[Offsets]())
        self.asked.append(pair)
        return pair

    def _ask_ids(self, names: Sequence[str]) -> Mapping[str, Future[Any]]:
        self.asked_ids.append(Future())
        return {"t": self.asked_ids[-1]}

    def answers(self, low: int | KafkaError, high: int | KafkaError) -> None:
        for future, offset in zip(self.asked[-1], (low, high), strict=True):
            future.set_result({WHERE: offset})

    def look(self, *, paused: Sequence[TopicPartition] = (), after_s: float = 2.0) -> BrokerView:
        self.now_s += after_s
        return self.view.look([WHERE], paused, ["t"])


def test_an_answer_tells_the_bounds_and_what_no_fetch_has_told_of() -> None:
    broker = Broker()
    broker.look()
    broker.answers(3, 10)
    broker.told = 6
    view = broker.look()

    assert view.bounds == {WHERE: Watermarks(low=3, high=10)}
    assert (view.unfetched, view.most_unfetched) == (4, "4 of them in t[0]")
    assert view.is_reported
    assert broker.look(paused=[WHERE]).unfetched == 0


def test_without_any_reply_to_a_fetch_the_log_counts_from_its_beginning() -> None:
    broker = Broker()
    broker.look()
    broker.answers(3, 10)

    assert broker.look().unfetched == 7


def test_an_end_that_a_fetch_has_told_is_nothing_that_waits() -> None:
    broker = Broker()
    broker.look()
    broker.answers(3, 10)
    broker.told = 10

    assert broker.look().unfetched == 0


def test_a_question_without_an_answer_is_counted_from_the_first_on() -> None:
    broker = Broker()
    broker.look()
    assert broker.look(after_s=7).unanswered_s == 7
    broker.answers(TIMED_OUT, TIMED_OUT)
    assert broker.look(after_s=8).unanswered_s == 15
    assert len(broker.asked) == 2

    broker.answers(0, 0)
    answered = broker.look(after_s=1)

    assert answered.is_reported
    assert answered.unanswered_s == 0


@pytest.mark.parametrize(
    ("code", "is_silence"),
    [
        (KafkaError._TIMED_OUT, True),
        (KafkaError._TRANSPORT, True),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, False),
        (KafkaError.NOT_LEADER_FOR_PARTITION, False),
    ],
)
def test_an_error_is_an_answer_if_a_broker_has_given_it(code: int, is_silence: bool) -> None:
    broker = Broker()
    broker.look()
    for future in broker.asked[-1]:
        future.set_exception(KafkaException(KafkaError(code)))

    assert (broker.look(after_s=5).unanswered_s > 0) is is_silence


@pytest.mark.parametrize(
    ("code", "is_silence"), [(KafkaError._TIMED_OUT, True), (KafkaError.NOT_LEADER_FOR_PARTITION, False)]
)
def test_a_partition_whose_leader_has_not_answered_is_a_silence(code: int, is_silence: bool) -> None:
    broker = Broker()
    broker.look()
    broker.answers(3, KafkaError(code))
    view = broker.look(after_s=5)

    assert (view.unanswered_s > 0) is is_silence
    assert view.bounds == {}


def test_a_member_without_partitions_asks_for_its_topics() -> None:
    broker = Broker()
    broker.view.look([], [], ["t"])
    broker.now_s += 30

    assert broker.view.look([], [], ["t"]).unanswered_s == 30
    broker.asked_ids[-1].set_result(SimpleNamespace(topic_id="x"))
    assert broker.view.look([], [], ["t"]).is_reported
