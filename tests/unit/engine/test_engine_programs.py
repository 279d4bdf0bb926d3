"""Programs that the engine accepts: names, older shapes of the JSON, hand-written ones, and what it refuses."""

from collections.abc import Callable
from typing import Any

import pytest

from afl.compiled.program import CompiledProgram, Node, ProgramError
from afl.compiler import compile_text
from afl.engine.errors import UnknownFacet
from afl.engine.planning.planner import ConstructNotAvailable, plan_workflow
from afl.engine.types import ObjectType
from afl.evaluation.evaluator import Evaluator
from afl.parser import parse
from afl.stores.memory.store import MemoryStore
from tests.unit.engine.running import Engine, compiled

Json = dict[str, object]


def ref(step: str, attribute: str = "v") -> Json:
    return {"type": "StepRef", "path": [step, attribute]}


def plus_one(value: object) -> Json:
    return {"type": "BinaryExpr", "operator": "+", "left": value, "right": 1}


def step(name: str, target: str = "V", **args: object) -> Json:
    return {"name": name, "call": {"target": target, "args": [{"name": n, "value": v} for n, v in args.items()]}}


def give(target: str, **args: object) -> Json:
    return {"call": {"target": target, "args": [{"name": n, "value": v} for n, v in args.items()]}}


FACET: Json = {"type": "FacetDecl", "name": "V", "params": [{"name": "v", "type": "Long"}]}


def workflow(*steps: object, **yields: object) -> Json:
    body: Json = {"steps": list(steps), "yield": give("W", **yields)}
    return {"type": "WorkflowDecl", "name": "W", "returns": [{"name": "r", "type": "Long"}], "body": body}


def outputs(program: Node, name: str = "W") -> dict[str, object]:
    result = Engine(program).start(workflow=name)
    assert result.status == "COMPLETED", result.error
    return dict(result.outputs)


def test_a_hand_written_program_without_types_ids_and_literal_nodes_runs() -> None:
    program = {"declarations": [FACET, workflow(step("a", v=1), step("b", v=plus_one(ref("a"))), r=ref("b"))]}

    assert outputs(program) == {"r": 2}


def test_statements_may_stand_in_any_order() -> None:
    steps = [step("c", v=plus_one(ref("b"))), step("b", v=plus_one(ref("a"))), step("a", v=1)]

    assert outputs({"declarations": [FACET, workflow(*steps, r=ref("c"))]}) == {"r": 3}


def test_a_compiled_program_whose_statements_are_turned_round_gives_the_same() -> None:
    text = """namespace n {
        facet V(v: Long)
        workflow W() => (r: Long) andThen {
            a = V(v = 1)
            b = V(v = a.v + 1)
            c = V(v = b.v + 1)
            yield W(r = c.v)
        }
    }"""
    program = compile_text(text).program_json
    body = program["declarations"][0]["declarations"][1]["body"]
    body["steps"].reverse()

    assert outputs(program) == {"r": 3}


def categorised(facets: str, workflows: str) -> Node:
    return {facets: [FACET], workflows: [workflow(step("a", v=4), r=ref("a"))]}


def in_a_namespace() -> Node:
    return {"namespaces": [{"name": "n", "declarations": [FACET], "workflows": [workflow(step("a", v=4), r=ref("a"))]}]}


def with_the_same_facet_in_both_lists() -> Node:
    facet = {**FACET, "id": "one"}
    return {"declarations": [facet], "facets": [facet], "workflows": [workflow(step("a", v=4), r=ref("a"))]}


def with_nested_namespaces() -> Node:
    inner = {"type": "Namespace", "name": "sub", "declarations": [FACET]}
    outer = {"type": "Namespace", "name": "n", "declarations": [inner]}
    return {"declarations": [outer, workflow(step("a", "n.sub.V", v=4), r=ref("a"))]}


def with_a_list_of_bodies() -> Node:
    declaration = workflow(step("a", v=4), r=ref("a"))
    return {"declarations": [FACET, {**declaration, "body": [declaration["body"], {"steps": []}]}]}


def with_a_list_of_yields() -> Node:
    body = {"steps": [step("a", v=4)], "yields": [give("W", r=ref("a"))]}
    return {"declarations": [FACET, {**workflow(), "body": body}]}


def with_steps_below_the_foreach() -> Node:
    body = {
        "foreach": {"variable": "x", "iterable": {"type": "InputRef", "path": ["xs"]}},
        "block": {"steps": [step("a", v={"type": "InputRef", "path": ["x"]})], "yield": give("W", r=ref("a"))},
    }
    params = [{"name": "xs", "type": "Json", "default": [3, 4]}]
    return {"declarations": [FACET, {**workflow(), "params": params, "body": body}]}


