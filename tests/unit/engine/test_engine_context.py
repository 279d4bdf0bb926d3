"""The view of one execution: its program, blocks, graphs and committed steps."""

import pytest

from afl.compiled.program import CompiledProgram, Node
from afl.engine.types import BlockId, ObjectType, StatementId, WorkflowId
from afl.evaluation.context import ExecutionContext
from afl.evaluation.dependency import DependencyGraph
from afl.stores.memory.store import MemoryStore
from afl.stores.public.persistence import IterationChanges
from afl.stores.public.step import StepDefinition
from afl.telemetry.telemetry import Telemetry
from tests.unit.engine.running import Engine

PROGRAM = """
    event facet E(x: Long) => (r: Long)
    facet V(v: Long)
    facet Outer(xs: [Long]) => (r: [Long]) andThen foreach x in $.xs {
        e = E(x = $.x)
        v = V(v = e.r)
        yield Outer(r = [v.v])
    }
    workflow W(limit: Long = 3) => (r: [Long]) andThen {
        v = V(v = 1) andThen { inner = V(v = v.v + 1) }
        o = Outer(xs = [1, 2])
        yield W(r = o.r)
    } andThen {
        second = V(v = 1)
    }
"""


@pytest.fixture
def engine() -> Engine:
    engine = Engine(PROGRAM)
    engine.start({"limit": 5})
    return engine


def step(engine: Engine, path: str) -> StepDefinition:
    found = engine.store.get_step(engine.step(path).id)
    assert found is not None
    return found


def names_in(block: Node | None) -> list[str]:
    assert block is not None
    return [statement.get("name", "") for statement in block["steps"]]


def test_a_block_of_every_kind_finds_its_body(engine: Engine) -> None:
    context = engine.evaluator.context("run")

    bodies = {
        path: names_in(context.get_block_ast(step(engine, path))) for path in ("#0", "#1", "v#0", "o#0", "o[1]#0")
    }

    assert bodies == {
        "#0": ["v", "o"],
        "#1": ["second"],
        "v#0": ["inner"],
        "o#0": ["e", "v"],
        "o[1]#0": ["e", "v"],
    }


def test_cases_and_catches_find_their_bodies_and_statements() -> None:
    engine = Engine(
        """
        event facet E(x: Json) => (r: Json)
        facet F(a: Json) andThen { e = E(x = 1 / 0) } catch { of_facet = E(x = $.error) }
        workflow W() => (r: Json) andThen {
            f = F(a = 1)
        } andThen when {
            case true => { first = E(x = 1) catch when { case _ => { deep = E(x = first.error) sys.log(x = 1) } } }
            case _ => { }
        } catch { last = E(x = 1) }"""
    )
    engine.start()
    engine.fail("case[0].first")
    context = engine.evaluator.context("run")

    bodies = {
        path: names_in(context.get_block_ast(step(engine, path)))
        for path in ("#1#case-0", "f#catch", "case[0].first#catch#case-0")
    }

    statement = context.get_statement_definition(step(engine, "case[0].first.catch.case[0].deep"))
    assert bodies == {"#1#case-0": ["first"], "f#catch": ["of_facet"], "case[0].first#catch#case-0": ["deep", ""]}
    assert statement is not None
    assert (statement.name, statement.facet_name) == ("deep", "n.E")
    logged = context.get_statement_definition(step(engine, "case[0].first.catch.case[0].sys.log"))
    assert logged is not None
    assert (logged.object_type, logged.facet_name) == (ObjectType.SYS_LOG, "sys.log")


def test_only_the_foreach_itself_has_its_foreach(engine: Engine) -> None:
    context = engine.evaluator.context("run")
    foreach, element = (context.get_block_ast(step(engine, path)) for path in ("o#0", "o[0]#0"))

    assert foreach is not None
    assert element is not None
    assert "foreach" in foreach
    assert "foreach" not in element


def test_a_step_that_belongs_to_nothing_known_has_no_body(engine: Engine) -> None:
    context = engine.evaluator.context("run")
    stray = StepDefinition.create(WorkflowId("run"), ObjectType.AND_THEN, container_id=step(engine, "v").id)
    nowhere = StepDefinition.create(WorkflowId("run"), ObjectType.AND_THEN)
    nowhere.container_id = stray.id

    assert context.get_block_ast(nowhere) is None


def test_a_step_finds_its_statement_with_its_dependencies_and_qualified_facet(engine: Engine) -> None:
    context = engine.evaluator.context("run")

    statement = context.get_statement_definition(step(engine, "o[0].e"))

    assert statement is not None
    assert (statement.name, statement.facet_name, statement.dependencies) == ("e", "n.E", set())
    assert context.get_statement_definition(step(engine, "")) is None


def test_yields_find_their_statement_too() -> None:
    engine = Engine("workflow W() => (r: Long) andThen { yield W(r = 1) }")
    engine.start()

    statement = engine.evaluator.context("run").get_statement_definition(step(engine, "yield"))

    assert statement is not None
    assert statement.is_yield


