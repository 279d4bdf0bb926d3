"""Visible names: steps of enclosing blocks, the chain of `$`, loop variables."""

from collections.abc import Mapping

import pytest

from afl.engine.types import Value
from tests.unit.engine.running import Engine, failure_of, outputs_of

DECLARATIONS = """
    event facet E(x: Long) => (r: Long)
    facet V(v: Json)
    facet F(a: Long, b: Long) => (out: Long)
"""


def tenfold(facet: str, payload: Mapping[str, Value]) -> dict[str, Value]:
    value = payload["x"]
    assert isinstance(value, int)
    return {"r": 10 * value}


def test_a_body_reads_the_result_of_its_own_step() -> None:
    outputs = outputs_of(
        DECLARATIONS
        + """
        workflow W() => (r: Long) andThen {
            e = E(x = 2) andThen {
                v = V(v = e.r + 1)
                yield W(r = v.v)
            }
        }""",
        agents=tenfold,
    )

    assert outputs == {"r": 21}


def test_the_callees_blocks_do_not_run_when_the_statement_has_its_own() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        facet Price(grams: Long) => (cents: Long) andThen { yield Price(cents = $.grams * 2) }
        workflow W() => (r: Json) andThen {
            p = Price(grams = 5) andThen { v = V(v = $.grams) }
            q = Price(grams = 6)
            yield W(r = q.cents)
        }"""
    )

    assert engine.run().outputs == {"r": 12}
    assert engine.step("p").document.returns == {}


@pytest.mark.parametrize("restarts", [False, True])
def test_a_body_waits_for_a_step_of_the_block_around_it(restarts: bool) -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: Long) andThen {
            slow = E(x = 1)
            quick = E(x = 2) andThen {
                v = V(v = slow.r + quick.r)
                yield W(r = v.v)
            }
        }"""
    )
    engine.start()
    engine.answer("quick", {"r": 20})
    assert "quick.v" not in engine.paths()
    if restarts:
        engine.restart()

    assert engine.answer("slow", {"r": 10}).outputs == {"r": 30}


