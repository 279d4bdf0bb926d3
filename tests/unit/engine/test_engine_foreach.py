"""foreach: what it goes through, how its results are collected, and that large ones come in slices."""

import pytest

from afl.engine import limits
from afl.engine.types import Value
from afl.evaluation.evaluator import ExecutionResult
from tests.tiers import some_now
from tests.unit.engine.running import Engine, failure_of, outputs_of

EACH = """
    facet V(v: Json)
    workflow W(xs: Json) => (r: [Json]) andThen foreach x in $.xs {
        v = V(v = $.x)
        yield W(r = [v.v])
    }
"""


def test_results_come_in_the_order_of_the_elements() -> None:
    assert outputs_of(EACH, {"xs": [3, 1, 2]}) == {"r": [3, 1, 2]}


@pytest.mark.parametrize("nothing", [None, [], {}])
def test_null_and_empty_have_no_iterations(nothing: Value) -> None:
    engine = Engine(EACH)

    assert engine.run({"xs": nothing}).outputs == {}
    assert engine.paths() == ["", "#0"]


def test_a_map_is_gone_through_by_its_keys() -> None:
    assert outputs_of(EACH, {"xs": {"b": 1, "a": 2}}) == {"r": ["b", "a"]}


@pytest.mark.parametrize(("scalar", "kind"), [("text", "String"), (3, "Long"), (1.5, "Double"), (True, "Boolean")])
def test_a_scalar_is_an_error(scalar: Value, kind: str) -> None:
    error = failure_of(Engine(EACH).start({"xs": scalar}))

    assert error.error_type == "EvaluationError"
    assert kind in error.message


def test_variable_value_and_index_are_stored_with_each_element() -> None:
    engine = Engine(EACH)
    engine.run({"xs": ["a", "b"]})

    stored = [
        (step.document.foreach_index, step.document.foreach_var, step.document.foreach_value)
        for step in engine.steps()
        if step.document.foreach_index is not None
    ]
    assert stored == [(0, "x", "a"), (1, "x", "b")]


def test_the_block_of_the_foreach_itself_has_neither_variable_nor_value() -> None:
    engine = Engine(EACH)
    engine.run({"xs": ["a", "b"]})

    [foreach] = [step.document for step in engine.steps() if step.path == "#0"]
    assert (foreach.foreach_index, foreach.foreach_var, foreach.foreach_value) == (None, None, None)


def test_the_source_may_be_a_result_and_lie_in_a_body_of_a_facet() -> None:
    engine = Engine(
        """
        event facet List() => (rows: Json)
        facet V(v: Long)
        facet Sum(rows: Json) => (seen: [Long]) andThen foreach row in $.rows.items {
            v = V(v = $.row * 2)
            yield Sum(seen = [v.v])
        }
        workflow W() => (r: [Long]) andThen {
            list = List()
            sum = Sum(rows = list.rows)
            yield W(r = sum.seen)
        }"""
    )
    engine.start()

    assert engine.answer("list", {"rows": {"items": [1, 2, 3]}}).outputs == {"r": [2, 4, 6]}


