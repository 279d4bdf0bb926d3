"""The one table of the types that are built in, and all who go by it: what fits a type fits it on every side."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import fastavro
import pytest

from afl import ast
from afl.claude.answer_checks import answer_problem
from afl.claude.tool_definitions import tool_definitions
from afl.core.limits import EXACT_IN_DOUBLE
from afl.core.types import BUILTIN_TYPES, NUMBER_TYPES, SCALAR_TYPES, TYPE_TABLE, check_typed
from afl.core.values import Flaw, Refused
from afl.engine.planning.value_checks import fitted, misfit
from afl.engine.types import infer_type_hint
from afl.engine.values.declared import DeclaredTypes, Unsure
from afl.validation import other_languages
from afl.validation.value_types import BY_NAME, inexact_integer, mismatch
from afl_stream.wire.avro.afl_types import BUILTIN_FITTINGS, TypeScope
from afl_stream.wire.payload_schema import event_schema_text

ROOT: Final = Path(__file__).parents[3]
VALUES: Final[list[Any]] = [
    True, False,
    0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**53 + 2, 2**63 - 1, -(2**63), 2**63, 10**400,
    0.0, -0.0, 3.0, 1.5, 1e308, math.nan, math.inf, -math.inf,
    "", "x", "żółw 🐢", "\ud800", "3", "true",
    [], [1, "a", None], [math.nan], {}, {"a": [1, {"b": 2.5}]}, {1: 2}, {"a": 2**70},
    {1}, b"x", Decimal("1.5"), object(),
]  # fmt: skip
PAIRS: Final = [
    pytest.param(name, value, id=f"{name}-{position}")
    for name in BUILTIN_TYPES
    for position, value in enumerate(VALUES)
]


def checked(name: str, value: object) -> Any:
    """Return the value as the type takes it, or why not."""
    try:
        return check_typed(value, name, lambda schema: None)
    except Refused as refused:
        return refused


def same(left: object, right: object) -> bool:
    return type(left) is type(right) and repr(left) == repr(right)


def event_fields() -> dict[str, Any]:
    """Return the Avro types of a facet's parameters, one of each built-in type."""
    params = [{"name": name.lower(), "type": name} for name in BUILTIN_TYPES]
    event = json.loads(event_schema_text("shop.Pay", params, TypeScope()))
    payload = next(field["type"] for field in event["fields"] if field["name"] == "payload")
    return {field["name"]: field["type"] for field in payload["fields"]}


@pytest.mark.parametrize("name", BUILTIN_TYPES)
def test_every_side_knows_every_type(name: str) -> None:
    assert BUILTIN_FITTINGS[name].name == name
    assert name in {each for row in TYPE_TABLE for each in row.afl.split(", ")}
    assert (name in BY_NAME) == (name in SCALAR_TYPES)
    assert name.lower() in event_fields()
    assert DeclaredTypes(lambda schema: None).fits({"x": name})["x"](None) is None


def test_no_side_knows_another_type() -> None:
    assert BUILTIN_FITTINGS.keys() == BUILTIN_TYPES.keys()
    assert BY_NAME.keys() == SCALAR_TYPES
    assert NUMBER_TYPES < SCALAR_TYPES < BUILTIN_TYPES.keys()
    grammar = (ROOT / "editors" / "afl.tmLanguage.json").read_text(encoding="utf-8")
    assert "|".join(BUILTIN_TYPES) in grammar
    assert other_languages.TYPE_WORDS.keys() == BUILTIN_TYPES.keys()


@pytest.mark.parametrize(("name", "value"), PAIRS)
def test_the_engine_takes_what_the_table_takes(name: str, value: object) -> None:
    expected = checked(name, value)

    if isinstance(expected, Refused):
        assert misfit(value, name, {}) is not None
    else:
        assert misfit(value, name, {}) is None
        assert same(fitted(value, name, {}), expected)


#: What expressions may make: text and keys are looked at where they come in, numbers are not.
PLAIN: Final = [
    value for value in VALUES if getattr(checked("Json", value), "flaw", None) not in (Flaw.WRONG_TYPE, Flaw.BAD_TEXT)
]


@pytest.mark.parametrize("name", BUILTIN_TYPES)
@pytest.mark.parametrize("value", PLAIN, ids=map(str, range(len(PLAIN))))
def test_the_quick_copy_of_a_value_is_what_the_check_makes_of_it(name: str, value: Any) -> None:
    expected = checked(name, value)
    try:
        copied = DeclaredTypes(lambda schema: None).fits({"x": name})["x"](value)
    except Unsure:
        # The full check is asked then. Of what fits plainly it never is.
        assert isinstance(expected, Refused) or (name == "Double" and abs(value) > EXACT_IN_DOUBLE)
    else:
        assert same(copied, expected)


@pytest.mark.parametrize(("name", "value"), PAIRS)
def test_records_hold_what_the_table_takes_as_avro_reads_it(name: str, value: object) -> None:
    expected, out = checked(name, value), bytearray()

    if isinstance(expected, Refused):
        with pytest.raises(Refused):
            BUILTIN_FITTINGS[name].write(out, value, 0)
        return
    BUILTIN_FITTINGS[name].write(out, value, 0)
    if name in SCALAR_TYPES:
        # Another implementation of Avro reads it.
        assert same(fastavro.schemaless_reader(BytesIO(bytes(out)), BUILTIN_TYPES[name].avro, None), expected)


@pytest.mark.parametrize("name", sorted(SCALAR_TYPES))
def test_an_events_schema_has_the_avro_type_of_the_table(name: str) -> None:
    assert event_fields()[name.lower()] == ["null", BUILTIN_TYPES[name].avro]


@pytest.mark.parametrize(("name", "value"), PAIRS)
def test_a_model_is_told_of_the_values_that_the_table_takes(name: str, value: object) -> None:
    expected, schema = checked(name, value), BUILTIN_TYPES[name].json_schema

    if not isinstance(expected, Refused):
        assert answer_problem(expected, schema) is None
    elif expected.flaw is Flaw.WRONG_TYPE and name in SCALAR_TYPES:
        assert answer_problem(value, schema) is not None


def test_a_tools_schema_is_that_of_the_table() -> None:
    returns = [{"name": name.lower(), "type": name} for name in BUILTIN_TYPES]
    facet = {"type": "EventFacetDecl", "name": "Ask", "params": [], "returns": returns}
    (tool,) = tool_definitions({"type": "Program", "declarations": [facet]})

    assert tool.input_schema["properties"] == {name.lower(): row.json_schema for name, row in BUILTIN_TYPES.items()}


@pytest.mark.parametrize(("name", "value"), PAIRS)
def test_the_type_of_a_value_by_itself_is_one_that_it_fits(name: str, value: object) -> None:
    expected = checked(name, value)

    if name in SCALAR_TYPES and not isinstance(expected, Refused):
        hint = infer_type_hint(expected)
        assert hint == ("Long" if name == "Int" else name)
        assert BUILTIN_TYPES[hint].kind is type(expected)


@pytest.mark.parametrize("name", sorted(SCALAR_TYPES))
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", "x"), ("integer", 1), ("integer", 2**53), ("integer", 2**53 + 1), ("double", 1.5), ("double", 3.0),
        ("boolean", True), ("null", None),
    ],
)  # fmt: skip
def test_the_compiler_refuses_the_constants_that_the_table_refuses(name: str, kind: Any, value: Any) -> None:
    literal = ast.Literal(value=value, kind=kind)
    found = mismatch(BY_NAME[name], literal) is not None or inexact_integer(BY_NAME[name], literal) is not None

    assert found == isinstance(checked(name, value), Refused)
