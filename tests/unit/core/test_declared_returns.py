"""Messages about a result whose names are not those that its facet declares."""

from collections.abc import Mapping

import pytest

from afl.core.declared_returns import DeclaredReturns

PRICE = DeclaredReturns(("price", "currency"), ("note",))


@pytest.mark.parametrize(
    "result",
    [
        {"price": 1, "currency": "EUR"},
        {"currency": "EUR", "price": None, "note": "x"},
    ],
    ids=str,
)
def test_a_result_with_the_declared_names_is_no_mismatch(result: Mapping[str, object]) -> None:
    assert PRICE.mismatch("shop.Price", result) is None


def test_missing_and_unknown_names_are_both_told_and_what_would_be_right() -> None:
    assert PRICE.mismatch("shop.Price", {"prise": 1, "currency": "EUR", "vat": 2}) == (
        "the result of shop.Price lacks price and has prise, vat, which shop.Price does not declare; "
        "it has to hold price, currency, and it may hold note"
    )
    assert PRICE.mismatch("shop.Price", {}) == (
        "the result of shop.Price lacks price, currency; it has to hold price, currency, and it may hold note"
    )
    assert DeclaredReturns((), ("note",)).mismatch("shop.Price", {"note": "", "nota": ""}) == (
        "the result of shop.Price has nota, which shop.Price does not declare; it may hold note"
    )


def test_what_was_told_before_is_not_missing() -> None:
    assert PRICE.mismatch("shop.Price", {"price": 1}, reported={"currency"}) is None


@pytest.mark.parametrize(
    ("result", "is_unknown"), [({}, False), ({"price": 1, "note": ""}, False), ({"prise": 1}, True)]
)
def test_a_key_that_is_not_declared_is_unknown_and_a_missing_one_is_not(
    result: Mapping[str, object], is_unknown: bool
) -> None:
    assert PRICE.has_unknown(result) is is_unknown


def test_a_mismatch_is_short_and_has_nothing_that_steers_a_terminal() -> None:
    said = PRICE.mismatch("shop.Price", {f"\x1b[2J{'x' * 5_000}{number}": 1 for number in range(1_000)})

    assert said is not None
    assert len(said) < 5_000
    assert said.isprintable()
    assert "980 more" in said