def test_elements_are_made_in_slices_of_an_iteration_each() -> None:
    count = limits.FOREACH_WHOLE + 2 * limits.FOREACH_SLICE + 500
    engine = Engine(EACH)

    result = engine.start({"xs": list(range(count))})

    assert result.outputs == {"r": list(range(count))}
    # Root, foreach block, and for each element its block, its step and its yield.
    assert len(engine.steps()) == 2 + 3 * count
    slices = -(-count // limits.FOREACH_SLICE)
    # The slices, and for the last of them: yields, blocks, the foreach, the root; and the one in which nothing moves.
    assert result.iterations == slices + 4 + 1


def test_a_restart_between_two_slices_makes_every_element_once() -> None:
    count = limits.FOREACH_WHOLE + 10
    engine = Engine(EACH, max_iterations=1)
    assert engine.start({"xs": list(range(count))}).status == "TIMEOUT"

    result = engine.new_evaluator().resume("run")
    while result.status == "TIMEOUT":
        result = engine.new_evaluator().resume("run")

    assert result.outputs == {"r": list(range(count))}
    assert len(engine.steps()) == 2 + 3 * count


def test_each_element_sees_its_own_steps_only() -> None:
    engine = Engine(
        """
        event facet E(x: Long) => (r: Long)
        facet V(v: Long)
        workflow W(xs: [Long]) => (r: [Long]) andThen foreach x in $.xs {
            e = E(x = $.x)
            v = V(v = e.r + 1)
            yield W(r = [v.v])
        }"""
    )
    engine.start({"xs": [1, 2]})
    engine.answer("[1].e", {"r": 20})

    assert engine.step("[1].v").is_complete
    assert "[0].v" not in engine.paths()
    assert engine.answer("[0].e", {"r": 10}).outputs == {"r": [11, 21]}


ASK_EACH = """
    event facet E(x: Long) => (r: Long)
    workflow W(xs: [Long]) => (r: [Long]) andThen foreach x in $.xs {
        e = E(x = $.x)
        yield W(r = [e.r])
    }
"""


def answer_all(engine: Engine, result: ExecutionResult) -> int:
    """Answer what is out, and say how much that was."""
    events = list(result.pending_events)
    for event in events:
        engine.evaluator.continue_step(event.step_id, {"r": event.payload["x"]})
    return len(events)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_large_foreach_makes_elements_only_as_fast_as_their_events_are_answered(restarts: bool) -> None:
    count, out = limits.FOREACH_WHOLE + 300, 600
    engine = Engine(ASK_EACH, max_open_events=out)
    result = engine.start({"xs": list(range(count))})
    answered = 0
    while result.status == "PAUSED":
        # An element that is done has a yield besides its block and its step.
        made = (engine.row().steps - 2 - answered) // 2
        assert min(count, answered + out) <= made <= answered + out + limits.FOREACH_SLICE
        answered += answer_all(engine, result)
        if restarts:
            engine.restart()
        result = engine.resume()

    assert result.outputs == {"r": list(range(count))}
    assert answered == count


def test_a_restart_at_a_pause_of_a_large_foreach_finds_nothing_to_do() -> None:
    engine = Engine(ASK_EACH, max_open_events=3)
    engine.start({"xs": list(range(limits.FOREACH_WHOLE + 1))})
    revision = engine.row().revision
    engine.restart()

    assert engine.resume().status == "PAUSED"
    assert engine.row().revision == revision


@pytest.mark.parametrize("restarts", some_now([False, True], 1))
def test_large_foreachs_beside_each_other_all_come_to_their_ends(restarts: bool) -> None:
    engine = Engine(
        """
        event facet E(x: Long) => (r: Long)
        facet V(v: Long)
        facet Ask(xs: [Long]) => (seen: [Long]) andThen foreach x in $.xs {
            e = E(x = $.x)
            yield Ask(seen = [e.r])
        }
        facet Copy(xs: [Long]) => (seen: [Long]) andThen foreach x in $.xs {
            v = V(v = $.x)
            yield Copy(seen = [v.v])
        }
        workflow W(xs: [Long]) => (r: [Json]) andThen {
            first = Ask(xs = $.xs)
            second = Copy(xs = $.xs)
            third = Ask(xs = $.xs)
            yield W(r = [first.seen, second.seen, third.seen])
        }""",
        max_open_events=2_000,
    )
    xs: list[Value] = list(range(limits.FOREACH_WHOLE + 1))
    result = engine.start({"xs": xs})
    while result.status == "PAUSED":
        answer_all(engine, result)
        if restarts:
            engine.restart()
        result = engine.resume()

    assert result.outputs == {"r": [xs, xs, xs]}


def test_a_large_foreach_continues_when_an_element_has_failed() -> None:
    count = limits.FOREACH_WHOLE + 1
    engine = Engine(ASK_EACH, max_open_events=600)
    result = engine.start({"xs": list(range(count))})
    engine.evaluator.fail_step(result.pending_events[0].step_id, "broken", "Broken")
    result = engine.resume()
    while result.status == "PAUSED":
        answer_all(engine, result)
        result = engine.resume()

    assert failure_of(result).error_type == "Broken"
    assert sum(step.path.endswith("].e") for step in engine.steps()) == count
