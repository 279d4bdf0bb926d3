"""Visible names: steps, foreach variables, `$`, and the targets of yields, at every depth."""

import pytest

from tests.unit.afl.checking import check_texts

from .programs import BILLING, EVERYTHING

DECLARATIONS = """
    event facet Probe(id: Int) => (value: Int, items: [Json])
    facet Note(text: Json)
"""


def findings(body: str, *, head: str = "workflow W(a: Int, xs: [Int]) => (r: Int = 0)") -> list[str]:
    text = f"namespace n {{ {DECLARATIONS} {head} {body} }}"
    return [item.code for item in check_texts([(text, None)]).diagnostics]


def all_findings(text: str) -> list[str]:
    return [item.code for item in check_texts([(text, None)]).diagnostics]


# -- steps ------------------------------------------------------------------------------------------------------------


def test_a_body_sees_its_step_and_what_that_step_sees() -> None:
    assert not findings(
        "andThen { p = Probe(id = 1) q = Probe(id = p.value) andThen {"
        " n = Note(text = q.value ++ p.value) andThen { m = Note(text = n.text ++ q.value ++ p.value) } } }"
    )


def test_a_body_does_not_see_steps_below_its_own() -> None:
    assert findings("andThen { p = Probe(id = 1) andThen { n = Note(text = q.value) } q = Probe(id = 1) }") == [
        "REF_FORWARD_STEP"
    ]


def test_steps_of_a_nested_body_are_not_seen_from_outside() -> None:
    assert findings("andThen { p = Probe(id = 1) andThen { n = Note(text = 1) } m = Note(text = n.text) }") == [
        "REF_UNDEFINED_STEP"
    ]


def test_a_step_does_not_see_itself_in_its_own_arguments() -> None:
    assert findings("andThen { n = Note(text = n.text) }") == ["REF_FORWARD_STEP"]


def test_clauses_of_one_step_do_not_see_each_other() -> None:
    assert findings(
        "andThen { p = Probe(id = 1) andThen { n = Note(text = 1) } andThen { m = Note(text = n.text) } }"
    ) == ["REF_CROSS_BLOCK_STEP"]


def test_the_same_step_name_in_two_clauses_is_fine() -> None:
    assert not findings("andThen { n = Note(text = 1) } andThen { n = Note(text = 2) }")


def test_a_foreach_goes_over_what_is_visible_where_it_stands() -> None:
    assert not findings("andThen { p = Probe(id = 1) andThen foreach v in p.items { n = Note(text = $.v.x) } }")
    assert findings("andThen { p = Probe(id = 1) } andThen foreach v in p.items { }") == ["REF_CROSS_BLOCK_STEP"]
    assert findings("andThen foreach v in $.nothing { }") == ["REF_INVALID_INPUT"]
    assert findings("andThen foreach v in p.items { p = Probe(id = 1) }") == ["REF_UNDEFINED_STEP"]


def test_attributes_of_a_step_with_an_unknown_facet_are_not_judged() -> None:
    assert findings("andThen { s = Elsewhere(x = 1) n = Note(text = s.anything.at.all) }") == ["REF_UNKNOWN_FACET"]


# -- foreach variables and $ ------------------------------------------------------------------------------------------


def test_a_foreach_variable_is_read_in_all_forms_and_depths() -> None:
    assert not findings(
        "andThen foreach v in $.xs { n = Note(text = $.v ++ v) andThen { m = Note(text = $.v ++ v ++ v.field) } }"
    )


def test_a_foreach_variable_is_unknown_outside_its_block() -> None:
    assert findings("andThen foreach v in $.xs { } andThen { n = Note(text = $.v ++ v) }") == [
        "REF_INVALID_INPUT",
        "REF_UNDEFINED_STEP",
    ]


def test_a_foreach_variable_hides_a_parameter_with_its_type() -> None:
    assert findings("andThen foreach a in $.a { n = Note(text = 1) }") == ["FOREACH_NOT_ITERABLE"]
    text = 'andThen foreach xs in $.xs { n = Note(text = $.xs + "x") }'
    assert findings(text) == ["TYPE_ARITHMETIC_STRING"]


def test_a_step_hides_a_foreach_variable_of_its_name() -> None:
    assert findings("andThen foreach v in $.xs { v = Probe(id = 1) n = Note(text = v.nothing) }") == [
        "REF_INVALID_STEP_ATTRIBUTE"
    ]


def test_a_body_reads_parameters_and_returns_of_its_step_as_inputs() -> None:
    assert not findings(
        "andThen { p = Probe(id = 1) andThen { n = Note(text = $.id ++ $.value ++ $.a ++ $.items[0]) } }"
    )


def test_inputs_of_a_body_are_unknown_outside_it() -> None:
    assert findings("andThen { p = Probe(id = 1) andThen { } n = Note(text = $.value) }") == ["REF_INVALID_INPUT"]


