"""Deadlines of facets by setting: which pattern counts, and which texts are none."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from afl_stream.errors import ConfigError
from afl_stream.settings.config import load_config
from afl_stream.settings.deadlines import deadlines_of

MINUTE_MS, HOUR_MS = 60_000, 3_600_000


def deadline(text: str, facet: str) -> int | None:
    found = deadlines_of(text)
    assert found is not None
    return found.of(facet)


@pytest.mark.parametrize(
    ("facet", "expected"),
    [
        ("shop.Charge", 2 * MINUTE_MS),
        ("desk.Ask", HOUR_MS),
        ("desk.night.Ask", 90_000),
        ("shop.Ship", None),
        ("other.Desk", None),
    ],
)
def test_a_facet_has_the_time_of_its_name_or_else_of_the_longest_pattern(facet: str, expected: int | None) -> None:
    assert deadline("desk.*=1h, shop.Charge=2m, desk.night.*=90s", facet) == expected


def test_a_name_wins_over_a_longer_pattern() -> None:
    assert deadline("a.B*****=1h, a.B=2m", "a.B") == 2 * MINUTE_MS


def test_no_text_gives_no_facet_a_deadline() -> None:
    found = deadlines_of(" ")

    assert found is not None
    assert not found
    assert found.of("shop.Charge") is None


@pytest.mark.parametrize(
    "text", ["shop.Charge", "shop.Charge=", "shop.Charge=2", "shop.Charge=0s", "=2m", "a b=2m", "a=1m, a=2m", "a=1m,"]
)
def test_a_text_that_is_none_is_refused_with_an_example(text: str) -> None:
    environ: Mapping[str, str] = {"AFL_EVALUATOR_DEADLINES": text}

    with pytest.raises(ConfigError, match=r"shop\.Charge=2m"):
        load_config(environ=environ)
