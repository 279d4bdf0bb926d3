"""What counts as a small payload is below the limit of payloads, whatever its values are."""

import json
from typing import Any

import pytest

from afl.engine import limits
from afl.engine.execution.run_bounds import RunBounds, RunLimits
from afl.engine.values.bounds import SMALL_PAYLOAD_VALUES, small_payload_bytes
from afl.engine.values.sizes import attribute_bytes

#: The longest integer that an expression makes.
_LONGEST = (1 << limits.MAX_INTEGER_BITS) - 1


def grown(one: Any, many: int) -> dict[str, Any]:
    return {"values": [one] * many}


@pytest.mark.parametrize(
    "values",
    [
        {f"n{number}": _LONGEST for number in range(SMALL_PAYLOAD_VALUES)},
        grown(_LONGEST, 1_500),
        grown(-1.7976931348623157e308, 1_500),
        grown([], 2_500),
        grown({"\x01" * 20: None}, 300),
        grown("", 5_000),
        {"text": "\x01" * 15_000},
        {"text": "\U0001f600" * 5_000},
        {"\x01" * 10_000: "x"},
    ],
    ids=["integers", "integers in a list", "doubles", "lists", "maps", "texts", "escapes", "wide", "a long name"],
)
def test_a_small_payload_is_below_the_limit_as_json(values: dict[str, Any]) -> None:
    bounds, size = RunBounds(), attribute_bytes(values)

    assert bounds.is_small(values, size)
    assert len(json.dumps(values, ensure_ascii=False).encode()) <= limits.near(limits.MAX_PAYLOAD_BYTES)


@pytest.mark.parametrize(
    "values",
    [
        {f"n{number}": 1 for number in range(SMALL_PAYLOAD_VALUES + 1)},
        {"text": "x" * small_payload_bytes(limits.MAX_PAYLOAD_BYTES)},
        {"x" * (small_payload_bytes(limits.MAX_PAYLOAD_BYTES) + 1): 1},
    ],
    ids=["many", "large", "a long name"],
)
def test_what_is_many_or_large_is_looked_at(values: dict[str, Any]) -> None:
    assert not RunBounds().is_small(values, attribute_bytes(values))


def test_nothing_is_small_under_a_low_limit() -> None:
    assert not RunBounds(RunLimits(max_payload_bytes=1_000)).is_small({"n": 1}, 0)
