"""`andThen when`: which cases run, when their conditions are looked at, and what they see."""

import pytest

from afl.engine.model.entities import NoteType
from tests.unit.engine.restarts import MakeEngine, make_engine
from tests.unit.engine.running import Engine, failure_of, outputs_of

__all__ = ["make_engine"]

DECLARATIONS = """
    event facet E(x: Json) => (r: Json)
    facet V(v: Json)
    facet S(a: Json) => (out: [Json])
"""

ROUTE = (
    DECLARATIONS
    + """
    workflow W(n: Long) => (r: [Json]) andThen when {
        case $.n > 1 => { yield W(r = ["more than one"]) }
        case $.n > 2 => { yield W(r = ["more than two"]) }
        case _ => { yield W(r = ["few"]) }
    }"""
)


@pytest.mark.parametrize(
    ("n", "expected"), [(3, ["more than one", "more than two"]), (2, ["more than one"]), (1, ["few"])]
)
def test_every_true_case_runs_and_the_default_only_when_none_does(n: int, expected: list[str]) -> None:
    assert outputs_of(ROUTE, {"n": n}) == {"r": expected}


def test_cases_run_concurrently_and_merge_in_textual_order() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: [Json], last: Json) andThen when {
            case true => {
                e = E(x = 1)
                yield W(r = [e.r], last = e.r)
            }
            case true => {
                e = E(x = 2)
                yield W(r = [e.r], last = e.r)
            }
            case _ => { }
        }"""
    )
    engine.start()
    assert engine.waiting() == ["case[0].e", "case[1].e"]

    engine.answer("case[1].e", {"r": "second"})
    assert engine.answer("case[0].e", {"r": "first"}).outputs == {"r": ["first", "second"], "last": "second"}


def test_conditions_are_looked_at_together_when_every_step_in_any_of_them_is_complete() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: [Json]) andThen {
            a = E(x = 1)
            b = E(x = 2)
        } andThen when {
            case a.r == 1 => { yield W(r = ["a"]) }
            case b.r == 1 => { yield W(r = ["b"]) }
            case _ => { }
        }"""
    )
    engine.start()
    engine.answer("a", {"r": 1})
    assert "#1#case-0" not in engine.paths()

    assert engine.answer("b", {"r": 1}).outputs == {"r": ["a", "b"]}


@pytest.mark.parametrize("condition", ["1 / 0 == 1", "$.missing", "$.n"])
def test_a_condition_without_a_boolean_counts_as_not_true_and_leaves_a_warning(condition: str) -> None:
    engine = Engine(
        f"""
        workflow W(n: Json = 1) => (r: Json) andThen when {{
            case {condition} => {{ yield W(r = "case") }}
            case _ => {{ yield W(r = "default") }}
        }}"""
        if condition != "$.missing"
        else """
        facet F(n: Json) => (r: Json) andThen when {
            case $.n => { yield F(r = "case") }
            case _ => { yield F(r = "default") }
        }
        workflow W() => (r: Json) andThen {
            f = F()
            yield W(r = f.r)
        }"""
    )

    assert engine.run().outputs == {"r": "default"}
    (warning,) = engine.store.get_logs_by_runner("run")
    assert warning.note_type == NoteType.WARNING
    assert "counts as not true" in warning.message


def test_a_case_is_a_name_space_of_its_own() -> None:
    outputs = outputs_of(
        DECLARATIONS
        + """
        workflow W() => (r: [Json]) andThen when {
            case true => {
                v = V(v = 1)
                yield W(r = [v.v])
            }
            case true => {
                v = V(v = 2)
                yield W(r = [v.v])
            }
            case _ => { v = V(v = 3) }
        }"""
    )

    assert outputs == {"r": [1, 2]}


def test_a_case_of_a_declaration_waits_for_the_steps_of_earlier_blocks_that_it_uses() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: Json) andThen {
            a = E(x = 1)
        } andThen {
            b = E(x = 2)
        } andThen when {
            case a.r => {
                v = V(v = b.r)
                n = S(a = 1) andThen { yield W(r = v.v ++ b.r ++ a.r) }
            }
            case _ => { }
        }"""
    )
    engine.start()
    engine.answer("a", {"r": True})
    assert engine.step("#2#case-0")
    assert "case[0].v" not in engine.paths()

    assert engine.answer("b", {"r": "B"}).outputs == {"r": "BBtrue"}


def test_a_when_that_waits_for_a_failed_step_fails_too() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: Json) andThen {
            a = E(x = 1)
        } andThen when {
            case a.r => { yield W(r = 1) }
            case _ => { yield W(r = 2) }
        }"""
    )
    engine.start()

    assert failure_of(engine.fail("a", "no")).message == "no"
    assert engine.step("#1").state == "state.statement.Error"


def test_a_when_that_waits_for_a_step_that_will_not_start_fails_too() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: Json) andThen {
            a = E(x = 1)
            b = E(x = a.r)
        } andThen when {
            case b.r => { yield W(r = 1) }
            case _ => { yield W(r = 2) }
        }"""
    )
    engine.start()

    assert failure_of(engine.fail("a", "no")).message == "no"
    assert engine.step("#1").state == "state.statement.Error"


def test_a_failing_case_lets_the_others_finish() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: Json) andThen when {
            case true => { a = E(x = 1) }
            case true => {
                b = E(x = 2)
                c = E(x = b.r)
            }
            case _ => { }
        }"""
    )
    engine.start()
    assert engine.fail("case[0].a", "no").status == "PAUSED"
    assert engine.answer("case[1].b", {"r": 1}).status == "PAUSED"

    assert failure_of(engine.answer("case[1].c", {"r": 1})).message == "no"