def test_a_complete_step_is_found_by_name_in_its_block_or_anywhere(engine: Engine) -> None:
    context = engine.evaluator.context("run")

    found = context.get_completed_step_by_name("v", step(engine, "#0").id)
    anywhere = context.get_completed_step_by_name("second", None)

    assert found is not None
    assert found.id == step(engine, "v").id
    assert anywhere is not None
    assert anywhere.get_attribute("v") == 1
    assert context.get_completed_step_by_name("e", step(engine, "o[0]#0").id) is None
    assert context.get_completed_step_by_name("nobody", None) is None


def test_pending_changes_are_seen_before_the_store(engine: Engine) -> None:
    context = engine.evaluator.context("run")
    waiting = step(engine, "o[0].e")
    waiting.mark_completed()

    context.changes.add_updated_step(waiting)

    assert context.get_completed_step_by_name("e", step(engine, "o[0]#0").id) is waiting


def test_facets_are_found_by_qualified_and_short_name(engine: Engine) -> None:
    context = engine.evaluator.context("run")
    found = context.get_facet_definition("n.E")

    assert found is not None
    assert found["type"] == "EventFacetDecl"
    assert context.get_facet_definition("E") is found
    assert context.get_facet_definition("Nothing") is None
    assert context.resolve_qualified_name("E") == "n.E"
    assert context.resolve_qualified_name("Nothing") == "Nothing"


def test_a_context_knows_workflow_root_inputs_and_runner(engine: Engine) -> None:
    context = engine.evaluator.context("run")
    workflow, root = context.get_workflow_ast(), context.get_workflow_root()

    assert workflow is not None
    assert workflow["name"] == "W"
    assert root is not None
    assert root.id == engine.step("").id
    assert context.workflow_defaults == {"limit": 5}


def test_an_unknown_workflow_has_no_context(engine: Engine) -> None:
    with pytest.raises(ValueError, match="nothing not found"):
        engine.evaluator.context("nothing")


def test_a_context_by_hand_needs_no_program() -> None:
    store = MemoryStore()
    block = StepDefinition.create(WorkflowId("w"), ObjectType.AND_THEN, statement_id=StatementId("block-0"))
    store.save_step(block)
    context = ExecutionContext(store, Telemetry(enabled=False), IterationChanges(), "w")

    assert context.get_facet_definition("V") is None
    assert context.get_block_ast(block) is None
    assert context.get_block_graph(block.id) is None

    context.set_block_ast_cache(block.id, {"steps": [{"name": "a", "call": {"target": "V"}}]})
    graph = context.get_block_graph(block.id)
    assert graph is not None
    assert list(graph.statements) == ["a"]
    context.clear_caches()
    assert context.get_block_graph(block.id) is None


def test_a_program_counts_from_when_it_is_set_on() -> None:
    context = ExecutionContext(MemoryStore(), Telemetry(), IterationChanges(), "run")
    assert context.get_facet_definition("V") is None

    first: Node = {"declarations": [{"type": "FacetDecl", "name": "V", "params": []}]}
    context.program_ast = first
    assert context.get_facet_definition("V") == first["declarations"][0]
    second: Node = {
        "declarations": [{"type": "Namespace", "name": "n", "facets": [{"type": "FacetDecl", "name": "U"}]}]
    }
    context.program_ast = CompiledProgram(second)
    assert context.get_facet_definition("V") is None
    assert context.resolve_qualified_name("U") == "n.U"
    assert context.get_facet_definition("U") is second["declarations"][0]["facets"][0]
    context.program_ast = None
    assert context.resolve_qualified_name("U") == "U"


def test_a_block_whose_statements_were_set_is_searched_by_name_too() -> None:
    context = ExecutionContext(MemoryStore(), Telemetry(), IterationChanges(), "run")
    block: Node = {"steps": [{"id": "s-1", "name": "s", "call": {"target": "V"}}]}
    context.set_block_graph("block", DependencyGraph.from_ast(block, set()))
    step = StepDefinition.create(
        WorkflowId("run"), ObjectType.VARIABLE_ASSIGNMENT, "V", StatementId("s-1"), block_id=BlockId("block")
    )
    step.mark_completed()
    context.changes.add_created_step(step)

    for block_id in ("block", None):
        assert context.get_completed_step_by_name("s", block_id) is step
        assert context.get_completed_step_by_name("t", block_id) is None


def test_what_was_looked_up_follows_the_program_and_the_workflow_and_what_was_set_stays(engine: Engine) -> None:
    context = engine.evaluator.context("run")
    program, block = context.program_ast, step(engine, "#0")
    assert program is not None
    set_graph = DependencyGraph.from_ast({"steps": []}, set())
    context.set_block_graph("mine", set_graph)

    def facets() -> set[str]:
        graph = context.get_block_graph(block.id)
        assert graph is not None
        return {statement.facet_name for statement in graph.get_all_statements()}

    context.program_ast = None
    assert facets() == {"V", "Outer", "W"}
    context.program_ast = program
    assert facets() == {"n.V", "n.Outer", "n.W"}
    context.workflow_ast = {"name": "W", "body": {"steps": [{"name": "only", "call": {"target": "V"}}]}}
    assert facets() == {"n.V"}
    assert context.get_block_graph("mine") is set_graph
