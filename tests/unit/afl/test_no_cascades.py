"""One mistake is one finding: no error is reported that only follows from another, and none is left out."""

import time

import pytest

from .checking import codes, findings


def test_a_step_of_an_unknown_or_ambiguous_facet_has_any_attributes() -> None:
    body = "facet F() andThen { s = b.G(x = 1, x2 = 2) t = F2(v = s.anything.at.all + 1) } facet F2(v: Int)"

    assert codes(f"namespace a {{ {body} }}") == ["REF_UNKNOWN_FACET"]
    ambiguous = body.replace("b.G", "G")
    text = f"namespace a {{ {ambiguous} }} namespace b {{ facet G() }} namespace c {{ facet G() }}"
    assert codes(text) == ["REF_AMBIGUOUS_FACET"]


def test_a_parameter_of_an_unknown_type_takes_and_gives_anything() -> None:
    text = (
        "namespace a { facet G() => (x: Nope) facet F(p: Nope = 1) => (r: Int) andThen {"
        " g = G() h = F(p = g) i = F(p = g.x.y + true) yield F(r = $.p.q + 1) } }"
    )
    assert codes(text) == ["REF_UNKNOWN_TYPE", "REF_UNKNOWN_TYPE", "RECURSIVE_CALL"]


def test_a_facet_declared_twice_takes_what_either_takes() -> None:
    text = (
        "namespace a { facet G(x: Int) facet G(y: String) => (z: Int) facet F() andThen {"
        " s = G(x = 1) t = G(y = 1) u = G(w = s.x + t.z) v = G(x = u.q) } }"
    )
    assert codes(text) == ["DUPLICATE_NAME", "ARG_UNKNOWN", "REF_INVALID_STEP_ATTRIBUTE"]


def test_a_facet_and_a_schema_of_one_name_are_reported_once() -> None:
    text = (
        "namespace a { facet G(x: Int) schema G { y: Int } facet F(g: G) andThen {"
        " s = G(y = 1) andThen { } t = G(x = s.y) with M() } facet M() }"
    )
    assert codes(text) == ["DUPLICATE_NAME"]


def test_two_steps_of_one_name_are_reported_once() -> None:
    text = (
        "namespace a { facet G(x: Int) facet H() => (y: Int) facet F() andThen {"
        " s = G(x = 1) s = H() t = G(x = s.x + s.y) } }"
    )
    assert codes(text) == ["DUPLICATE_STEP_NAME"]


def test_a_parameter_declared_twice_has_no_type() -> None:
    text = "namespace a { facet F(x: Int, x: String = true) facet G() andThen { f = F(x = true) } }"

    assert codes(text) == ["DUPLICATE_PARAM"]


def test_a_field_declared_twice_has_no_type() -> None:
    assert codes("namespace a { schema S { x: Int x: String } facet F() andThen { s = S(x = true) } }") == [
        "DUPLICATE_NAME"
    ]


def test_what_a_wrong_expression_gives_is_not_judged() -> None:
    text = "namespace a {{ facet G(x: Int) facet F(t: String) andThen {{ g = G(x = {}) }} }}"

    assert codes(text.format("-$.t + 1 && true")) == ["TYPE_NEGATE_STRING"]
    assert codes(text.format('($.q + "a") < true && nobody.x')) == [
        "REF_INVALID_INPUT",
        "TYPE_ORDERED_COMPARISON_BOOLEAN",
        "REF_UNDEFINED_STEP",
    ]


def test_the_values_of_a_wrong_yield_are_still_checked() -> None:
    text = "namespace a { facet F() => (y: Int) andThen { yield Nobody(y = $.q) } }"

    assert codes(text) == ["YIELD_INVALID_TARGET", "REF_INVALID_INPUT"]