@pytest.mark.parametrize(
    "shape",
    [
        lambda: categorised("facets", "workflows"),
        lambda: categorised("declarations", "workflows"),
        in_a_namespace,
        with_the_same_facet_in_both_lists,
        with_nested_namespaces,
        with_a_list_of_bodies,
        with_a_list_of_yields,
        with_steps_below_the_foreach,
    ],
)
def test_every_older_shape_of_a_program_runs(shape: Callable[[], Node]) -> None:
    assert outputs(shape()) == {"r": 4}


def test_a_workflow_declaration_alone_is_a_program() -> None:
    result = Evaluator(MemoryStore()).execute(workflow(step("a", "Anything", v=4), r=ref("a")))

    assert result.outputs == {"r": 4}


def test_an_unknown_facet_is_an_error_with_near_names() -> None:
    result = Engine({"declarations": [FACET, workflow(step("a", "VV", v=1), r=1)]}).start()

    assert isinstance(result.error, UnknownFacet)
    assert result.error.near == ("V",)
    assert "W.a" in str(result.error)


def test_a_program_that_declares_no_facet_may_call_any() -> None:
    schema = {"type": "SchemaDecl", "name": "S", "fields": [{"name": "v", "type": "Long"}]}

    assert outputs({"declarations": [schema, workflow(step("a", "Unknown", v=1), r=ref("a"))]}) == {"r": 1}


def test_an_unknown_event_facet_in_a_program_with_facets_never_passes_through() -> None:
    program = {"declarations": [FACET, workflow(step("a", "ns.Event", v=1), r=ref("a"))]}

    assert Engine(program).start().status == "ERROR"


def namespaces(*names: str) -> list[Json]:
    return [{"type": "Namespace", "name": name, "declarations": [FACET]} for name in names]


def test_a_name_that_two_namespaces_bear_is_ambiguous() -> None:
    result = Engine({"declarations": [*namespaces("a", "b"), workflow(step("s", v=1), r=1)]}).start()

    assert type(result.error).__name__ == "AmbiguousName"
    assert "a.V" in str(result.error)
    assert "b.V" in str(result.error)


def test_an_import_decides_between_two_namespaces() -> None:
    namespace = {"type": "Namespace", "name": "n", "uses": ["b"], "declarations": [workflow(step("s", v=1), r=1)]}
    engine = Engine({"declarations": [*namespaces("a", "b"), namespace]})

    engine.start()

    assert engine.step("s").document.facet_name == "b.V"


def test_a_dotted_namespace_is_one_flat_name() -> None:
    engine = Engine({"declarations": [*namespaces("a.b", "a.b.c"), workflow(step("s", "a.b.V", v=1), r=1)]})

    engine.start()

    assert engine.step("s").document.facet_name == "a.b.V"


def test_names_that_the_compiler_would_not_take_are_taken() -> None:
    event = {"type": "EventFacetDecl", "name": "CountDocuments", "params": [{"name": "v", "type": "Long"}]}
    namespace = {"type": "Namespace", "name": "example.4", "declarations": [event]}
    engine = Engine({"declarations": [namespace, workflow(step("s", "example.4.CountDocuments", v=1), r=1)]})

    (waiting,) = engine.start().pending_events

    assert waiting.event_type == "example.4.CountDocuments"


@pytest.mark.parametrize(
    "twice", [[step("a", v=1), step("a", v=2)], [{**step("a"), "id": "i"}, {**step("b"), "id": "i"}]]
)
def test_two_statements_of_one_name_or_id_in_a_block_are_refused(twice: list[Json]) -> None:
    with pytest.raises(ProgramError, match="two statements"):
        plan_workflow(CompiledProgram({"declarations": [FACET, workflow(*twice, r=1)]}), "W")


def test_a_reference_to_a_step_that_is_nowhere_is_refused_when_the_program_is_loaded() -> None:
    with pytest.raises(ProgramError, match="no step b is visible"):
        plan_workflow(CompiledProgram({"declarations": [FACET, workflow(step("a", v=ref("b")), r=1)]}), "W")


def test_a_step_that_refers_to_itself_is_refused() -> None:
    with pytest.raises(ProgramError, match="itself"):
        plan_workflow(CompiledProgram({"declarations": [FACET, workflow(step("a", v=ref("a")), r=1)]}), "W")


