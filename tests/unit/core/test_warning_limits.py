"""Warnings that a loop repeats are logged a few times, and then counted."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from afl.core.text.warning_limits import MAX_KINDS, LimitedLog


class Lines(logging.Handler):
    """What was logged."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


class Bench:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.lines = Lines()
        self.logger = logging.getLogger("tests.warning_limits")
        self.logger.propagate = False
        self.logger.addHandler(self.lines)
        self.log = LimitedLog(self.logger, max_lines=2, interval_s=60, monotonic_s=lambda: self.now_s)


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.logger.removeHandler(bench.lines)
    bench.logger.setLevel(logging.NOTSET)


def test_the_first_of_a_kind_are_logged_and_the_others_counted_until_the_interval_is_over(bench: Bench) -> None:
    for number in range(1_000):
        bench.log.warning("failures of billing.Pay", "it failed: %d", number)
    assert bench.lines.texts == ["it failed: 0", "it failed: 1"]

    bench.now_s = 60
    bench.log.warning("failures of billing.Pay", "it failed: %d", 1_000)

    assert bench.lines.texts[2:] == [
        "failures of billing.Pay: 998 more like it were not logged in the time before",
        "it failed: 1000",
    ]


def test_kinds_do_not_use_up_each_others_lines(bench: Bench) -> None:
    for number in range(10):
        bench.log.warning("a", "a %d", number)
        bench.log.error("b", "b %d", number)

    assert bench.lines.texts == ["a 0", "b 0", "a 1", "b 1"]


def test_nothing_is_said_of_lines_left_out_where_none_were(bench: Bench) -> None:
    bench.log.warning("a", "first")
    bench.now_s = 61
    bench.log.warning("a", "second")

    assert bench.lines.texts == ["first", "second"]


def test_kinds_that_come_from_outside_take_a_bounded_room(bench: Bench) -> None:
    for number in range(MAX_KINDS + 500):
        bench.log.warning(f"kind {number}", "x")

    assert len(bench.lines.texts) == MAX_KINDS + 2
    assert len(bench.log._kinds) <= MAX_KINDS + 1


def test_a_line_that_nobody_would_see_is_not_counted(bench: Bench) -> None:
    bench.logger.setLevel(logging.ERROR)
    for _ in range(5):
        bench.log.warning("a", "unseen")
    bench.logger.setLevel(logging.WARNING)
    bench.log.warning("a", "seen")

    assert bench.lines.texts == ["seen"]