@pytest.mark.parametrize("restarts", [False, True])
def test_a_body_two_levels_down_waits_for_a_step_of_the_outermost_block(restarts: bool) -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: Long) andThen {
            slow = E(x = 1)
            a = V(v = 1) andThen {
                b = E(x = 2) andThen {
                    c = V(v = slow.r + b.r + a.v)
                    yield W(r = c.v)
                }
            }
        }"""
    )
    engine.start()
    engine.answer("a.b", {"r": 20})
    if restarts:
        engine.restart()

    assert engine.answer("slow", {"r": 10}).outputs == {"r": 31}


@pytest.mark.parametrize("restarts", [False, True])
def test_the_foreach_of_a_body_waits_for_its_source_outside(restarts: bool) -> None:
    engine = Engine(
        """
        event facet L() => (xs: [Long])
        event facet E() => (r: Long)
        facet V(v: Long)
        workflow W() => (r: [Long]) andThen {
            list = L()
            each = E() andThen foreach x in list.xs {
                v = V(v = $.x)
                yield W(r = [v.v + each.r])
            }
        }"""
    )
    engine.start()
    assert engine.answer("each", {"r": 100}).status == "PAUSED"
    if restarts:
        engine.restart()

    assert engine.answer("list", {"xs": [1, 2, 3]}).outputs == {"r": [101, 102, 103]}


def test_inside_a_body_dollar_is_the_step_and_outside_it_the_declaration() -> None:
    outputs = outputs_of(
        DECLARATIONS
        + """
        workflow W(a: Long, z: Long) => (inner: Long, outer: Long, own: Long) andThen {
            f = F(a = 1, b = 2) andThen {
                v = V(v = $.a)
                w = V(v = $.z)
                yield W(inner = v.v, outer = w.v)
            }
            g = V(v = $.a)
            yield W(own = g.v)
        }""",
        {"a": 100, "z": 200},
    )

    assert outputs == {"inner": 1, "outer": 200, "own": 100}


def test_a_result_of_the_step_hides_its_parameter_and_that_hides_the_declarations() -> None:
    outputs = outputs_of(
        """
        event facet E(x: Long, y: Long) => (x: Long)
        facet V(v: Long)
        workflow W(x: Long, y: Long) => (x: Long, y: Long) andThen {
            e = E(x = 2, y = 3) andThen { yield W(x = $.x, y = $.y) }
        }""",
        {"x": 1, "y": 1},
        lambda facet, payload: {"x": 20},
    )

    assert outputs == {"x": 20, "y": 3}


def test_a_called_body_never_sees_the_callers_dollar() -> None:
    result = Engine(
        DECLARATIONS
        + """
        facet Callee(z: Long) andThen { v = V(v = $.z) }
        workflow W(z: Long) andThen { c = Callee() }"""
    ).start({"z": 1})

    assert failure_of(result).step_path == "n.W.c.v"


def test_a_loop_variable_hides_a_parameter_and_is_seen_in_nested_bodies() -> None:
    outputs = outputs_of(
        DECLARATIONS
        + """
        workflow W(x: Long, xs: [Long]) => (r: [Json]) andThen foreach x in $.xs {
            e = E(x = $.x) andThen {
                v = V(v = $.x)
                w = V(v = x)
                yield W(r = [[e.r, v.v, w.v]])
            }
        }""",
        {"x": 7, "xs": [1, 2]},
        tenfold,
    )

    # In the body of `e`, `$.x` is what `e` was called with.
    assert outputs == {"r": [[10, 1, 1], [20, 2, 2]]}


def test_the_innermost_loop_variable_of_a_name_wins_and_members_are_walked() -> None:
    outputs = outputs_of(
        DECLARATIONS
        + """
        workflow W(groups: [Json]) => (r: [Json]) andThen foreach g in $.groups {
            s = V(v = g.name) andThen foreach m in $.g.members {
                v = V(v = [$.g.name, $.m, m, s.v])
                yield W(r = [v.v])
            }
        }""",
        {"groups": [{"name": "a", "members": [1]}, {"name": "b", "members": [2, 3]}]},
    )

    assert outputs == {"r": [["a", 1, 1, "a"], ["b", 2, 2, "b"], ["b", 3, 3, "b"]]}


def test_two_blocks_may_use_the_same_names_for_different_steps() -> None:
    outputs = outputs_of(
        DECLARATIONS
        + """
        workflow W() => (x: Long, y: Long) andThen {
            s = V(v = 1)
            yield W(x = s.v)
        } andThen {
            s = V(v = 2)
            yield W(y = s.v)
        }"""
    )

    assert outputs == {"x": 1, "y": 2}


def test_a_null_result_is_a_value_and_hides_the_parameter() -> None:
    engine = Engine(
        """
        event facet E(x: Long) => (x: Long)
        facet V(v: Json = 5)
        workflow W(given: Json) => (r: Json, s: Json) andThen {
            e = E(x = 1)
            v = V(v = $.given)
            yield W(r = e.x, s = v.v)
        }"""
    )
    engine.start({"given": None})

    assert engine.answer("e", {"x": None}).outputs == {"r": None, "s": None}


def test_dependencies_are_found_in_every_kind_of_expression() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: Json) andThen {
            a = E(x = 1)
            neg = V(v = -a.r)
            arr = V(v = [a.r, 1])
            map = V(v = #{"k": a.r})
            index = V(v = [5, 6, 7][a.r])
            text = V(v = "n=" ++ a.r)
            yield W(r = [neg.v, arr.v, map.v, index.v, text.v])
        }"""
    )
    engine.start()
    assert sorted(engine.paths()) == ["", "#0", "a"]

    assert engine.answer("a", {"r": 2}).outputs == {"r": [-2, [2, 1], {"k": 2}, 7, "n=2"]}


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("order", [("slow", "e.inner"), ("e.inner", "slow")])
def test_a_yield_waits_for_the_outer_step_that_it_reads(order: tuple[str, str], restarts: bool) -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: Long) andThen {
            slow = E(x = 1)
            e = F(a = 1, b = 2) andThen {
                inner = E(x = 2)
                yield W(r = slow.r + inner.r)
            }
        }"""
    )
    engine.start()
    assert engine.answer(order[0], {"r": 10}).status == "PAUSED"
    assert "e.yield" not in engine.paths()
    if restarts:
        engine.restart()

    result = engine.answer(order[1], {"r": 20})

    assert result.outputs == {"r": 30}
    # Hot or cold: the answer, the yield, its block, `e`, the block around it, the root; then nothing moves.
    assert result.iterations == 7