def test_steps_inside_a_body_are_not_seen_from_outside() -> None:
    outer = {**step("a", v=1), "body": {"steps": [step("inner", v=1)]}}

    with pytest.raises(ProgramError, match="no step inner"):
        plan_workflow(CompiledProgram({"declarations": [FACET, workflow(outer, r=ref("inner"))]}), "W")


BLOCK: Json = {"steps": []}


@pytest.mark.parametrize("part", [{**FACET, "body": {"steps": [{"type": "Mystery"}]}}])
def test_what_this_engine_does_not_run_is_refused_by_name_never_ignored(part: Json) -> None:
    with pytest.raises(ConstructNotAvailable, match="V"):
        plan_workflow(CompiledProgram({"declarations": [part, workflow(step("s"), r=1)]}), "W")


def test_a_schema_with_a_body_of_its_own_is_refused() -> None:
    schema = {"type": "SchemaDecl", "name": "S", "fields": []}
    outer = {**step("a", "S"), "body": BLOCK}

    with pytest.raises(ProgramError, match="schema"):
        plan_workflow(CompiledProgram({"declarations": [FACET, schema, workflow(outer, r=1)]}), "W")


def test_a_plan_knows_who_waits_for_whom() -> None:
    plan = plan_workflow(
        compiled(
            """
            facet V(v: Json)
            workflow W() => (r: Json) andThen {
                a = V(v = 1)
                b = V(v = [a.v, -a.v])
                c = V(v = a.v + b.v) andThen { d = V(v = b.v) }
                yield W(r = c.v)
            }"""
        ),
        "W",
    )
    (block,) = plan.facet.blocks
    a, b, c = block.statements

    assert (a.waits, b.waits, c.waits) == ((), (0,), (0, 1))
    assert (a.wakes, b.wakes, c.wakes) == ((1, 2), (2,), ())
    assert (block.first, block.wait_counts) == ((0,), (0, 1, 2))
    (body,) = c.blocks
    assert [(wait.depth, wait.index) for wait in body.statements[0].outer_waits] == [(1, 1)]
    assert [statement.plain for statement in block.statements] == [True, True, False]
    assert block.yields[0].yield_depth == 0


def test_a_plan_says_what_kind_of_step_a_statement_is() -> None:
    plan = plan_workflow(
        compiled(
            """
            schema S { x: Long }
            event facet E() => (r: Long)
            workflow W() => (r: Long) andThen {
                s = S(x = 1)
                e = E()
                yield W(r = e.r)
            }"""
        ),
        "n.W",
    )
    (block,) = plan.facet.blocks

    assert [s.object_type for s in (*block.statements, *block.yields)] == [
        ObjectType.SCHEMA_INSTANTIATION,
        ObjectType.VARIABLE_ASSIGNMENT,
        ObjectType.YIELD_ASSIGNMENT,
    ]
    assert [statement.plain for statement in block.statements] == [True, False]


def test_recursive_facets_are_planned_once() -> None:
    plan = plan_workflow(
        compiled(
            """
            facet Even() andThen { o = Odd() }
            facet Odd() andThen { e = Even() }
            workflow W() andThen { e = Even() }"""
        ),
        "W",
    )
    even = plan.facet.blocks[0].statements[0].callee
    assert even is not None
    odd = even.blocks[0].statements[0].callee

    assert odd is not None
    assert odd.blocks[0].statements[0].callee is even


_TREE = parse("workflow W()")
_NOT_PROGRAMS: list[tuple[Any, Any, str]] = [
    ("W", _TREE, "a program is given as a JSON object, found Program"),
    ("W", compile_text("namespace n { workflow W() }"), "found Compiled; compile_text(...).program_json is one"),
    ("W", "workflow W()", "found str"),
    (_TREE.workflows[0], None, "by its declaration as a JSON object, found WorkflowDecl"),
    (None, {"declarations": []}, "a workflow is given by its name"),
]


@pytest.mark.parametrize(("workflow", "program", "said"), _NOT_PROGRAMS)
def test_what_is_no_program_and_no_workflow_is_told_with_what_would_be(workflow: Any, program: Any, said: str) -> None:
    result = Evaluator(MemoryStore()).execute(workflow, {}, program)

    assert result.status == "ERROR"
    assert isinstance(result.error, ProgramError)
    assert said in str(result.error)


def test_resume_raises_nothing_whatever_it_is_given_for_an_id() -> None:
    evaluator = Evaluator(MemoryStore())
    wrong: Any = evaluator.execute("W", {}, {"declarations": [{"type": "WorkflowDecl", "name": "W"}]})

    assert evaluator.resume(wrong).status == "ERROR"
