"""Dependencies between the statements of a block."""

from collections.abc import Mapping

import pytest

from afl.compiled.program import AmbiguousName, ProgramError
from afl.engine.errors import NoProgress
from afl.engine.types import ObjectType
from afl.evaluation.dependency import DependencyGraph, references_of_statement
from tests.unit.engine.expression_frames import binary, given, literal, step


def call(target: str, **args: object) -> dict[str, object]:
    named = [{"name": name, "value": value} for name, value in args.items()]
    return {"type": "CallExpr", "target": target, "args": named}


def statement(name: str, target: str = "F", **args: object) -> dict[str, object]:
    return {"type": "StepStmt", "id": f"id-{name}", "name": name, "call": call(target, **args)}


def give(identity: str, **args: object) -> dict[str, object]:
    return {"type": "YieldStmt", "id": identity, "call": call("W", **args)}


def graph(*steps: Mapping[str, object], **rest: object) -> DependencyGraph:
    return DependencyGraph.from_ast({"type": "AndThenBlock", "steps": list(steps), **rest}, {"input"})


def needs(node: Mapping[str, object]) -> set[str]:
    """Return what a statement needs of a block that also has steps a and b."""
    return graph(statement("a"), statement("b"), node).dependencies[str(node["id"])]


def test_an_empty_graph_has_nothing_to_start() -> None:
    empty = DependencyGraph()

    assert (empty.get_ready_statements(set()), empty.get_all_statements(), empty.topological_order()) == ([], [], [])
    assert empty.get_statement("x") is None


def test_a_step_needs_the_steps_that_its_arguments_refer_to_and_no_inputs() -> None:
    assert needs(statement("s", x=step("a", "out"), y=given("b"))) == {"id-a"}
    assert needs(statement("s", x=step("elsewhere", "out"))) == set()


def test_a_negated_reference_is_a_reference() -> None:
    assert needs(statement("s", x={"type": "UnaryExpr", "operator": "-", "operand": step("a", "input")})) == {"id-a"}


def test_arguments_of_mixins_are_references_too() -> None:
    mixin = {"type": "MixinCall", "target": "Retry", "args": [{"name": "n", "value": step("b", "n")}]}
    node = {**statement("s"), "call": call("F") | {"mixins": [mixin]}}

    assert needs(node) == {"id-b"}


def test_a_body_needs_what_it_refers_to_outside_of_itself() -> None:
    inner = [statement("a", x=literal(1)), statement("t", x=step("a", "x"), y=step("b", "x"), z=step("s", "x"))]
    node = {**statement("s"), "body": {"type": "AndThenBlock", "steps": inner, "yield": give("y", r=step("t", "x"))}}

    # The body's own `a` hides the outer one, and the results of `s` are there when its body runs.
    assert needs(node) == {"id-b"}


def test_foreach_sources_conditions_and_catches_are_references() -> None:
    foreach = {"type": "ForeachClause", "variable": "b", "iterable": step("a", "items")}
    loop = {"type": "AndThenBlock", "foreach": foreach, "steps": [statement("t", x=step("b"))]}
    case = {"type": "WhenCase", "condition": binary(step("b", "n"), ">", literal(1)), "steps": [statement("t")]}
    choice = {"type": "AndThenBlock", "when": {"type": "WhenBlock", "cases": [case, {"default": True}]}}
    rescue = {"type": "CatchClause", "steps": [statement("t", x=step("a", "x"), y=step("s", "error"))]}

    assert needs({**statement("s"), "body": loop}) == {"id-a"}
    assert needs({**statement("s"), "body": [loop, choice]}) == {"id-a", "id-b"}
    assert needs({**statement("s"), "catch": rescue}) == {"id-a"}


def test_log_arguments_and_assertions_hold_references() -> None:
    log = {"type": "SysLogStmt", "args": [{"name": "x", "value": step("a", "x")}]}
    assertion = {"type": "SysAssertStmt", "condition": binary(step("b", "x"), "==", given("y"))}

    assert list(references_of_statement(log)) == [("step", ("a", "x"))]
    assert list(references_of_statement(assertion)) == [("step", ("b", "x")), ("input", ("y",))]


def test_a_statement_without_an_id_is_known_by_its_name() -> None:
    found = graph({"name": "a", "call": {"target": "F"}}, {"name": "b", "call": call("F", x=step("a", "x"))})

    assert found.name_to_id == {"a": "a", "b": "b"}
    assert found.dependencies == {"a": set(), "b": {"a"}}


