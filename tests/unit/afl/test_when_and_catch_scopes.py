"""Visible names in the cases of a `when` and in a catch, of declarations and of steps."""

import pytest

from .checking import codes, marked

HEAD = """
    event facet Probe(id: Int) => (value: Int, items: [Json], ok: Boolean)
    facet Note(text: Json)
"""


def of(body: str, *, head: str = "workflow W(a: Int, b: Boolean, xs: [Int]) => (r: Int = 0)") -> list[str]:
    return codes(f"namespace n {{ {HEAD} {head} {body} }}")


# -- when of a declaration --------------------------------------------------------------------------------------------


def test_a_when_of_a_declaration_sees_the_steps_of_earlier_plain_blocks() -> None:
    assert not of(
        "andThen { p = Probe(id = 1) } andThen { q = Probe(id = 2) } andThen when {"
        " case p.ok && q.ok => { n = Note(text = p.value) andThen { m = Note(text = q.value) } yield W(r = q.value) }"
        " case _ => { yield W(r = p.value) } }"
    )


def test_a_when_does_not_see_the_steps_of_later_blocks() -> None:
    late = "andThen when { case p.ok => { n = Note(text = p.value) } case _ => { } } andThen { p = Probe(id = 1) }"

    assert of(late) == ["REF_UNDEFINED_STEP"] * 2


def test_a_when_does_not_see_the_steps_of_a_foreach_block() -> None:
    text = "andThen foreach x in $.xs { p = Probe(id = x) } andThen when { case p.ok => { } case _ => { } }"

    assert of(text) == ["REF_CROSS_BLOCK_STEP"]


def test_cases_do_not_see_the_steps_of_other_cases_nor_of_another_when() -> None:
    assert (
        of(
            "andThen when { case $.b => { n = Note(text = 1) } case _ => { m = Note(text = n.text) } }"
            "andThen when { case $.b => { } case _ => { m = Note(text = n.text) } }"
        )
        == ["REF_CROSS_BLOCK_STEP"] * 2
    )


def test_a_plain_block_does_not_see_the_steps_of_cases() -> None:
    text = "andThen when { case _ => { n = Note(text = 1) } } andThen { m = Note(text = n.text) }"

    assert of(text) == ["REF_CROSS_BLOCK_STEP"]


def test_each_case_has_names_and_yield_targets_of_its_own() -> None:
    assert not of(
        "andThen when { case $.b => { n = Note(text = 1) yield W(r = 1) } case $.a > 1 => { n = Note(text = 2) "
        "yield W(r = 2) } case _ => { n = Note(text = 3) yield W(r = 3) } }"
    )


def test_a_step_of_a_case_hides_a_step_of_an_earlier_block_with_a_warning() -> None:
    text = "andThen { p = Probe(id = 1) } andThen when { case p.ok => { p = Probe(id = 2) } case _ => { } }"

    assert of(text) == ["SHADOWED_STEP_NAME"]


# -- when of a step ---------------------------------------------------------------------------------------------------


def test_a_when_of_a_step_sees_the_step_and_what_the_step_sees() -> None:
    assert not of(
        "andThen { p = Probe(id = 1) q = Probe(id = 2) andThen when {"
        " case q.ok && p.ok && $.ok && $.b => { yield Probe(value = $.value) yield W(r = p.value) } case _ => { } } }"
    )


def test_a_when_of_a_step_does_not_see_the_steps_of_the_steps_other_clauses() -> None:
    text = (
        "andThen { p = Probe(id = 1) andThen { n = Note(text = 1) } andThen when { case n.text => { } case _ => { } } }"
    )

    assert of(text) == ["REF_CROSS_BLOCK_STEP"]


def test_a_foreach_variable_is_visible_in_cases_and_catches_of_its_iteration() -> None:
    assert not of(
        "andThen foreach x in $.xs { p = Probe(id = x) andThen when { case p.value > x && $.x > 1 => {"
        " n = Note(text = $.x ++ x) } case _ => { } } catch { n = Note(text = $.x ++ x) } }"
    )


# -- catch ------------------------------------------------------------------------------------------------------------


def test_the_catch_of_a_step_sees_its_error_and_the_steps_above() -> None:
    assert not of(
        "andThen { p = Probe(id = 1) q = Probe(id = 2) catch {"
        " n = Note(text = q.error ++ q.error_type ++ p.value ++ $.id ++ $.a) andThen { m = Note(text = q.error) }"
        " yield Probe(value = 1) yield W(r = p.value) } }"
    )


