"""Mixins with an alias: steps of their own, whose attributes the step around them has under the alias."""

import pytest

from afl.compiled.program import CompiledProgram, Node, ProgramError
from afl.engine.errors import NestingTooDeep, ReferenceError, StoreCorrupt, UnknownFacet
from afl.engine.execution.ports import RunEnvironment
from afl.engine.execution.restore import restore
from afl.engine.execution.run_bounds import RunBounds
from afl.engine.execution.task_dispatch import TaskDispatch
from afl.engine.planning.planner import plan_workflow
from afl.engine.states import StepState
from afl.engine.types import ObjectType
from tests.unit.engine.restarts import MakeEngine, make_engine
from tests.unit.engine.running import Engine, failure_of, outputs_of

__all__ = ["make_engine"]

DECLARATIONS = """
    event facet Look(q: Json, limit: Int = 5) => (found: Json)
    facet Retry(times: Int = 3) => (policy: String) andThen { yield Retry(policy = "retry-" ++ $.times) }
    facet Note(text: String = "") => (lines: [String])
"""


def test_an_events_payload_has_the_attributes_of_its_mixin_under_the_alias() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        event facet Pull(url: String) => (rows: Json) with Retry(times = 5) as retry
        workflow W(url: String) => (rows: Json) andThen {
            p = Pull(url = $.url)
            yield W(rows = p.rows)
        }"""
    )
    engine.start({"url": "u"})

    assert engine.waiting() == ["p"]
    assert engine.step("p").document.params == {"url": "u", "retry": {"times": 5, "policy": "retry-5"}}
    (task,) = engine.store.get_pending_tasks("default")
    assert task.data == {"url": "u", "retry": {"times": 5, "policy": "retry-5"}}


def test_the_body_of_the_facet_reads_the_mixins_attributes() -> None:
    text = (
        DECLARATIONS
        + """
        facet F(n: Int) => (text: String) with Retry(times = $.n + 1) as retry andThen {
            yield F(text = $.retry.policy ++ " " ++ $.retry.times)
        }
        workflow W() => (r: String) andThen { f = F(n = 1) yield W(r = f.text) }"""
    )

    assert outputs_of(text) == {"r": "retry-2 2"}


def test_returns_of_a_mixin_win_over_its_params() -> None:
    text = """
    facet M(v: Int) => (v: Int) andThen { yield M(v = $.v * 2) }
    workflow W() => (r: Json) with M(v = 4) as m andThen { yield W(r = $.m) }
    """

    assert outputs_of(text) == {"r": {"v": 8}}


def test_a_mixin_sees_its_own_attributes_only() -> None:
    secret = {"type": "InputRef", "path": ["secret"]}
    mixin: Node = {
        "type": "FacetDecl",
        "name": "M",
        "body": {"steps": [{"name": "v", "call": {"target": "V", "args": [{"name": "v", "value": secret}]}}]},
    }
    workflow: Node = {
        "type": "WorkflowDecl",
        "name": "W",
        "params": [{"name": "secret", "type": "Int"}],
        "mixins": [{"type": "MixinSig", "target": "M", "alias": "m"}],
    }
    facet: Node = {"type": "FacetDecl", "name": "V", "params": [{"name": "v", "type": "Json"}]}

    error = failure_of(Engine({"declarations": [facet, mixin, workflow]}).start({"secret": 1}))

    assert (error.error_type, error.step_path) == (ReferenceError.__name__, "W.m.v")


def test_mixins_of_one_step_run_side_by_side_and_the_event_follows_when_all_are_done(make_engine: MakeEngine) -> None:
    engine = make_engine(
        DECLARATIONS
        + """
        event facet Pull(url: String) => (rows: Json) with Look(q = $.url) as a with Look(q = 1, limit = 2) as b
        workflow W() => (rows: Json) andThen {
            p = Pull(url = "u")
            yield W(rows = p.rows)
        }"""
    )
    engine.start()
    assert engine.waiting() == ["p.a", "p.b"]
    assert engine.step("p.a").document.params == {"q": "u", "limit": 5}
    assert engine.step("p").state == StepState.MIXIN_BLOCKS_CONTINUE

    engine.answer("p.b", {"found": "B"})
    assert engine.waiting() == ["p.a"]
    engine.answer("p.a", {"found": "A"})

    assert engine.waiting() == ["p"]
    assert engine.step("p").document.params == {
        "url": "u",
        "a": {"q": "u", "limit": 5, "found": "A"},
        "b": {"q": 1, "limit": 2, "found": "B"},
    }
    assert engine.answer("p", {"rows": [1]}).outputs == {"rows": [1]}


def test_a_mixin_with_a_body_that_waits_survives_the_pause(make_engine: MakeEngine) -> None:
    engine = make_engine(
        DECLARATIONS
        + """
        facet Deep(q: Json) => (sum: Json) andThen foreach x in $.q {
            l = Look(q = $.x)
            yield Deep(sum = [l.found])
        }
        workflow W() => (r: Json) with Deep(q = [1, 2]) as deep andThen {
            l = Look(q = $.deep.sum)
            yield W(r = l.found)
        }"""
    )
    engine.start()
    assert engine.waiting() == ["deep[0].l", "deep[1].l"]
    engine.answer("deep[1].l", {"found": 20})
    engine.answer("deep[0].l", {"found": 10})
    assert engine.step("l").document.params["q"] == [10, 20]

    assert engine.answer("l", {"found": "end"}).outputs == {"r": "end"}


def test_a_mixin_has_mixins_of_its_own(make_engine: MakeEngine) -> None:
    engine = make_engine(
        DECLARATIONS
        + """
        facet Outer(n: Int) => (out: Json) with Look(q = $.n) as look andThen { yield Outer(out = $.look.found) }
        workflow W() => (r: Json) with Outer(n = 2) as outer andThen { yield W(r = $.outer) }"""
    )
    engine.start()
    assert engine.waiting() == ["outer.look"]

    assert engine.answer("outer.look", {"found": 3}).outputs == {
        "r": {"n": 2, "look": {"q": 2, "limit": 5, "found": 3}, "out": 3}
    }


def test_a_mixin_that_fails_makes_its_step_fail_when_the_others_have_ended(make_engine: MakeEngine) -> None:
    engine = make_engine(
        DECLARATIONS
        + """
        event facet Pull() => (rows: Json) with Look(q = 1) as a with Look(q = 2) as b
        workflow W() => (rows: Json) andThen { p = Pull() yield W(rows = p.rows) }"""
    )
    engine.start()
    assert engine.fail("p.a", "away", "Broken").status == "PAUSED"

    error = failure_of(engine.answer("p.b", {"found": 1}))

    assert (error.error_type, error.message, error.step_path) == ("Broken", "away", "n.W.p.a")
    assert engine.step("p").state == StepState.STATEMENT_ERROR


def test_a_mixins_failure_can_be_caught(make_engine: MakeEngine) -> None:
    engine = make_engine(
        DECLARATIONS
        + """
        event facet Pull() => (rows: Json) with Look(q = 1) as look
        workflow W() => (rows: Json) andThen {
            p = Pull() catch { yield Pull(rows = p.error) }
            yield W(rows = p.rows)
        }"""
    )
    engine.start()

    assert engine.fail("p.look", "away").outputs == {"rows": "away"}


def test_a_mixins_own_catch_lets_it_complete() -> None:
    text = """
    facet M() => (state: String) andThen { sys.assert(1 == 2) } catch { yield M(state = "caught") }
    workflow W() => (r: Json) with M() as m andThen { yield W(r = $.m.state) }
    """

    assert outputs_of(text) == {"r": "caught"}


def test_a_mixin_that_mixes_itself_in_ends_at_the_nesting_limit() -> None:
    facet: Node = {"type": "FacetDecl", "name": "M", "mixins": [{"target": "M", "alias": "m"}]}
    workflow: Node = {"type": "WorkflowDecl", "name": "W", "mixins": [{"target": "M", "alias": "m"}]}

    error = failure_of(Engine({"declarations": [facet, workflow]}).start())

    assert error.error_type == NestingTooDeep.__name__


def test_the_call_of_a_mixin_with_an_alias_is_a_map_of_its_arguments_and_no_step() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        event facet E(x: Int) => (r: Json)
        workflow W(n: Int) => (r: Json) andThen { e = E(x = 1) with Look(q = $.n) as how }"""
    )
    engine.start({"n": 4})

    assert engine.step("e").document.params == {"x": 1, "how": {"q": 4}}
    assert engine.waiting() == ["e"]


