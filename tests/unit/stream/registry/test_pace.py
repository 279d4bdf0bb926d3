"""When a registry is left alone: after each late request without an answer, and after much time in late answers."""

from __future__ import annotations

from contextlib import suppress

import pytest

from afl_stream.errors import SchemaUnavailable
from afl_stream.registry.errors import SchemaNotRegistered
from afl_stream.registry.pace import FIRST_PAUSE_S, LONGEST_PAUSE_S, LONGEST_STRETCH_S, Pace


class Registry:
    """Requests that take as long as the test says, by a clock of its own."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.pace = Pace(lambda: self.now_s)

    def asked(self, took_s: float, error: Exception | None = None) -> None:
        """Make a request, whatever the pace says, and let it end with the error."""
        with suppress(SchemaUnavailable, KeyError), self.pace.request():
            self.now_s += took_s
            if error is not None:
                raise error

    @property
    def rests(self) -> bool:
        return self.pace.rests_because() is not None


SILENT = SchemaUnavailable("schema 7", "timed out")


def test_a_registry_that_did_not_answer_is_left_alone_longer_each_time_up_to_a_bound() -> None:
    registry = Registry()

    for pause_s in (1.0, 2.0, 4.0, LONGEST_PAUSE_S, LONGEST_PAUSE_S):
        registry.asked(2.0, SILENT)
        assert registry.pace.rests_because() == "timed out; it is asked again soon"
        registry.now_s += pause_s - 0.01
        assert registry.rests
        registry.now_s += 0.02
        assert not registry.rests


def test_an_answer_makes_the_next_pause_a_short_one() -> None:
    registry = Registry()
    registry.asked(2.0, SILENT)
    registry.asked(2.0, SILENT)
    registry.now_s += 2.1

    registry.asked(0.1)
    registry.asked(2.0, SILENT)

    registry.now_s += FIRST_PAUSE_S
    assert not registry.rests


@pytest.mark.parametrize("error", [None, SILENT])
def test_requests_that_end_soon_need_no_pause(error: SchemaUnavailable | None) -> None:
    registry = Registry()

    for _ in range(1_000):
        registry.asked(0.1, error)

    assert not registry.rests


def test_late_answers_one_after_the_other_are_followed_by_a_pause() -> None:
    registry = Registry()

    for _ in range(4):
        registry.asked(LONGEST_STRETCH_S / 5)
        assert not registry.rests
    registry.asked(LONGEST_STRETCH_S / 5)

    assert registry.pace.rests_because() == "its last answers took 10 s; it is asked again soon"
    registry.now_s += FIRST_PAUSE_S
    assert not registry.rests


def test_late_answers_with_pauses_between_them_are_asked_for_without_end() -> None:
    registry = Registry()

    for _ in range(100):
        registry.asked(LONGEST_STRETCH_S / 5)
        registry.now_s += FIRST_PAUSE_S
        assert not registry.rests


@pytest.mark.parametrize("error", [SchemaNotRegistered("afl.control", "s", "r"), KeyError("no error of a registry")])
def test_a_late_refusal_is_an_answer(error: Exception) -> None:
    registry = Registry()

    registry.asked(2.0, error)

    assert not registry.rests