def test_conditions_of_a_catch_see_the_error_as_a_string() -> None:
    text = "andThen {{ q = Probe(id = 2) catch when {{ case q.error_type {} => {{ }} case _ => {{ }} }} }}"

    assert of(text.format('== "Timeout"')) == []
    assert of(text.format("> true")) == ["TYPE_ORDERED_COMPARISON_BOOLEAN"]
    assert of(text.format("")) == ["WHEN_CONDITION_NOT_BOOLEAN"]


@pytest.mark.parametrize("place", ["andThen { n = Note(text = q.error) }", "m = Note(text = q.error)"])
def test_the_error_of_a_step_is_known_in_its_catch_only(place: str) -> None:
    body, _, after = place.partition("m = ")
    text = f"andThen {{ q = Probe(id = 2) {body} {'m = ' + after if after else ''} }}"

    assert of(text) == ["REF_INVALID_STEP_ATTRIBUTE"]


def test_the_catch_of_a_step_does_not_see_the_steps_of_its_body_or_below() -> None:
    text = (
        "andThen { q = Probe(id = 2) andThen { n = Note(text = 1) } catch { m = Note(text = n.text ++ z.text) }"
        " z = Note(text = 1) }"
    )

    assert of(text) == ["REF_UNDEFINED_STEP", "REF_FORWARD_STEP"]


def test_the_catch_of_a_declaration_reads_error_and_parameters_as_inputs_at_every_depth() -> None:
    assert not of(
        "andThen { } catch { n = Note(text = $.error ++ $.a) andThen { m = Note(text = $.error_type) }"
        " yield W(r = $.a) }"
    )
    assert not of('catch when { case $.error_type == "Timeout" => { yield W(r = $.a) } case _ => { } }')


def test_the_catch_of_a_declaration_does_not_see_the_steps_of_its_blocks() -> None:
    assert of("andThen { p = Probe(id = 1) } catch { n = Note(text = p.value) }") == ["REF_UNDEFINED_STEP"]


def test_the_error_of_a_declaration_is_no_input_of_its_blocks_nor_of_a_steps_catch() -> None:
    assert (
        of("andThen { n = Note(text = $.error) catch { m = Note(text = $.error_type) } }") == ["REF_INVALID_INPUT"] * 2
    )


def test_both_forms_of_a_catch_may_use_event_facets_and_yield_to_the_callee() -> None:
    assert not of(
        "andThen { n = Note(text = 1) catch when { case _ => { p = Probe(id = 1) } }"
        " q = Probe(id = 1) catch { p = Probe(id = 1) yield Probe(value = p.value) } }"
    )


# -- sys --------------------------------------------------------------------------------------------------------------


def test_sys_statements_refer_to_steps_above_them_only() -> None:
    assert not of("andThen { p = Probe(id = 1) sys.log(v = p.value, a = $.a) sys.assert(p.ok) }")
    assert of("andThen { sys.log(v = p.value) sys.assert(p.ok) p = Probe(id = 1) }") == ["REF_FORWARD_STEP"] * 2


def test_a_log_takes_any_names_but_each_once() -> None:
    text = "namespace n { facet F(a: Int) andThen { sys.log(k = $.a, k = 1) } }"

    assert marked(text) == [("ARG_DUPLICATE", "k")]


# -- when itself ------------------------------------------------------------------------------------------------------


def test_every_superfluous_default_is_reported_and_their_order_is_not() -> None:
    text = "andThen when { case _ => { } case $.b => { } case _ => { } case _ => { } }"

    assert of(text) == ["WHEN_MULTIPLE_DEFAULTS"] * 2


@pytest.mark.parametrize("place", ["{}", "{{ n = Note(text = 1) {} }}", "{{ n = Note(text = 1) catch {} }}"])
def test_a_when_needs_its_default_wherever_it_stands(place: str) -> None:
    when = "when { case $.b => { } }"
    inner = f"andThen {when}" if "catch" not in place else when
    text = place.format(inner)

    assert of(text if place == "{}" else f"andThen {text}") == ["WHEN_MISSING_DEFAULT"]
    assert of(f"catch {when}") == ["WHEN_MISSING_DEFAULT"]
