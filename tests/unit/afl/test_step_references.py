"""Steps as values: bare names, types that name facets, and what may be read of them."""

import pytest

from .checking import codes, findings, marked

HEAD = """
    facet Base(b: Int = 0) => (base: Int)
    event facet Survey(plot: String) => (area: Double, owner: Owner) with Base() as base_step with Marker(level = 1)
    facet Marker(level: Int = 0)
    schema Owner { name: String }
    facet Tax(of: Survey) => (due: Double)
    facet Any(x: Json)
    facet Show(owner: Owner)
"""


def of(block: str, *, head: str = "facet F(ref: Survey, o: Owner)") -> list[str]:
    return codes(f"namespace n {{ {HEAD} {head} andThen {{ {block} }} }}")


def test_a_step_is_passed_by_its_bare_name_to_a_parameter_of_its_facets_type() -> None:
    assert of('s = Survey(plot = "p") t = Tax(of = s)') == []


def test_a_step_stands_for_every_facet_that_its_own_mixes_in_at_any_depth() -> None:
    text = (
        "namespace n { facet A() facet B() with A() facet C() with B() as b facet D() with C()"
        " facet Take(a: A)"
        " facet F() andThen { d = D() a = A() t = Take(a = d) u = Take(a = a) v = Take(a = z) z = A() } }"
    )
    assert codes(text) == ["REF_FORWARD_STEP"]
    assert codes(
        "namespace n { facet A() facet B() with A() facet T(b: B) facet F() andThen { a = A() t = T(b = a) } }"
    ) == ["STEP_REF_FACET_MISMATCH"]


def test_mixins_that_mix_in_each_other_are_walked_once() -> None:
    text = (
        "namespace n { facet A() with B() facet B() with A() facet X() facet T(x: X)"
        " facet F() andThen { a = A() t = T(x = a) } }"
    )
    assert codes(text) == ["STEP_REF_FACET_MISMATCH"]


def test_a_step_of_another_facet_or_of_a_schema_does_not_fit() -> None:
    (found,) = findings(f"namespace n {{ {HEAD} facet F() andThen {{ a = Any(x = 1) t = Tax(of = a) }} }}")

    assert (found.code, found.message) == ("STEP_REF_FACET_MISMATCH", "'of' wants a Survey step, a is a Any step")
    assert of('o = Owner(name = "x") t = Tax(of = o)') == ["STEP_REF_FACET_MISMATCH"]


def test_a_reference_is_passed_on_from_a_parameter() -> None:
    assert of("t = Tax(of = $.ref)") == []
    assert of("t = Tax(of = $.other)", head="facet F(other: Any)") == ["STEP_REF_FACET_MISMATCH"]


def test_a_constant_is_no_step() -> None:
    assert of("t = Tax(of = 1)") == of('t = Tax(of = "s")') == ["TYPE_ARG_MISMATCH"]
    assert of("t = Tax(of = null)") == []


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("$.ref.area + 1", []),
        ("$.ref.plot ++ $.ref.owner.name", []),
        ("$.ref.base_step.base + $.ref.base_step.b + $.ref.level", []),
        ("$.ref.plot + 1", ["TYPE_ARITHMETIC_STRING"]),
        ("$.ref.owner.name + 1", ["TYPE_ARITHMETIC_STRING"]),
        ("$.ref.owner.age", ["SCHEMA_UNKNOWN_FIELD"]),
        ("$.ref.price", ["REF_INVALID_FACET_REF_ATTRIBUTE"]),
        ("$.ref.base_step.price", ["REF_INVALID_FACET_REF_ATTRIBUTE"]),
        ("$.ref.Marker", ["REF_INVALID_FACET_REF_ATTRIBUTE"]),
        ("$.ref.Base", ["REF_INVALID_FACET_REF_ATTRIBUTE"]),
        ("$.ref + 1", ["TYPE_ARITHMETIC_SCHEMA"]),
        ("-$.ref", ["TYPE_NEGATE_SCHEMA"]),
        ("$.ref < 1", ["TYPE_ORDERED_COMPARISON_SCHEMA"]),
        ("$.ref == null", []),
    ],
)
def test_what_is_read_of_a_reference_is_checked_and_typed(value: str, found: list[str]) -> None:
    assert of(f"a = Any(x = {value})") == found