def test_the_calls_arguments_are_put_over_the_signatures_map_of_the_same_alias() -> None:
    text = (
        DECLARATIONS
        + """
        facet F() => (r: Json) with Retry(times = 5) as retry andThen { yield F(r = $.retry) }
        workflow W() => (r: Json) andThen { f = F() with Retry(times = 7) as retry yield W(r = f.r) }"""
    )

    assert outputs_of(text) == {"r": {"times": 7, "policy": "retry-5"}}


def test_a_mixin_that_the_program_does_not_declare_has_its_arguments_as_attributes() -> None:
    workflow: Node = {
        "type": "WorkflowDecl",
        "name": "W",
        "returns": [{"name": "r", "type": "Json"}],
        "mixins": [{"target": "Known", "alias": "k", "args": [{"name": "a", "value": 1}]}],
        "body": {
            "yield": {"call": {"target": "W", "args": [{"name": "r", "value": {"type": "InputRef", "path": ["k"]}}]}}
        },
    }
    declared: Node = {"type": "FacetDecl", "name": "Other"}

    assert Engine({"declarations": [declared, workflow]}).start().outputs == {"r": {"a": 1}}


def test_an_unknown_qualified_mixin_is_refused_when_the_program_is_loaded() -> None:
    workflow: Node = {"type": "WorkflowDecl", "name": "W", "mixins": [{"target": "lib.Known", "alias": "k"}]}
    program = CompiledProgram({"declarations": [{"type": "FacetDecl", "name": "Other"}, workflow]})

    with pytest.raises(UnknownFacet, match=r"lib\.Known"):
        plan_workflow(program, "W")


