"""Values and the AFL types that they fit: the published table, row by row."""

import math
from collections.abc import Mapping
from typing import Any

import pytest

from afl.core.types import type_name
from afl.core.values import ValueRefused
from afl_stream.errors import TypeUnknown
from afl_stream.wire.avro.afl_types import TypeCompiler, TypeScope
from tests.typed_values import check_value

ARRAY_OF_LONG = {"type": "ArrayType", "elementType": "Long"}
SCHEMAS: Mapping[str, Any] = {
    "shop.Item": [{"name": "sku", "type": "String"}, {"name": "price", "type": "Double"}],
    "shop.Order": [{"name": "items", "type": {"type": "ArrayType", "elementType": "shop.Item"}}],
    "tree.Node": [{"name": "label", "type": "String"}, {"name": "child", "type": "tree.Node"}],
}


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "afl_type"),
    [
        ("", "String"),
        ("żółw 🐢", "String"),
        (0, "Int"),
        (2**63 - 1, "Long"),
        (-(2**63), "Long"),
        (1.5, "Double"),
        (True, "Boolean"),
        ({"a": [1, None, "x", 2.5, False, {}]}, "Json"),
        ([1, None, 3], ARRAY_OF_LONG),
        ({"sku": "a", "price": None}, "shop.Item"),
        ({"sku": "a"}, "shop.Item"),
        ({"label": "a", "child": {"label": "b"}}, "tree.Node"),
        ({"_facet_ref": True, "step_id": "w:ab"}, "shop.Buy"),
        (nested(100), "Json"),
    ],
)
def test_a_fitting_value_is_returned_as_it_is(value: object, afl_type: object) -> None:
    assert check_value(value, afl_type, SCHEMAS) == value


@pytest.mark.parametrize("afl_type", ["String", "Int", "Long", "Double", "Boolean", "Json", ARRAY_OF_LONG, "shop.Item"])
def test_null_fits_every_type(afl_type: object) -> None:
    assert check_value(None, afl_type, SCHEMAS) is None


def test_an_integer_becomes_a_double_where_one_is_declared() -> None:
    value = check_value({"items": [{"price": 3}]}, "shop.Order", SCHEMAS)

    assert value == {"items": [{"price": 3.0}]}
    assert isinstance(value, dict)
    assert type(value["items"][0]["price"]) is float


@pytest.mark.parametrize(
    ("value", "afl_type", "said"),
    [
        (2**70, "Long", "a Long was expected, found the integer 1180591620717411303424, beyond 64 bits"),
        (2**63, "Int", "an Int was expected, found the integer 9223372036854775808, beyond 64 bits"),
        (2**70, "Json", "a JSON value was expected, found the integer 1180591620717411303424, beyond 64 bits"),
        ("7", "Long", "a Long was expected, found the String '7'"),
        (3.0, "Long", "a Long was expected, found the Double 3.0"),
        (True, "Long", "a Long was expected, found the Boolean true"),
        (False, "Double", "a Double was expected, found the Boolean false"),
        ("1.5", "Double", "a Double was expected, found the String '1.5'"),
        (math.nan, "Double", "a Double was expected, found the Double nan"),
        (math.inf, "Double", "a Double was expected, found the Double inf"),
        (-math.inf, "Json", "a JSON value was expected, found the Double -inf"),
        (2**53 + 1, "Double", "found the integer 9007199254740993, which no Double holds exactly"),
        (10**400, "Double", "a Double was expected, found the integer of 1329 bits, beyond 64 bits"),
        (1, "Boolean", "a Boolean was expected, found the integer 1"),
        (1, "String", "a String was expected, found the integer 1"),
        ("a\ud800", "String", "a String was expected, found a lone surrogate at index 1"),
        (b"x", "Json", "a JSON value was expected, found a value of Python type bytes"),
        ({1: 2}, "Json", "a JSON value was expected, found a map key that is the integer 1"),
        ({"\ud800": 2}, "Json", "found a lone surrogate at index 0"),
        ("abc", ARRAY_OF_LONG, r"a \[Long\] was expected, found the String 'abc'"),
        ({"a": 1}, ARRAY_OF_LONG, r"a \[Long\] was expected, found a map with 1 entries"),
        ([], "shop.Item", "a shop.Item was expected, found an array of 0"),
        ({"sku": "a", "colour": "red"}, "shop.Item", r"found the undeclared field 'colour' \(declared: sku, price\)"),
        ({3: "a"}, "shop.Item", "found a map key that is the integer 3"),
        (nested(101), "Json", "found a value nested deeper than 100 levels"),
        ("step", "shop.Buy", "a shop.Buy was expected, found the String 'step'"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_words(value: object, afl_type: object, said: str) -> None:
    with pytest.raises(ValueRefused, match=said):
        check_value(value, afl_type, SCHEMAS)


@pytest.mark.parametrize(
    ("value", "afl_type", "path"),
    [
        ({"items": [{}, {}, {"price": "x"}]}, "shop.Order", "payload.items[2].price"),
        ([1, "x"], ARRAY_OF_LONG, "payload[1]"),
        ({"a b": {"c": [math.nan]}}, "Json", "payload['a b'].c[0]"),
        (3, "shop.Buy", "payload"),
        ([{}, 3], {"type": "ArrayType", "elementType": "shop.Buy"}, "payload[1]"),
    ],
)
def test_a_refusal_names_the_place(value: object, afl_type: object, path: str) -> None:
    with pytest.raises(ValueRefused) as caught:
        check_value(value, afl_type, SCHEMAS, path="payload")
    assert caught.value.path == path


def test_the_refusal_reads_as_a_sentence() -> None:
    with pytest.raises(ValueRefused) as caught:
        check_value({"items": [{}, {}, {"price": "x"}]}, "shop.Order", SCHEMAS, path="payload")
    assert str(caught.value) == "payload.items[2].price: a Double was expected, found the String 'x'"


def test_a_long_found_value_is_shortened() -> None:
    with pytest.raises(ValueRefused) as caught:
        check_value("x" * 10_000, "Long")
    assert len(str(caught.value)) < 200


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)

    with pytest.raises(ValueRefused, match="an array that contains itself"):
        check_value(value, "Json")


def test_a_type_that_nobody_declared_is_an_error_of_its_own() -> None:
    with pytest.raises(TypeUnknown, match=r"'shop\.Nothing' is not a known type"):
        TypeCompiler(TypeScope(schemas=SCHEMAS)).compile("shop.Nothing")


def test_containers_are_copied() -> None:
    given = {"items": [{"sku": "a"}]}
    checked = check_value(given, "Json")

    given["items"].append({"sku": "b"})

    assert checked == {"items": [{"sku": "a"}]}


def test_array_types_are_named_as_afl_writes_them() -> None:
    assert type_name({"type": "ArrayType", "elementType": ARRAY_OF_LONG}) == "[[Long]]"
