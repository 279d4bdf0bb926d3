"""Mixins, implicits, and where the values of parameters come from."""

import pytest

from .checking import codes, findings, marked

HEAD = """
    facet Retry(times: Int, pause: Int = 1) => (policy: String)
    facet Plain(x: Int)
    event facet Pull(url: String, times: Int) => (rows: Json)
"""


def of(rest: str) -> list[str]:
    return codes(f"namespace n {{ {HEAD} {rest} }}")


def missing(rest: str) -> list[str]:
    return [item.message for item in findings(f"namespace n {{ {HEAD} {rest} }}") if item.code == "ARG_MISSING"]


# -- mixins -----------------------------------------------------------------------------------------------------------


def test_arguments_of_mixins_are_checked_like_those_of_calls() -> None:
    text = (
        "namespace n { facet M(a: Int) facet F() with M(b = 1, a = 1, a = $.q) as m\n"
        "facet G() andThen { s = F() with M(c = s.x, a = true) } }"
    )
    assert marked(text) == [
        ("ARG_UNKNOWN", "b"),
        ("ARG_DUPLICATE", "a"),
        ("REF_INVALID_INPUT", "$.q"),
        ("ARG_UNKNOWN", "c"),
        ("REF_FORWARD_STEP", "s.x"),
        ("TYPE_ARG_MISMATCH", "true"),
    ]


def test_arguments_of_a_signatures_mixins_see_its_parameters_and_no_steps() -> None:
    assert not of("facet F(n: Int) with Retry(times = $.n + 1) as r")
    assert of("facet F(n: Int) with Retry(times = $.r) as r") == ["REF_INVALID_INPUT"]
    assert of("facet F(n: Int) with Retry(times = s.x) as r andThen { s = Plain(x = 1) }") == ["REF_UNDEFINED_STEP"]


def test_an_unknown_mixin_is_a_warning_when_short_and_an_error_when_qualified() -> None:
    found = findings(
        "namespace n { facet F() with Special(x = 1) with n.Other()"
        " facet G() andThen { s = F() with Local() with m.X() } }"
    )
    assert [(item.code, item.is_error) for item in found] == [
        ("REF_UNKNOWN_FACET", is_error) for is_error in [False, True] * 2
    ]


def test_the_timeout_mixin_is_known_without_a_declaration() -> None:
    assert not of('facet F() andThen { p = Pull(url = "u", times = 1) with Timeout(minutes = 2, ms = 5) }')
    assert of("event facet F() with Timeout(minute = 2)") == ["ARG_UNKNOWN"]
    assert of("facet Timeout(minute: Int) facet F() with Timeout(minute = 2)") == []


def test_a_schema_is_no_mixin() -> None:
    assert of("schema S { x: Int } facet F() with n.S(x = 1)") == ["REF_UNKNOWN_FACET"]


@pytest.mark.parametrize(
    ("signature", "clash"),
    [
        ("F(m: Int)", "a parameter"),
        ("F() => (m: Int)", "a return"),
        ("F() with Retry(times = 1) as m", "another alias"),
    ],
)
def test_an_alias_clashes_with_parameters_returns_and_other_aliases(signature: str, clash: str) -> None:
    (found,) = findings(f"namespace n {{ {HEAD} facet {signature} with Plain(x = 1) as m }}")

    assert (found.code, found.message) == (
        "MIXIN_ALIAS_NAME_CONFLICT",
        f"Alias 'm' of this mixin is {clash} of the signature already",
    )


def test_the_map_of_an_alias_is_an_input_of_the_body_with_parameters_and_returns() -> None:
    body = "facet F() with Retry(times = 2) as r andThen {{ s = Plain(x = {}) }}"

    assert of(body.format("$.r.times + $.r.pause")) == []
    assert of(body.format("$.r.policy + 1")) == ["TYPE_ARITHMETIC_STRING"]
    assert of(body.format("$.r + 1")) == ["TYPE_ARITHMETIC_SCHEMA"]
    assert of(body.format("$.r.missing")) == ["REF_INVALID_FACET_REF_ATTRIBUTE"]
    assert of("facet F() with Retry(times = 2) andThen { s = Plain(x = $.Retry.times) }") == ["REF_INVALID_INPUT"]


