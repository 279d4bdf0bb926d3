"""Waits for a broker end when the process, or the waiting service, is told to stop."""

import pytest

from afl.core.process.stopping import StopFlag
from afl_stream.kafka.waits import came_true
from afl_stream.outage import waited_out
from afl_stream.transport import BrokerUnavailable


def test_a_start_that_waits_for_a_broker_ends_in_the_middle_of_a_wait_when_its_caller_stops() -> None:
    attempts: list[int] = []
    reported = iter([False, True])

    def start() -> None:
        attempts.append(1)
        raise BrokerUnavailable("no broker")

    with pytest.raises(BrokerUnavailable, match="no broker"):
        waited_out(start, timeout_s=600, is_stopping=lambda: next(reported))

    # A second attempt would come after the wait.
    assert attempts == [1]


def test_a_start_continues_when_the_broker_is_back() -> None:
    answers = iter([BrokerUnavailable("no broker"), None])

    def start() -> str:
        error = next(answers)
        if error is not None:
            raise error
        return "started"

    assert waited_out(start, timeout_s=600) == "started"


def test_a_condition_of_the_cluster_is_asked_for_until_it_is_true_the_time_is_up_or_the_process_is_to_end() -> None:
    stop = StopFlag()
    stop.set()
    answers = iter([False, False, True])

    assert came_true(lambda: next(answers), 600, StopFlag())
    assert not came_true(lambda: False, 0, StopFlag())
    assert not came_true(lambda: False, 600, stop)
    assert came_true(lambda: True, 0, stop)
