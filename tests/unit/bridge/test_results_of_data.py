"""Data of a node becomes the result of a step: by its keys, as the only return, or as it is told."""

from __future__ import annotations

from typing import Any

import pytest

from afl.core.declared_returns import DeclaredReturns
from afl_stream.bridge.errors import ResultRefused
from afl_stream.bridge.payloads import result_of

FACET = "shop.Price"


@pytest.mark.parametrize(
    ("data", "returns", "result"),
    [
        ("tea", DeclaredReturns(("text",)), {"text": "tea"}),
        (None, DeclaredReturns(("text",)), {"text": None}),
        ([1, 2], DeclaredReturns(("list",)), {"list": [1, 2]}),
        # The only one that a result has to hold.
        (7, DeclaredReturns(("price",), ("note",)), {"price": 7}),
        (7, DeclaredReturns((), ("note",)), {"note": 7}),
        ({"text": "tea"}, DeclaredReturns(("text",)), {"text": "tea"}),
        ({"price": 1, "note": "x"}, DeclaredReturns(("price",), ("note",)), {"price": 1, "note": "x"}),
        # A map whose keys are no returns is itself the return.
        ({"a": 1}, DeclaredReturns(("json",)), {"json": {"a": 1}}),
        ({}, DeclaredReturns(("json",)), {"json": {}}),
        ({"a": 1}, DeclaredReturns(("b", "c")), {"a": 1}),
        (None, DeclaredReturns(()), {}),
        ({"a": 1}, None, {"a": 1}),
    ],
)
def test_data_without_instructions(data: object, returns: DeclaredReturns | None, result: dict[str, object]) -> None:
    assert result_of(FACET, data, None, returns) == result


@pytest.mark.parametrize("returns", [None, DeclaredReturns(("a", "b")), DeclaredReturns(())])
def test_data_that_does_not_say_what_it_is_is_refused(returns: DeclaredReturns | None) -> None:
    with pytest.raises(ResultRefused, match=r"facet shop\.Price: found 7, expected a dict of returns"):
        result_of(FACET, 7, None, returns)


@pytest.mark.parametrize(
    ("results", "result"), [("price", {"price": 7}), (lambda data: {"price": data * 2}, {"price": 14})]
)
def test_data_with_instructions(results: Any, result: dict[str, object]) -> None:
    assert result_of(FACET, 7, results, DeclaredReturns(("a", "b"))) == result
