"""Values on the command line: what the declared types make of them."""

import io
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from afl.core.values import ValueRefused
from afl.engine.types import Value
from afl_stream.commands.inputs import given_inputs, json_object
from afl_stream.commands.refusals import CommandRefused

ARRAY = {"type": "ArrayType", "elementType": "String"}


@pytest.mark.parametrize(
    ("declared", "text", "value"),
    [
        ("String", "17", "17"),
        ("String", '"quoted"', '"quoted"'),
        ("String", "", ""),
        ("String", "a=b", "a=b"),
        ("Long", "17", 17),
        ("Long", "seventeen", "seventeen"),
        ("Double", "1.5e3", 1500.0),
        ("Boolean", "true", True),
        ("Boolean", "yes", "yes"),
        (ARRAY, '["a", "b"]', ["a", "b"]),
        ("Json", '{"a": [null]}', {"a": [None]}),
        ("Json", "plain text", "plain text"),
        ("Json", "[" * 100_000, "[" * 100_000),
        ("shop.Item", '{"sku": "x"}', {"sku": "x"}),
    ],
)
def test_text_is_kept_for_a_string_and_is_json_for_anything_else(declared: object, text: str, value: Value) -> None:
    assert given_inputs([f"x={text}"], None, {"x": declared}) == {"x": value}


def test_a_single_input_wins_over_the_document() -> None:
    assert given_inputs(["a=2"], '{"a": 1, "b": 3}', {"a": "Int", "b": "Int"}) == {"a": 2, "b": 3}


@pytest.mark.parametrize(
    ("pairs", "said"), [(["x"], "NAME=VALUE"), (["=1"], "NAME=VALUE"), (["x=1", "x=2"], "x is given twice")]
)
def test_a_pair_that_is_none_is_refused(pairs: Sequence[str], said: str) -> None:
    with pytest.raises(CommandRefused, match=said):
        given_inputs(pairs, None, {"x": "Int"})


@pytest.mark.parametrize(
    ("declared", "text", "said"),
    [
        ("Boolean", "True", "--input x: found True; a Boolean is written true"),
        ("Boolean", "FALSE", "--input x: found FALSE; a Boolean is written false"),
        (ARRAY, "[a, b]", r"--input x: not JSON: Expecting value \(line 1, column 2\)"),
        ("shop.Item", "{sku: 1}", "--input x: not JSON: Expecting property name"),
    ],
)
def test_a_text_that_was_meant_as_json_is_refused_with_its_mistake(declared: object, text: str, said: str) -> None:
    with pytest.raises(CommandRefused, match=said):
        given_inputs([f"x={text}"], None, {"x": declared})


def test_an_input_with_a_key_twice_is_refused_unless_it_is_text() -> None:
    twice = '{"a": 1, "a": 2}'

    with pytest.raises(CommandRefused, match="--input x: the key 'a' stands twice in one object"):
        given_inputs([f"x={twice}"], None, {"x": "Json"})
    assert given_inputs([f"x={twice}"], None, {"x": "String"}) == {"x": twice}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("{", r"line 1, column 2"),
        ("[1]", "found an array"),
        ("null", "found null"),
        ("1", "found a number"),
        ('"{}"', "found a string"),
        ('{"a": {"b": 1, "c": 2, "b": 1}}', "the key 'b' stands twice in one object"),
        ("[" * 100_000, "nested too deep"),
        ("@nowhere.json", "@nowhere.json: No such file"),
    ],
)
def test_what_is_no_json_object_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(CommandRefused, match=f"--result.*{said}"):
        json_object(text, "--result")


@pytest.mark.parametrize(
    ("number", "found"),
    [
        ("NaN", "the Double nan"),
        ("-Infinity", "the Double -inf"),
        ("1e999", "the Double inf"),
        ("9223372036854775808", "the integer 9223372036854775808"),
        ("9" * 1_000_000, "the integer of 3322 bits"),
        ('"\\ud800"', "a lone surrogate"),
    ],
)
def test_what_is_no_value_is_refused_with_its_place(number: str, found: str) -> None:
    with pytest.raises(ValueRefused, match=rf"^--result\.a\[0\]\.b: .* found {re.escape(found)}"):
        json_object(f'{{"a": [{{"b": {number}}}]}}', "--result")
    for declared in ("Double", "Json"):
        with pytest.raises(ValueRefused, match=rf"^inputs\.x: .* found {re.escape(found)}"):
            given_inputs([f"x={number}"], None, {"x": declared})
    assert given_inputs([f"x={number}"], None, {"x": "String"}) == {"x": number}


def test_a_document_may_come_from_a_file_or_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.json").write_text('{"a": 1}', encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"b": 2}'))

    assert json_object(f"@{tmp_path / 'in.json'}", "--inputs") == {"a": 1}
    assert json_object("-", "--inputs") == {"b": 2}
