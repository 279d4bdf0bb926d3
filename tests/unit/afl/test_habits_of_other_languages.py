"""Messages to people who write AFL as they write other languages."""

import pytest

from afl.diagnostics import Severity

from .checking import findings


@pytest.mark.parametrize(
    ("steps", "cycle"),
    [
        ("s = G(x = s.y)", "s -> s"),
        ("s = G(x = t.y) t = G(x = s.y)", "s -> t -> s"),
        ("s = G(x = t.y) t = G(x = u.y) u = G(x = [s.y])", "s -> t -> u -> s"),
        ("s = G(x = t.y) t = G(x = 1) andThen { i = G(x = s.y) }", "s -> t -> s"),
    ],
)
def test_steps_that_wait_for_each_other_are_told_as_a_cycle(steps: str, cycle: str) -> None:
    text = f"namespace a {{ event facet G(x: Json) => (y: Int) facet F() andThen {{ {steps} }} }}"

    found = [item.message for item in findings(text) if item.severity is Severity.ERROR]

    assert found[0] == f"Steps wait for each other, so that none can begin: {cycle}"


@pytest.mark.parametrize(
    ("declared", "hint"),
    [
        ("string", "did you mean String?"),
        ("Integer", "did you mean Int?"),
        ("bool", "did you mean Boolean?"),
        ("float", "did you mean Double?"),
        ("Any", "did you mean Json?"),
        ("DateTime", "there is no type for points in time: give a String in ISO 8601, or a Long of milliseconds"),
        ("List", "a list type is written [String]"),
    ],
)
def test_a_type_of_another_language_gets_its_name_here(declared: str, hint: str) -> None:
    (found,) = findings(f"namespace a {{ facet F(x: {declared}) }}")

    assert (found.code, found.hint) == ("REF_UNKNOWN_TYPE", hint)


@pytest.mark.parametrize(
    ("written", "value"), [("True", "true"), ("False", "false"), ("None", "null"), ("nil", "null")]
)
def test_a_value_of_another_language_gets_its_name_here(written: str, value: str) -> None:
    default, argument = (
        findings(text)
        for text in (
            f"namespace a {{ facet F(x: Json = {written}) }}",
            f"namespace a {{ facet G(x: Json) facet F() andThen {{ s = G(x = {written}) }} }}",
        )
    )

    assert [(item.code, item.hint) for item in (*default, *argument)] == [
        ("DEFAULT_NOT_CONSTANT", f"did you mean {value}?"),
        ("REF_UNDEFINED_STEP", f"did you mean {value}?"),
    ]


@pytest.mark.parametrize("written", ["$.n", "n", "this.n", "self.n", "input.n", "F.n"])
def test_a_parameter_that_is_written_as_in_another_language_is_shown_with_its_dollar(written: str) -> None:
    found = findings(f"namespace a {{ facet G(x: Json) facet F(n: Int) andThen {{ s = G(x = {written}) }} }}")

    assert [item.hint for item in found] == ([] if written == "$.n" else ["write $.n for the parameter"])


def test_strings_are_joined_by_another_operator_than_numbers() -> None:
    (found,) = findings('namespace a { facet G(x: Json) facet F(n: String) andThen { s = G(x = $.n + "x") } }')

    assert "strings are joined with ++" in found.message