def test_undeclared_arguments_of_mixins_without_alias_are_inputs_too() -> None:
    assert not of("facet F() with Retry(times = 2) andThen { s = Plain(x = $.times) }")
    assert not of("facet F() andThen { p = Plain(x = 1) with Retry(times = 2) andThen { s = Plain(x = $.times) } }")


def test_the_alias_of_a_calls_mixin_is_an_attribute_of_the_step() -> None:
    assert not of(
        "facet F() andThen { p = Plain(x = 1) with Retry(times = 2) as r andThen { s = Plain(x = $.r.times) }"
        " q = Plain(x = p.r.times) }"
    )


# -- values of parameters ---------------------------------------------------------------------------------------------


def test_parameters_may_come_from_mixins_of_the_call_and_of_the_signature() -> None:
    assert missing('facet F() andThen { p = Pull(url = "u") with Retry(times = 2) }') == []
    assert missing("facet G(times: Int) with Retry(times = 2) facet F() andThen { p = G() }") == []


def test_an_aliased_mixin_supplies_nothing() -> None:
    wanted = ["'Pull' is called without times: no default stands in"]

    assert missing('facet F() andThen { p = Pull(url = "u") with Retry(times = 2) as r }') == wanted


def test_an_aliased_mixin_of_a_signature_needs_its_own_parameters() -> None:
    assert missing("facet F() with Retry() as r") == ["'Retry' is called without times: no default stands in"]
    assert (
        missing("facet F() with Retry()") == missing("facet F() andThen { p = Plain(x = 1) with Retry() as r }") == []
    )


def test_an_implicit_supplies_parameters() -> None:
    call = 'facet F() andThen { p = Pull(url = "u") }'

    assert missing(f"implicit i = Pull(times = 3) {call}") == []
    assert len(missing(f'implicit i = Pull(url = "u") {call}')) == 1


def test_the_nearest_implicit_counts_and_counts_alone() -> None:
    near, far_call = 'implicit i = Pull(url = "n")', "facet G() andThen { p = near.Pull() }"
    text = f"""
        namespace far {{ implicit j = near.Pull(url = "f", times = 1) {far_call} }}
        namespace near {{ event facet Pull(url: String, times: Int) {near} }}
        namespace own {{ use near facet F() andThen {{ p = Pull() }} }}
    """
    (found,) = findings(text)

    assert (found.code, found.line) == ("ARG_MISSING", 4)
    assert codes(text.replace(near, "")) == []


def test_a_misspelt_argument_is_not_reported_as_missing_as_well() -> None:
    (found,) = findings("namespace n { facet G(value: Int) facet F() andThen { s = G(valeu = 1) } }")

    assert (found.code, found.hint) == ("ARG_UNKNOWN", "did you mean value?")


# -- implicits --------------------------------------------------------------------------------------------------------


def test_the_target_of_an_implicit_is_resolved_like_a_call() -> None:
    assert codes("namespace a { facet G(x: Int) } namespace b { use a implicit g = G(x = 1) }") == []
    assert codes("facet G(x: Int) implicit g = G(x = 1)") == []
    found = findings("namespace b { implicit g = G(x = 1) implicit h = a.G(x = 1) }")
    assert [(item.code, item.is_error) for item in found] == [("REF_UNKNOWN_FACET", False), ("REF_UNKNOWN_FACET", True)]
    assert codes("namespace a { schema S { x: Int } implicit s = a.S(x = 1) }") == ["REF_UNKNOWN_FACET"]


def test_arguments_of_an_implicit_are_parameters_given_once_and_of_their_type() -> None:
    text = "namespace n { facet G(x: Int) implicit g = G(x = true, x = 1, y = 2) }"

    assert marked(text) == [("TYPE_ARG_MISMATCH", "true"), ("ARG_DUPLICATE", "x"), ("IMPLICIT_UNKNOWN_PARAM", "y")]


def test_arguments_of_an_implicit_are_constants() -> None:
    assert of('implicit p = Plain(x = 1 + 2 * -3) implicit q = Pull(url = "a" ++ 1, times = [1, 2][0])') == []
    assert of("implicit p = Plain(x = $.x + s.y)") == ["IMPLICIT_NOT_CONSTANT"] * 2


def test_names_of_implicits_are_in_no_pool() -> None:
    assert of("implicit Plain = Plain(x = 1) implicit Plain = Plain(x = 2)") == []
