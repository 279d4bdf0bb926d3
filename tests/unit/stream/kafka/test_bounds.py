"""A question to a broker is repeated while its answer is an error that passes."""

from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import KafkaError, KafkaException

from afl_stream.kafka.bounds import answer_to

#: Codes of Kafka's protocol with which a broker answers while leaders change.
PASSING = [KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION]


class Waits:
    """A stop event on which time passes at once."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def is_set(self) -> bool:
        return False

    def set(self) -> None:
        raise AssertionError("only waited on")

    def wait(self, timeout: float | None = None) -> bool:
        self.now_s += timeout or 0.0
        return False


def answers(*given: Sequence[int] | int) -> Callable[[float], Sequence[int]]:
    """Return a question whose answers come in this order, the last for ever; a number is the code of an error."""
    left = list(given)

    def ask(_timeout_s: float) -> Sequence[int]:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, int):
            raise KafkaException(KafkaError(answer))
        return answer

    return ask


def asked(ask: Callable[[float], Sequence[int]]) -> Sequence[int]:
    waits = Waits()
    return answer_to(ask, 5.0, 0.1, stop=waits, clock_s=lambda: waits.now_s)


@pytest.mark.parametrize("code", PASSING)
def test_an_error_that_passes_is_asked_through(code: int) -> None:
    assert asked(answers(code, code, [3, 17])) == [3, 17]


def test_an_error_that_stays_is_raised_at_the_end_of_the_time() -> None:
    with pytest.raises(KafkaException, match="UNKNOWN_LEADER_EPOCH"):
        asked(answers(KafkaError.UNKNOWN_LEADER_EPOCH))


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._TIMED_OUT])
def test_any_other_error_is_raised_at_once(code: int) -> None:
    with pytest.raises(KafkaException):
        asked(answers(code, [0, 4]))
