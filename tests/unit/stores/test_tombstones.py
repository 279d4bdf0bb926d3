"""Tombstones and the inputs of their workflows, and lengths of time in settings."""

import pytest

from afl.engine.model.tombstones import digest_of_inputs
from afl.engine.types import Value
from afl.engine.values.operators import values_equal
from afl_stream.settings.durations import duration_ms

SAMES: list[tuple[dict[str, Value], dict[str, Value]]] = [
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"a": 1}, {"a": 1.0}),
    ({"a": [1, {"x": None}]}, {"a": [1.0, {"x": None}]}),
    ({}, {}),
    ({"a": 0.0}, {"a": -0.0}),
    ({"a": "日本"}, {"a": "日本"}),
]
OTHERS: list[tuple[dict[str, Value], dict[str, Value]]] = [
    ({"a": 1}, {"a": True}),
    ({"a": 0}, {"a": False}),
    ({"a": 1}, {"a": "1"}),
    ({"a": None}, {}),
    ({"a": [1, 2]}, {"a": [2, 1]}),
    ({"a": []}, {"a": {}}),
    ({"a": 2**70}, {"a": 2**70 + 1}),
    ({"a": 1.5}, {"a": 1}),
]


@pytest.mark.parametrize(("one", "other"), SAMES)
def test_inputs_that_are_equal_have_one_digest(one: dict[str, Value], other: dict[str, Value]) -> None:
    assert values_equal(one, other)
    assert digest_of_inputs(one) == digest_of_inputs(other)


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_inputs_that_differ_have_two(one: dict[str, Value], other: dict[str, Value]) -> None:
    assert not values_equal(one, other)
    assert digest_of_inputs(one) != digest_of_inputs(other)


def test_a_digest_takes_what_json_has_no_word_for() -> None:
    assert digest_of_inputs({"a": float("inf"), "b": "\ud800"}) != digest_of_inputs({"a": float("-inf"), "b": "\ud800"})


@pytest.mark.parametrize(
    ("text", "ms"),
    [("30d", 2_592_000_000), ("12h", 43_200_000), ("45m", 2_700_000), ("90s", 90_000), ("0s", 0), (" 1 d", 86_400_000)],
)
def test_a_length_of_time_has_a_number_and_a_unit(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1.5h", "1 week", "30D", "1d2h", "9999999999s"])
def test_anything_else_is_none(text: str) -> None:
    assert duration_ms(text) is None