def test_returns_of_the_declaration_are_no_inputs() -> None:
    assert findings("andThen { n = Note(text = $.r) }") == ["REF_INVALID_INPUT"]


def test_a_return_hides_a_parameter_of_the_step_of_the_same_name() -> None:
    text = (
        "namespace n { facet G(x: String) => (x: Int) facet F() andThen {"
        ' g = G(x = "a") andThen { h = G(x = $.x - 1 ++ "") } } }'
    )
    assert all_findings(text) == []


def test_inputs_in_the_body_of_an_unknown_facet_are_not_judged() -> None:
    assert findings("andThen { s = Elsewhere() andThen { n = Note(text = $.anything) } }") == ["REF_UNKNOWN_FACET"]


# -- yields -----------------------------------------------------------------------------------------------------------


def test_a_nested_body_may_yield_to_every_enclosing_step_and_the_declaration() -> None:
    text = (
        "andThen { p = Probe(id = 1) andThen { s = Elsewhere() andThen {"
        " yield W(r = 1) yield n.Probe(value = 2) yield Elsewhere(any = 3) } } }"
    )
    assert findings(text) == ["REF_UNKNOWN_FACET"]


def test_short_and_full_name_of_a_target_are_the_same_target() -> None:
    assert findings("andThen { yield W(r = 1) yield n.W(r = 2) }") == ["YIELD_DUPLICATE_TARGET"]


def test_a_yield_may_not_go_to_a_step_beside_it_or_to_another_namespace() -> None:
    assert findings("andThen { p = Probe(id = 1) yield Probe(value = 1) }") == ["YIELD_INVALID_TARGET"]
    assert findings("andThen { yield m.W(r = 1) }") == ["YIELD_INVALID_TARGET"]


def test_a_yield_sees_all_steps_of_its_block() -> None:
    assert not findings("andThen { p = Probe(id = 1) yield W(r = p.value) }")


def test_the_innermost_facet_of_a_name_takes_the_yield() -> None:
    text = (
        "namespace a { facet F(d: Int) => (inner: Int) }"
        "namespace b { facet F(d: Int) => (outer: Int) andThen { s = a.F(d = 1) andThen { yield F(inner = 1) } } }"
    )
    assert all_findings(text) == []


# -- names ------------------------------------------------------------------------------------------------------------


def test_own_namespace_wins_over_imports_and_top_level() -> None:
    text = (
        "facet G() namespace a { facet G() } namespace b { use a facet G(x: Int) facet F() andThen { s = G(x = 1) } }"
    )
    assert all_findings(text) == []


def test_an_import_competes_with_the_top_level() -> None:
    text = "facet G() namespace a { facet G() } namespace b { use a facet F() andThen { s = G() } }"
    assert all_findings(text) == ["REF_AMBIGUOUS_FACET"]


def test_an_import_holds_for_its_own_opening_only() -> None:
    text = (
        "namespace a { facet G() } namespace b { facet G() }"
        "namespace c { use a facet E() andThen { s = a.G() } } namespace c { facet F() andThen { s = G() } }"
    )
    assert all_findings(text) == ["REF_AMBIGUOUS_FACET"]


def test_openings_of_a_namespace_see_each_others_declarations() -> None:
    assert all_findings("namespace a { facet F() andThen { s = G() } } namespace a { facet G() }") == []


def test_a_facet_is_preferred_to_a_schema_of_another_namespace() -> None:
    text = "namespace a { schema G { x: Int } } namespace b { facet G(y: Int) facet F() andThen { s = a.G(x = 1) } }"
    assert all_findings(text) == []


def test_duplicates_are_found_across_kinds() -> None:
    assert all_findings("namespace a { facet X() event facet X() workflow X() schema X { } }") == ["DUPLICATE_NAME"] * 3


# -- calls and values -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    ['"a" + 1', "1 * [1]", "#{} - 1", "null / 2", "$.xs % 2", "1 + (1 ++ 2)", "-#{}", "-null", '-"x"', "true + 1"],
)
def test_arithmetic_on_what_is_no_number_is_found_at_any_place(value: str) -> None:
    for text in (value, f"[{value}]", f"#{{k: {value}}}", f'"x" ++ ({value})', f"$.xs[{value}]"):
        (code,) = findings(f"andThen {{ n = Note(text = {text}) }}")
        assert code.startswith("TYPE_")


