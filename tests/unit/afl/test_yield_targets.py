"""Whom a yield may give to, and what."""

from .checking import codes, findings

HEAD = """
    facet Desk(clerk: String = "") => (remark: String)
    facet Note(text: Json) => (id: Int)
"""


def of(rest: str) -> list[str]:
    return codes(f"namespace n {{ {HEAD} {rest} }}")


def test_a_mixin_is_addressed_by_alias_or_by_a_name_that_it_has_alone() -> None:
    for target in ("desk", "Desk", "n.Desk"):
        assert of(f'facet F() with Desk() as desk andThen {{ yield {target}(remark = "r", clerk = "c") }}') == []
    assert of('facet F() with Desk() andThen { yield Desk(remark = "r") }') == []


def test_a_mixin_takes_its_parameters_and_returns_and_nothing_else() -> None:
    assert of("facet F() with Desk() as desk andThen { yield desk(x = 1) }") == ["YIELD_UNKNOWN_FIELD"]


def test_alias_and_name_of_one_mixin_are_the_same_target() -> None:
    text = 'facet F() with Desk() as desk andThen { yield Desk(remark = "a") yield desk(remark = "b") }'

    assert of(text) == ["YIELD_DUPLICATE_TARGET"]


def test_a_name_that_two_mixins_have_is_ambiguous_even_from_different_namespaces() -> None:
    text = (
        "namespace m {{ facet Desk() => (remark: String) }} namespace n {{ {} "
        'facet F() with Desk() with m.Desk() as d andThen {{ yield {}(remark = "") }} }}'
    )

    assert codes(text.format(HEAD, "Desk")) == ["YIELD_TARGET_AMBIGUOUS"]
    assert (
        codes(text.format(HEAD, "m.Desk")) == codes(text.format(HEAD, "n.Desk")) == codes(text.format(HEAD, "d")) == []
    )


def test_the_aliases_to_choose_from_are_named() -> None:
    (found,) = findings(
        f'namespace n {{ {HEAD} facet F() with Desk() as a with Desk() as b andThen {{ yield Desk(remark = "") }} }}'
    )

    assert found.message.endswith("yield to an alias: a, b")


def test_mixins_of_a_step_are_no_targets() -> None:
    text = 'facet F() andThen { n = Note(text = 1) with Desk() as d andThen { yield d(remark = "") } }'

    assert of(text) == ["YIELD_INVALID_TARGET"]


def test_an_unknown_mixin_takes_any_fields() -> None:
    assert of("facet F() with Special() as s andThen { yield Special(any = 1) }") == ["REF_UNKNOWN_FACET"]


def test_a_yield_with_mixins_gives_to_each_of_them() -> None:
    text = 'facet F() => (y: Int) with Desk() as desk andThen {{ yield F(y = 1) with Desk(remark = "a") with {} }}'

    assert of(text.format("Note(id = 1)")) == ["YIELD_INVALID_TARGET"]
    assert of(text.format('desk(remark = "b")')) == ["YIELD_DUPLICATE_TARGET"]


def test_a_catch_may_yield_to_the_declaration_its_mixins_and_enclosing_callees() -> None:
    assert (
        of(
            "facet F() => (y: Int) with Desk() as desk andThen { n = Note(text = 1) catch { yield Note(id = 1) "
            'yield F(y = 1) yield desk(remark = "") } } catch { yield F(y = 2) yield Desk(remark = "") }'
        )
        == []
    )


def test_the_catch_of_a_declaration_may_not_yield_to_the_steps_of_its_blocks() -> None:
    assert of("facet F() andThen { n = Note(text = 1) } catch { yield Note(id = 1) }") == ["YIELD_INVALID_TARGET"]


def test_a_step_of_a_schema_is_no_target_of_its_catch() -> None:
    assert of("schema S { x: Int } facet F() andThen { s = S(x = 1) catch { yield S(x = 2) } }") == [
        "YIELD_INVALID_TARGET"
    ]