def test_everything_wrong_is_found_in_one_run() -> None:
    text = """namespace a {
    use nowhere
    schema S { x: Nope }
    facet G(x: Int, x: Int) => (y: Int)
    facet M(m: Int = 1)
    implicit i = M(n = 1)
    facet F(t: String = 1) => (y: Int) with M() as t with M() as u with M(o = 1) as v script { 1 + } andThen {
        s = G(z = $.nothing)
        r = S(w = 1) with M() andThen { }
        sys.assert(1)
        q = c.D() andThen when { case "x" => { k = G(x = later.y) later = G(x = 1) } }
        yield M(m = s.nope)
        yield Nobody()
    } andThen foreach v in $.t { a = G(x = s.y) } catch when { }
    event facet P() prompt { system "{x}" }
}"""
    assert sorted(codes(text)) == sorted(
        [
            "USE_UNKNOWN_NAMESPACE",
            "REF_UNKNOWN_TYPE",
            "DUPLICATE_PARAM",
            "IMPLICIT_UNKNOWN_PARAM",
            "TYPE_ARG_MISMATCH",
            "MIXIN_ALIAS_NAME_CONFLICT",
            "ARG_UNKNOWN",
            "SCRIPT_SYNTAX",
            "ARG_UNKNOWN",
            "SCHEMA_UNKNOWN_FIELD",
            "SCHEMA_INSTANTIATION_NO_MIXINS",
            "SCHEMA_INSTANTIATION_NO_BODY",
            "SYS_ASSERT_NOT_BOOLEAN",
            "REF_UNKNOWN_FACET",
            "WHEN_MISSING_DEFAULT",
            "WHEN_CONDITION_NOT_BOOLEAN",
            "REF_FORWARD_STEP",
            "YIELD_TARGET_AMBIGUOUS",
            "REF_INVALID_STEP_ATTRIBUTE",
            "YIELD_INVALID_TARGET",
            "FOREACH_NOT_ITERABLE",
            "REF_CROSS_BLOCK_STEP",
            "WHEN_NO_CASES",
            "PROMPT_MISSING_TEMPLATE",
            "PROMPT_INVALID_PLACEHOLDER",
        ]
    )


# -- hints ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "wanted"),
    [
        ("s = Weigh(parcle = 1)", "parcel"),
        ("s = Weigh(parcel = $.amuont)", "amount"),
        ("s = n.Wieght(parcel = 1)", "n.Weigh"),
        ("s = Weigh(parcel = 1) t = Weigh(parcel = s.gramms)", "grams"),
        ("weight = Weigh(parcel = 1) t = Weigh(parcel = weihgt.grams)", "weight"),
        ("s = Size(widht = 1)", "width"),
        ("s = Weigh(parcel = $.size.widht)", "width"),
        ("s = Weigh(parcel = 1) yield Packk(total = 1)", "Pack"),
        ("s = Weigh(parcel = 1) yield Pack(totla = 1)", "total"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_likely_one(statement: str, wanted: str) -> None:
    text = (
        "namespace n { schema Size { width: Int } facet Weigh(parcel: Json) => (grams: Int)"
        f" facet Pack(amount: Int, size: Size) => (total: Int) andThen {{ {statement} }} }}"
    )
    (found,) = findings(text)

    assert found.hint == f"did you mean {wanted}?"


def test_misspelt_types_and_namespaces_are_answered_too() -> None:
    found = findings(
        "namespace shop { use shpo.prices schema Money { } facet F(m: Mony, n: Strin) } namespace shop.prices { }"
    )

    assert [item.hint for item in found] == [
        "did you mean shop.prices?",
        "did you mean shop.Money?",
        "the builtin types are String, Int, Long, Double, Boolean and Json",
    ]


def test_a_parameter_written_without_its_dollar_is_recognised() -> None:
    (found,) = findings("namespace n { facet G(x: Int) facet F(a: Int) andThen { g = G(x = a) } }")

    assert (found.code, found.hint) == ("REF_UNDEFINED_STEP", "write $.a for the parameter")


@pytest.mark.parametrize(
    ("block", "hint"),
    [
        ("andThen { s = G() } catch { t = G(x = s.x) }", "the catch of a declaration sees no steps of its blocks"),
        ("andThen when { case s.x > 1 => { } case _ => { } } andThen { s = G() }", "move that block up"),
        ("andThen { s = G() } andThen { t = G(x = s.x) }", "or into an andThen when"),
    ],
)
def test_a_step_out_of_sight_is_answered_with_what_to_do(block: str, hint: str) -> None:
    (found,) = findings(f"namespace n {{ facet G(x: Int = 1) facet F() {block} }}")

    assert hint in (found.hint or "")


def test_thousands_of_unknown_names_take_no_longer_than_others() -> None:
    declared = " ".join(f"facet Facet{n}(x: Int)" for n in range(3_000))
    called = " ".join(f"s{n} = n.Unknown{n}(x = 1)" for n in range(3_000))

    start = time.process_time()
    found = codes(f"namespace n {{ {declared} facet F() andThen {{ {called} }} }}")

    assert found == ["REF_UNKNOWN_FACET"] * 3_000
    assert time.process_time() - start < 10