def test_statements_may_stand_in_any_order() -> None:
    found = graph(statement("b", x=step("a", "x")), statement("a"))

    assert found.topological_order() == ["id-a", "id-b"]


def test_what_is_ready_follows_what_is_complete() -> None:
    found = graph(
        statement("a", x=given("input")),
        statement("b", x=step("a", "x")),
        statement("c"),
        **{"yield": give("y", r=step("b", "x"))},
    )

    def ready(*completed: str) -> list[str]:
        return [each.name for each in found.get_ready_statements(set(completed))]

    assert ready() == ["a", "c"]
    assert ready("id-a", "id-c") == ["b"]
    assert ready("id-a", "id-b") == ["c"]
    assert ready("id-a", "id-b", "id-c") == ["_yield_y"]
    assert not found.can_create("y", {"id-a", "id-b"})
    assert found.topological_order() == ["id-a", "id-c", "id-b", "y"]


def test_a_yield_is_a_statement_without_a_name_to_refer_to() -> None:
    found = graph(statement("a"), yields=[give("y1", r=step("a", "x")), give("y2")])
    first = found.get_statement("y1")

    assert first is not None
    assert (first.name, first.object_type, first.is_yield) == ("_yield_y1", ObjectType.YIELD_ASSIGNMENT, True)
    assert first.dependencies == {"id-a"}
    assert [each.id for each in found.get_all_statements()] == ["id-a", "y1", "y2"]
    assert "_yield_y1" not in found.name_to_id


def test_a_cycle_names_its_statements() -> None:
    found = graph(statement("a", x=step("b", "x")), statement("b", x=step("a", "x")), statement("c"))

    with pytest.raises(NoProgress) as caught:
        found.topological_order()

    assert caught.value.stuck == ("id-a", "id-b")


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"type": "Mystery", "args": []}, "Mystery is not a step"),
        ({"type": "StepStmt", "name": "a"}, "statement a calls nothing"),
        ({"type": "StepStmt", "call": call("F")}, "is not a step"),
    ],
)
def test_a_statement_that_is_no_step_is_refused(node: Mapping[str, object], message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        graph(node)


def test_two_statements_of_one_id_are_refused() -> None:
    with pytest.raises(ProgramError, match="two statements of a block have the id id-a"):
        graph(statement("a"), statement("a"))


def facet(kind: str, name: str) -> dict[str, object]:
    return {"type": kind, "name": name, **({"fields": []} if kind == "SchemaDecl" else {})}


PROGRAM = {
    "type": "Program",
    "declarations": [
        {"type": "Namespace", "name": "shop.pay", "declarations": [facet("EventFacetDecl", "Pay")]},
        {"type": "Namespace", "name": "a", "declarations": [facet("FacetDecl", "Twice")]},
        {"type": "Namespace", "name": "b", "declarations": [facet("FacetDecl", "Twice"), facet("SchemaDecl", "Card")]},
        facet("FacetDecl", "Top"),
    ],
}


@pytest.mark.parametrize(
    ("target", "facet_name", "object_type"),
    [
        ("Pay", "shop.pay.Pay", ObjectType.VARIABLE_ASSIGNMENT),
        ("shop.pay.Pay", "shop.pay.Pay", ObjectType.VARIABLE_ASSIGNMENT),
        ("Top", "Top", ObjectType.VARIABLE_ASSIGNMENT),
        ("Unknown", "Unknown", ObjectType.VARIABLE_ASSIGNMENT),
        ("Card", "Card", ObjectType.SCHEMA_INSTANTIATION),
        ("b.Card", "b.Card", ObjectType.SCHEMA_INSTANTIATION),
    ],
)
def test_the_program_tells_what_a_target_means(target: str, facet_name: str, object_type: str) -> None:
    block = {"type": "AndThenBlock", "steps": [statement("s", target)]}

    found = DependencyGraph.from_ast(block, set(), PROGRAM).statements["id-s"]

    assert (found.facet_name, found.object_type) == (facet_name, object_type)


def test_an_ambiguous_target_is_an_error_until_its_namespace_is_known() -> None:
    block = {"type": "AndThenBlock", "steps": [statement("s", "Twice")]}

    with pytest.raises(AmbiguousName):
        DependencyGraph.from_ast(block, set(), PROGRAM)
    known = DependencyGraph.from_ast(block, set(), PROGRAM, namespace="b")
    assert known.statements["id-s"].facet_name == "b.Twice"
