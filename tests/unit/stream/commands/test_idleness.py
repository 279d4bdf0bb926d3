"""When a service that ends when idle has read everything: soon on the embedded log, after a second on Kafka."""

import dataclasses

import pytest

from afl_stream.commands.idleness import Idleness, NoPartitions
from afl_stream.settings.config import KafkaSettings, StreamConfig

_ON_KAFKA = dataclasses.replace(StreamConfig(), kafka=KafkaSettings(bootstrap="127.0.0.1:9092"))


class Clock:
    """A clock that a test moves, in seconds."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def _reads_until_over(idleness: Idleness, clock: Clock, interval_s: float) -> int:
    reads = 1
    while not idleness.is_over():
        reads += 1
        clock.now_s += interval_s
    return reads


def test_on_the_embedded_log_three_empty_reads_are_enough() -> None:
    clock = Clock()

    assert _reads_until_over(Idleness(StreamConfig(), clock_s=clock), clock, 0.0) == 3


def test_on_kafka_a_second_of_silence_is_waited_for() -> None:
    clock = Clock()

    # Reads at 0, 0.25, 0.5, 0.75 and 1.0 s.
    assert _reads_until_over(Idleness(_ON_KAFKA, clock_s=clock), clock, 0.25) == 5


def test_what_is_read_begins_the_silence_anew() -> None:
    clock = Clock()
    idleness = Idleness(_ON_KAFKA, clock_s=clock)
    assert not idleness.is_over()
    clock.now_s += 0.75
    idleness.busy()

    assert _reads_until_over(idleness, clock, 0.25) == 5


def test_time_without_partitions_is_no_silence() -> None:
    clock = Clock()
    idleness = Idleness(_ON_KAFKA, clock_s=clock)
    for _ in range(59):
        assert not idleness.is_over(["afl.evaluator"])
        clock.now_s += 1.0

    assert _reads_until_over(idleness, clock, 0.25) == 5


def test_a_group_that_gives_no_partitions_in_a_minute_is_named() -> None:
    clock = Clock()
    idleness = Idleness(_ON_KAFKA, clock_s=clock)
    assert not idleness.is_over(["afl.evaluator"])
    clock.now_s += 60.0

    with pytest.raises(NoPartitions, match=r"afl\.evaluator gave this process no partitions within 60 s"):
        idleness.is_over(["afl.evaluator"])


def test_reads_that_bring_nothing_while_records_wait_are_no_idleness() -> None:
    idleness = Idleness(StreamConfig())

    assert [idleness.is_over((), has_read_all=False) for _ in range(5)] == [False] * 5
    assert [idleness.is_over((), has_read_all=True) for _ in range(3)] == [False, False, True]