def test_a_when_of_a_step_sees_that_step_and_replaces_the_facets_blocks() -> None:
    engine = Engine(
        """
        event facet E(x: Json) => (r: Json, out: Json) andThen { yield E(out = "facet") }
        workflow W(n: Long) => (r: Json) andThen {
            before = E(x = 0) andThen { }
            e = E(x = before.r) andThen when {
                case e.r > $.n && before.r == 0 => { yield E(out = "case") }
                case _ => { }
            }
            yield W(r = e.out)
        }"""
    )
    engine.start({"n": 1})
    engine.answer("before", {"r": 0})

    assert engine.answer("e", {"r": 2}).outputs == {"r": "case"}


def test_several_clauses_of_any_form_run_on_one_step() -> None:
    outputs = outputs_of(
        DECLARATIONS
        + """
        workflow W(xs: [Long]) => (r: Json) andThen {
            s = S(a = 1) andThen { yield S(out = ["plain"]) }
                andThen foreach x in $.xs { yield S(out = [$.x]) }
                andThen when { case $.a == 1 => { yield S(out = ["case"]) } case _ => { } }
            yield W(r = s.out)
        }""",
        {"xs": [7, 8]},
    )

    assert outputs == {"r": ["plain", 7, 8, "case"]}


def test_a_loop_variable_is_seen_in_cases_and_bodies_in_all_its_forms() -> None:
    outputs = outputs_of(
        DECLARATIONS
        + """
        workflow W(xs: Json) => (r: [Json]) andThen foreach x in $.xs {
            s = S(a = x.n) andThen when {
                case $.x.n > 1 && x.n > 1 => {
                    v = V(v = x) andThen { yield W(r = [$.x.n + x.n + v.v.n]) }
                }
                case _ => { yield W(r = ["few"]) }
            }
        }""",
        {"xs": [{"n": 1}, {"n": 2}]},
    )

    assert outputs == {"r": ["few", 6]}


def test_foreach_in_foreach_sees_both_variables() -> None:
    outputs = outputs_of(
        DECLARATIONS
        + """
        workflow W(rows: Json) => (r: [Json]) andThen foreach row in $.rows {
            s = S(a = row.name) andThen foreach cell in row.cells {
                t = S(a = 1) andThen foreach part in $.cell { yield W(r = [row.name ++ $.row.name ++ part]) }
            }
        }""",
        {"rows": [{"name": "a", "cells": [[1, 2], None]}, {"name": "b", "cells": [[3]]}]},
    )

    assert outputs == {"r": ["aa1", "aa2", "bb3"]}


def test_a_when_without_a_true_case_and_without_default_does_nothing() -> None:
    program = {
        "declarations": [
            {
                "type": "WorkflowDecl",
                "name": "W",
                "body": {"when": {"cases": [{"condition": False, "yield": {"call": {"target": "W", "args": []}}}]}},
            }
        ]
    }

    assert Engine(program).run().status == "COMPLETED"


def test_pauses_before_a_when_and_inside_its_cases_survive(make_engine: MakeEngine) -> None:
    engine = make_engine(
        DECLARATIONS
        + """
        workflow W(xs: [Long]) => (r: [Json]) andThen {
            a = E(x = 0)
        } andThen when {
            case a.r > 0 => {
                e = E(x = 1)
                s = S(a = e.r) andThen foreach x in $.xs {
                    f = E(x = $.x) andThen when {
                        case f.r > e.r => {
                            g = E(x = 2)
                            yield W(r = [g.r + a.r + $.x])
                        }
                        case _ => { yield W(r = ["default of " ++ x]) }
                    }
                }
                yield W(r = ["own"])
            }
            case a.r > 100 => { yield W(r = ["never"]) }
            case _ => { yield W(r = ["never"]) }
        }"""
    )
    engine.start({"xs": [5, 6]})
    engine.answer("a", {"r": 1})
    engine.answer("case[0].e", {"r": 10})
    engine.answer("case[0].s[0].f", {"r": 11})
    engine.answer("case[0].s[1].f", {"r": 9})
    assert engine.waiting() == ["case[0].s[0].f.case[0].g"]

    result = engine.answer("case[0].s[0].f.case[0].g", {"r": 100})

    assert result.outputs == {"r": [106, "default of 6", "own"]}


def test_conditions_are_not_looked_at_again_after_a_pause(make_engine: MakeEngine) -> None:
    engine = make_engine(
        DECLARATIONS
        + """
        workflow W() => (r: Json) andThen when {
            case 1 / 0 == 1 => { }
            case _ => {
                e = E(x = 1)
                yield W(r = e.r)
            }
        }"""
    )
    engine.start()
    engine.resume()

    assert engine.answer("case[1].e", {"r": 1}).outputs == {"r": 1}
    assert len(engine.store.get_logs_by_runner("run")) == 1
