"""Questions for offsets: put one after the other, split where one topic spoils them, never put when it is too late."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from afl_stream.kafka.offset_questions import FIRST, NEXT, OffsetQuestions, Offsets
from afl_stream.transport import TopicPartition, TransportError

KEPT, GONE = TopicPartition("kept", 0), TopicPartition("gone", 0)
ADDED = TopicPartition("kept", 1)
WAIT_S = 20.0


class Brokers:
    """Tells offsets as a consumer of librdkafka does: an error about one partition may be raised about all."""

    def __init__(self, offsets: Mapping[TopicPartition, int | KafkaError]) -> None:
        self.offsets = dict(offsets)
        self.known = {KEPT, GONE}
        self.asked: list[list[TopicPartition]] = []
        self.metadata = 0
        self.gate = threading.Event()
        self.gate.set()

    def offsets_for_times(self, tps: Sequence[KafkaPartition], timeout: float) -> list[KafkaPartition]:
        assert timeout > 0
        self.gate.wait(WAIT_S)
        self.asked.append([TopicPartition(tp.topic, tp.partition) for tp in tps])
        answer = []
        for partition, tp in zip(self.asked[-1], tps, strict=True):
            told = self.offsets[partition] if partition in self.known else KafkaError(KafkaError._UNKNOWN_PARTITION)
            if isinstance(told, KafkaError):
                raise KafkaException(told)
            answer.append(KafkaPartition(tp.topic, tp.partition, told))
        return answer

    def list_topics(self, timeout: float) -> None:
        self.metadata += 1
        self.known |= self.offsets.keys()

    def poll(self, timeout_s: float) -> None:
        assert timeout_s == 0


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def questions_to(brokers: Brokers, clock: Clock) -> OffsetQuestions:
    return OffsetQuestions(lambda: brokers, clock)  # type: ignore[arg-type, return-value]  # what is used of a consumer


@pytest.fixture
def answering(clock: Clock) -> Iterator[tuple[Brokers, OffsetQuestions]]:
    brokers = Brokers({KEPT: 5, GONE: KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), ADDED: 7})
    questions = questions_to(brokers, clock)
    yield brokers, questions
    brokers.gate.set()
    questions.close()


def codes(answer: Offsets) -> dict[TopicPartition, int]:
    return {partition: told if isinstance(told, int) else told.code() for partition, told in answer.items()}


def test_one_topic_that_is_refused_hides_no_other(answering: tuple[Brokers, OffsetQuestions]) -> None:
    brokers, questions = answering

    answer = questions.ask({KEPT: NEXT, GONE: NEXT}, 5.0).result(WAIT_S)

    assert codes(answer) == {KEPT: 5, GONE: KafkaError.UNKNOWN_TOPIC_OR_PART}
    assert brokers.asked == [[KEPT, GONE], [GONE], [KEPT]]


def test_a_partition_that_the_client_does_not_know_is_looked_up_once(
    answering: tuple[Brokers, OffsetQuestions],
) -> None:
    brokers, questions = answering

    assert questions.ask({ADDED: NEXT}, 5.0).result(WAIT_S) == {ADDED: 7}
    assert brokers.metadata == 1


def test_a_partition_that_no_broker_knows_is_told_in_a_brokers_words(
    answering: tuple[Brokers, OffsetQuestions],
) -> None:
    brokers, questions = answering
    brokers.known.clear()
    del brokers.offsets[ADDED]

    answer = questions.ask({ADDED: NEXT}, 5.0).result(WAIT_S)

    assert codes(answer) == {ADDED: KafkaError.UNKNOWN_TOPIC_OR_PART}


@pytest.mark.parametrize(
    ("told", "at", "expected"),
    [
        (-1, 1_000, -1),
        (-1, NEXT, KafkaError._TIMED_OUT),
        (-1, FIRST, KafkaError._TIMED_OUT),
        (-1001, 1_000, KafkaError._TIMED_OUT),
        (0, FIRST, 0),
    ],
)
def test_no_record_since_a_time_is_an_answer_and_no_offset_of_an_end_is_none(
    answering: tuple[Brokers, OffsetQuestions], told: int, at: int, expected: int
) -> None:
    brokers, questions = answering
    brokers.offsets[KEPT] = told

    assert codes(questions.ask({KEPT: at}, 5.0).result(WAIT_S)) == {KEPT: expected}


def test_a_question_whose_time_was_over_while_it_waited_is_not_put(
    answering: tuple[Brokers, OffsetQuestions], clock: Clock
) -> None:
    brokers, questions = answering
    brokers.gate.clear()
    first, second = questions.ask({KEPT: NEXT}, 60.0), questions.ask({KEPT: FIRST}, 5.0)
    clock.now_s += 6.0
    brokers.gate.set()

    assert first.result(WAIT_S) == {KEPT: 5}
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        second.result(WAIT_S)
    assert len(brokers.asked) == 1


def test_an_unanswered_question_is_repeated_in_short_calls_until_its_time_is_over(clock: Clock) -> None:
    class Silent(Brokers):
        def offsets_for_times(self, tps: Sequence[KafkaPartition], timeout: float) -> list[KafkaPartition]:
            assert 0 < timeout <= 2.5
            clock.now_s += timeout
            self.asked.append([])
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    brokers = Silent({})

    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        questions_to(brokers, clock).ask({KEPT: NEXT}, 5.0).result(WAIT_S)
    assert len(brokers.asked) == 2


def test_nothing_is_asked_once_it_is_closed(answering: tuple[Brokers, OffsetQuestions]) -> None:
    brokers, questions = answering
    questions.close()

    with pytest.raises(TransportError, match="closed"):
        questions.ask({KEPT: NEXT}, 5.0).result(WAIT_S)
    assert brokers.asked == []