def test_the_step_of_a_mixin_is_stored_as_a_facet_of_its_step() -> None:
    engine = Engine(
        DECLARATIONS + "workflow W() => (r: Json) with Look(q = 1) as look andThen { yield W(r = $.look.found) }"
    )
    engine.start()

    look, root = engine.step("look").document, engine.step("").document
    assert (look.object_type, look.facet_name, look.container_id) == (ObjectType.FACET, "n.Look", root.id)
    assert (look.block_id, look.statement_id) == (None, "mixin-look")


def test_an_answer_to_a_mixin_counts_once(make_engine: MakeEngine) -> None:
    engine = make_engine(
        DECLARATIONS
        + """
        event facet E(x: Int) => (r: Json) with Look(q = 1) as look
        workflow W() => (r: Json) andThen { e = E(x = 1) yield W(r = e.r) }"""
    )
    engine.start()
    look = engine.step("e.look").id
    engine.answer("e.look", {"found": 1})

    engine.evaluator.continue_step(look, {"found": 2})

    assert engine.resume().status == "PAUSED"
    assert engine.step("e").document.params["look"] == {"q": 1, "limit": 5, "found": 1}


def test_events_of_mixins_are_held_back_like_others_while_too_many_are_open() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: Json) with Look(q = 1) as a with Look(q = 2) as b andThen {
            yield W(r = [$.a.found, $.b.found])
        }""",
        max_open_events=1,
    )
    engine.start()
    assert engine.waiting() == ["a"]
    engine.restart()
    engine.answer("a", {"found": 1})
    assert engine.waiting() == ["b"]

    assert engine.answer("b", {"found": 2}).outputs == {"r": [1, 2]}


def test_rows_of_a_mixin_that_the_program_does_not_have_are_corrupt() -> None:
    engine = Engine(
        DECLARATIONS + "workflow W() => (r: Json) with Look(q = 1) as look andThen { yield W(r = $.look.found) }"
    )
    engine.start()
    documents = [
        d._replace(statement_id="mixin-other") if d.object_type == ObjectType.FACET else d
        for d in engine.store.load_steps("run")
    ]

    with pytest.raises(StoreCorrupt, match="mixin-other"):
        restore(
            plan_workflow(engine.program, "W"), engine.row(), documents, RunEnvironment(TaskDispatch(), RunBounds())
        )


def test_a_schema_instantiation_with_mixins_is_refused_when_the_program_is_loaded() -> None:
    schema: Node = {"type": "SchemaDecl", "name": "S", "fields": [{"name": "x", "type": "Int"}]}
    step: Node = {"name": "s", "call": {"target": "S", "args": [], "mixins": [{"target": "M"}]}}
    workflow: Node = {"type": "WorkflowDecl", "name": "W", "body": {"steps": [step]}}

    with pytest.raises(ProgramError, match="schema and takes no mixins"):
        plan_workflow(CompiledProgram({"declarations": [schema, workflow]}), "W")


def test_a_callee_that_only_the_agents_know_gets_what_the_mixins_of_its_call_give() -> None:
    mixins = [
        {"target": "M", "args": [{"name": "a", "value": 1}]},
        {"target": "N", "alias": "n", "args": [{"name": "b", "value": 2}]},
    ]
    step: Node = {"name": "s", "call": {"target": "Unknown", "mixins": mixins}}
    engine = Engine({"declarations": [{"type": "WorkflowDecl", "name": "W", "body": {"steps": [step]}}]})
    engine.start()

    assert engine.step("s").document.params == {"a": 1, "n": {"b": 2}}


# --- yields to mixins ------------------------------------------------------------------------------------------------


def test_what_is_yielded_to_an_alias_is_for_readers_of_the_step_and_not_for_its_body(make_engine: MakeEngine) -> None:
    engine = make_engine(
        DECLARATIONS
        + """
        facet Desk(book: String) => (state: String, seen: Json) with Note(text = "t") as note andThen {
            l = Look(q = 1)
            yield Desk(state = "ok", seen = $.note) with Note(lines = ["kim"])
        } andThen {
            yield note(lines = ["lee"])
        }
        facet Read(of: Desk) => (lines: Json) andThen { yield Read(lines = $.of.note) }
        workflow W() => (r: Json, seen: Json) andThen {
            d = Desk(book = "b")
            r = Read(of = d)
            yield W(r = r.lines, seen = d.seen)
        }"""
    )
    engine.start()

    assert engine.answer("d.l", {"found": 1}).outputs == {
        "r": {"text": "t", "lines": ["kim", "lee"]},
        "seen": {"text": "t"},
    }
    assert engine.step("d").document.returns == {"state": "ok", "seen": {"text": "t"}}


def test_a_yield_to_a_mixin_without_alias_gives_the_returns_that_the_facet_declares() -> None:
    text = """
    facet Desk() => (clerk: String, remark: String)
    workflow W() => (state: String, clerk: String) with Desk() andThen {
        yield W(state = "shelved") with Desk(clerk = "kim", remark = "dropped")
    }
    """

    assert outputs_of(text) == {"state": "shelved", "clerk": "kim"}


def test_the_older_shape_of_a_yield_with_mixins_gives_the_same() -> None:
    def arg(name: str, value: object) -> Node:
        return {"name": name, "value": value}

    facet: Node = {"type": "FacetDecl", "name": "Desk", "returns": [{"name": "clerk", "type": "String"}]}
    mixin: Node = {"target": "Desk", "args": [arg("clerk", "kim")]}
    workflow: Node = {
        "type": "WorkflowDecl",
        "name": "W",
        "returns": [{"name": "state", "type": "String"}, {"name": "clerk", "type": "String"}],
        "mixins": [{"target": "Desk"}],
        "body": {"yield": {"call": {"target": "W", "args": [arg("state", "ok")], "mixins": [mixin]}}},
    }

    assert Engine({"declarations": [facet, workflow]}).start().outputs == {"state": "ok", "clerk": "kim"}


def test_a_nested_body_yields_to_a_mixin_of_the_declaration_around_it() -> None:
    text = (
        DECLARATIONS
        + """
        facet V(v: Json)
        facet Desk() => (r: Json) with Note() as note andThen {
            v = V(v = 1) andThen { yield note(lines = ["deep"]) }
        }
        facet Read(of: Desk) => (r: Json = $.of.note.lines)
        workflow W() => (r: Json) andThen { d = Desk() r = Read(of = d) yield W(r = r.r) }"""
    )

    assert outputs_of(text) == {"r": ["deep"]}