@pytest.mark.parametrize(
    "value", ["1 + 2.5", "$.a * $.xs[0]", "7 / 2 - 1.0", "$.j + 1", '$.j + "a"', "-$.j", "-(1 + 2)"]
)
def test_arithmetic_on_numbers_and_the_unknown_is_not_judged(value: str) -> None:
    head = "workflow W(a: Int, xs: [Int], j: Json)"
    assert not findings(f"andThen {{ n = Note(text = {value}) }}", head=head)


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("Int", "1.5"),
        ("Long", '"1"'),
        ("String", "1"),
        ("Boolean", "0"),
        ("Double", "true"),
        ("String", "[1]"),
        ("Int", "#{}"),
        ("Int", "-1.5"),
        ("[Int]", "1"),
        ("[Int]", '[1, "b"]'),
        ("[[Int]]", "[[1], [true]]"),
    ],
)
def test_a_constant_of_the_wrong_type_is_found_in_defaults_arguments_fields_and_yields(
    declared: str, value: str
) -> None:
    for text in (
        f"facet F(x: {declared} = {value})",
        f"facet F() => (x: {declared} = {value})",
        f"facet G(x: {declared}) facet F() andThen {{ s = G(x = {value}) }}",
        f"schema S {{ x: {declared} }} facet F() andThen {{ s = S(x = {value}) }}",
        f"facet F() => (x: {declared}) andThen {{ yield F(x = {value}) }}",
    ):
        assert all_findings(f"namespace a {{ {text} }}") == ["TYPE_ARG_MISMATCH"]


def test_a_default_may_use_earlier_parameters_but_no_step() -> None:
    text = "namespace a {{ facet F(a: Int, b: Int = {}) }}"
    assert all_findings(text.format("$.a + 1")) == []
    assert all_findings(text.format("$.b")) == ["DEFAULT_NOT_CONSTANT"]
    assert all_findings(text.format("[s.x, $.a, $.z][0]")) == ["DEFAULT_NOT_CONSTANT"] * 2


def test_paths_through_schemas_are_typed() -> None:
    text = (
        "namespace a {{ schema P {{ n: Int, t: String }} schema Q {{ p: P, ps: [P] }} facet G() => (q: Q)"
        " facet N(x: Json) facet F() andThen {{ g = G() n = N(x = {}) }} }}"
    )
    assert all_findings(text.format("g.q.p.n + 1")) == []
    assert all_findings(text.format("g.q.p.t + 1")) == ["TYPE_ARITHMETIC_STRING"]
    assert all_findings(text.format("g.q.ps[0] + 1")) == ["TYPE_ARITHMETIC_SCHEMA"]
    assert all_findings(text.format("g.q.p.z + 1")) == ["SCHEMA_UNKNOWN_FIELD"]


def test_a_cycle_of_calls_is_found_whoever_begins_it() -> None:
    text = "namespace a { facet F() andThen { s = G() } facet G() andThen { s = H() } facet H() andThen { s = F() } }"
    assert all_findings(text) == ["RECURSIVE_CALL"] * 3


def test_calls_whose_bodies_are_replaced_or_repeated_are_no_cycle() -> None:
    assert all_findings("namespace a { facet F() andThen { s = F() andThen { } } }") == []
    assert all_findings("namespace a { facet F() andThen { s = G() } facet G() }") == []


def test_long_chains_of_calls_are_walked_without_recursion() -> None:
    chain = " ".join(f"facet F{n}() andThen {{ s = F{n + 1}() }}" for n in range(3_000))
    assert all_findings(f"namespace a {{ {chain} facet F3000() }}") == []


def test_all_errors_of_a_program_are_reported_in_the_order_of_the_text() -> None:
    text = "namespace a {\n use z\n facet F(x: Nope)\n facet F()\n workflow W() andThen {\n s = b.G()\n yield V() } }"
    found = check_texts([(text, "a"), ("namespace c { use y }", "b")]).diagnostics

    assert [(item.source_id, item.line, item.code) for item in found] == [
        ("a", 2, "USE_UNKNOWN_NAMESPACE"),
        ("a", 3, "REF_UNKNOWN_TYPE"),
        ("a", 4, "DUPLICATE_NAME"),
        ("a", 6, "REF_UNKNOWN_FACET"),
        ("a", 7, "YIELD_INVALID_TARGET"),
        ("b", 1, "USE_UNKNOWN_NAMESPACE"),
    ]


def test_the_specs_examples_have_no_errors() -> None:
    one = """namespace test.one {
      facet Value(input: Long, output: Long)
      workflow TestOne(input: Long = 1) => (output: Long) andThen {
        s1 = Value(input = $.input + 1)
        s2 = Value(input = s1.input + 1)
        yield TestOne(output = s2.input + 1)
      }
    }"""
    block = "andThen { a = Value(input = $.input + 1) c = Value(input = a.input) yield TestThree(output%d = c.input) } "
    three = (
        "namespace test.three { facet Value(input: Long, output: Long)"
        "workflow TestThree(input: Long = 1) => (output1: Long, output2: Long) " + block % 1 + block % 2 + "}"
    )
    assert all_findings(BILLING) == all_findings(EVERYTHING) == []
    # `output` is neither given nor defaulted there, which deserves a warning each time.
    assert set(all_findings(one)) == set(all_findings(three)) == {"ARG_MISSING"}