def test_a_reference_to_a_step_with_a_parameter_of_a_facets_type_is_followed() -> None:
    text = "t = Tax(of = $.ref) a = Any(x = t.of.area)"

    assert of(text) == ["REF_INVALID_STEP_ATTRIBUTE"]  # Tax has returns, so its parameters are not read
    assert of("a = Any(x = $.tax.of.area + $.tax.of.plot)", head="facet F(tax: Tax)") == ["TYPE_ARITHMETIC_STRING"]
    assert of("a = Any(x = $.tax.of.none)", head="facet F(tax: Tax)") == ["REF_INVALID_FACET_REF_ATTRIBUTE"]


def test_the_bare_name_of_a_schemas_step_passes_the_object() -> None:
    assert of('o = Owner(name = "x") s = Show(owner = o) a = Any(x = o)') == []


def test_an_object_of_another_schema_does_not_fit() -> None:
    text = f"namespace n {{ {HEAD} schema Else {{ }} facet F() andThen {{ e = Else() s = Show(owner = e) }} }}"

    assert marked(text) == [("TYPE_ARG_MISMATCH", "e")]


@pytest.mark.parametrize(
    "value", ["s", "s ++ 1", "[s]", "#{k: s}", "s == s", "-s", "s[0]", "!s", "s in [1]", "1 in s", "(s)"]
)
def test_a_bare_step_is_no_value(value: str) -> None:
    text = f'namespace n {{ {HEAD} facet F() andThen {{ s = Survey(plot = "p") a = Any(x = {value}) }} }}'

    assert {item.code for item in findings(text)} == {"REF_INVALID_STEP_FORMAT"}


@pytest.mark.parametrize(
    "statement", ["sys.log(k = s)", "sys.assert(s)", "a = Any(x = 1) andThen when { case s => { } case _ => { } }"]
)
def test_a_bare_step_is_no_condition_and_no_log_entry(statement: str) -> None:
    assert of(f'o = Owner(name = "x") {statement.replace("s)", "o)").replace("case s", "case o")}') == [
        "REF_INVALID_STEP_FORMAT"
    ]


def test_a_bare_step_goes_to_an_unknown_facet_or_parameter_without_comment() -> None:
    assert of('s = Survey(plot = "p") e = Elsewhere(x = s)') == ["REF_UNKNOWN_FACET"]
    assert of('s = Survey(plot = "p") e = Any(y = s)') == ["ARG_UNKNOWN"]


def test_a_step_is_yielded_and_mixed_in_like_any_value() -> None:
    text = (
        "namespace n { facet A() facet M(a: A) facet F() => (a: A) with M(a = null) as m andThen {"
        " s = A() t = A() with M(a = s) yield F(a = s) yield m(a = t) } }"
    )
    assert codes(text) == []


def test_steps_of_unknown_facets_fit_everywhere() -> None:
    assert of("e = Elsewhere() t = Tax(of = e) s = Show(owner = e) a = Any(x = e)") == ["REF_UNKNOWN_FACET"]


def test_no_loop_goes_over_a_reference() -> None:
    text = f"namespace n {{ {HEAD} facet F(ref: Survey) andThen foreach v in $.ref {{ }} }}"

    assert codes(text) == ["FOREACH_NOT_ITERABLE"]


def test_types_prefer_facets_to_schemas_and_say_when_several_fit() -> None:
    text = "namespace a {{ facet T() => (x: Int) }} namespace b {{ {} T{} }} namespace c {{ facet F(t: T) }}"

    assert codes(text.format("schema", " { }")) == []
    assert codes(text.format("facet", "()")) == ["REF_AMBIGUOUS_FACET"]
