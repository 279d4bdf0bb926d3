"""JSON Schemas of payloads and results accept what a type accepts, and refuse what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from afl.core.declared_returns import DeclaredReturns
from afl_stream.errors import TypeUnknown
from afl_stream.wire.avro.afl_types import TypeScope
from afl_stream.wire.json_schema import payload_json_schema, result_json_schema

SCOPE = TypeScope(
    schemas={
        "shop.Order": [
            {"name": "id", "type": "String"},
            {"name": "lines", "type": {"type": "ArrayType", "elementType": "shop.Line"}},
        ],
        "shop.Line": [{"name": "count", "type": "Int"}, {"name": "part_of", "type": "shop.Line"}],
    },
    facets=frozenset({"shop.Charge"}),
)


def schema_of(afl_type: object) -> dict[str, Any]:
    schema = payload_json_schema("shop.F", [{"name": "x", "type": afl_type}], SCOPE)
    Draft202012Validator.check_schema(schema)
    return schema


def fits(afl_type: object, value: object) -> bool:
    return bool(Draft202012Validator(schema_of(afl_type)).is_valid({"x": value}))


def array(element: object) -> dict[str, object]:
    return {"type": "ArrayType", "elementType": element}


@pytest.mark.parametrize(
    ("afl_type", "good", "bad"),
    [
        ("String", ["", "日本"], [1, True, []]),
        ("Int", [0, 2**63 - 1, -(2**63)], [2**63, 1.5, "1", True]),
        ("Long", [0, 2**63 - 1, -(2**63)], [2**63, 1.5, "1"]),
        ("Double", [1.5, 3, -0.0], ["1.5", True]),
        ("Boolean", [True, False], [0, "true"]),
        ("Json", [1, "a", [1, {"a": None}]], []),
        (array("Long"), [[], [1, None, 2]], [["a"], {}, "ab"]),
        (array(array("String")), [[["a"], None]], [["a"]]),
        ("shop.Charge", [{}, {"receipt": "r"}], [[], "step"]),
        ("shop.Line", [{}, {"count": 1}, {"count": None, "part_of": {"count": 2}}], [{"counts": 1}, {"count": "1"}]),
        (
            "shop.Order",
            [{"id": "1", "lines": [{"count": 1}, None]}],
            [{"lines": [{"count": 1.5}]}, {"lines": {}}, {"id": "1", "note": ""}],
        ),
    ],
)
def test_values_of_a_type_fit_its_schema_and_others_do_not(afl_type: object, good: list[Any], bad: list[Any]) -> None:
    assert [value for value in [None, *good] if not fits(afl_type, value)] == []
    assert [value for value in bad if fits(afl_type, value)] == []


def test_a_payload_may_lack_parameters_and_have_more() -> None:
    validator = Draft202012Validator(schema_of("Int"))

    assert validator.is_valid({})
    assert validator.is_valid({"x": 1, "mixed_in": "too"})


@pytest.mark.parametrize(
    ("declared", "good", "bad"),
    [
        (DeclaredReturns(("a",), ("b",)), [{"a": 1}, {"a": None, "b": "x"}], [{}, {"b": "x"}, {"a": 1, "c": 1}]),
        (DeclaredReturns((), ("a", "b")), [{}, {"a": 1}], [{"c": 1}]),
        (None, [{}, {"anything": 1}], [1]),
    ],
)
def test_a_result_has_the_returns_that_are_declared(
    declared: DeclaredReturns | None, good: list[Any], bad: list[Any]
) -> None:
    returns = [] if declared is None else [{"name": "a", "type": "Int"}, {"name": "b", "type": "String"}]
    schema = result_json_schema("shop.F", returns, declared, SCOPE)
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)

    assert [value for value in good if not validator.is_valid(value)] == []
    assert [value for value in bad if validator.is_valid(value)] == []


def test_a_type_that_nobody_declares_is_refused_by_its_place() -> None:
    with pytest.raises(TypeUnknown, match="parameter x"):
        schema_of(array("shop.Nothing"))
