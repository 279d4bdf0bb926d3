"""Clocks."""

import time

import pytest

from afl.core.clock import ManualClock, SystemClock


def test_a_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(1_000)

    assert (clock.now_ms(), clock.now_ms()) == (1_000, 1_000)
    clock.advance(250)
    assert clock.now_ms() == 1_250


def test_a_manual_clock_refuses_to_go_back() -> None:
    with pytest.raises(ValueError, match="-1 ms"):
        ManualClock().advance(-1)


def test_the_system_clock_counts_milliseconds_since_the_epoch() -> None:
    before = int(time.time() * 1000)
    now_ms = SystemClock().now_ms()

    assert before <= now_ms <= int(time.time() * 1000) + 1
