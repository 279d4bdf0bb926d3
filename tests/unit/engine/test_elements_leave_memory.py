"""Complete elements of a large foreach leave memory: nobody who looks at the run can tell."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from afl.engine import limits
from afl.engine.execution.execution import Execution
from afl.engine.execution.leaving import LOT
from afl.engine.execution.stored_steps import find_step
from afl.engine.model.records import StepRecord
from afl.engine.types import Value
from afl.evaluation.evaluator import ExecutionResult
from tests.tiers import some_now
from tests.unit.engine.driven import DrivenRun
from tests.unit.engine.running import Engine, compiled, failure_of

COUNT = limits.FOREACH_WHOLE + 1_200
XS: list[Value] = list(range(COUNT))
OPEN = 300

EVENTS = """
    event facet E(x: Long) => (r: Long)
    facet V(v: Json)
"""
ASK_EACH = f"""
    {EVENTS}
    workflow W(xs: [Long] = {XS}) => (r: [Long]) andThen foreach x in $.xs {{
        e = E(x = $.x)
        yield W(r = [e.r])
    }}
"""
#: An element with a body of its own, a mixin, a case, and a catch that runs for every third one.
NESTED = f"""
    {EVENTS}
    facet Unit(name: String = "kg")
    facet Weigh(x: Long) => (sum: Long, unit: String) with Unit() as of andThen {{
        first = E(x = $.x)
        second = E(x = first.r)
        yield Weigh(sum = first.r + second.r, unit = $.of.name)
    }}
    facet Third(x: Long) => (of: Json) andThen {{
        e = E(x = $.x)
        yield Third(of = [e.r, e.r][$.x % 3])
    }} catch {{ yield Third(of = -1) }}
    facet Pick(x: Long) => (p: String) andThen when {{
        case $.x % 2 == 0 => {{ yield Pick(p = "even") }}
        case _ => {{ yield Pick(p = "odd") }}
    }}
    workflow W(xs: [Long] = {XS}) => (sums: [Json], rest: [Json]) andThen foreach x in $.xs {{
        weighed = Weigh(x = $.x)
        third = Third(x = $.x)
        picked = Pick(x = $.x)
        yield W(sums = [weighed.sum], rest = [[third.of, picked.p, weighed.unit]])
    }}
"""
RESULTS: dict[str, dict[str, Value]] = {
    "r": {"r": [10 * x for x in range(COUNT)]},
    "sums": {
        # 10x, and ten times that.
        "sums": [110 * x for x in range(COUNT)],
        "rest": [[-1 if x % 3 == 2 else 10 * x, ("even", "odd")[x % 2], "kg"] for x in range(COUNT)],
    },
}


def answered(run: DrivenRun, look: Callable[[Execution], None] = lambda _: None) -> None:
    """Answer everything, in lots, in any order: ten times what was asked."""
    chance = random.Random(7)
    while waiting := run.waiting():
        chance.shuffle(waiting)
        for step in waiting[:100]:
            value = step.params["x"]
            assert isinstance(value, int)
            run.answer(step, {"r": 10 * value})
            look(run.execution)


@pytest.mark.parametrize(("program", "results"), [(ASK_EACH, RESULTS["r"]), (NESTED, RESULTS["sums"])])
def test_what_stays_of_complete_elements_are_their_yields_and_the_results_are_the_same(
    program: str, results: dict[str, Value]
) -> None:
    most = 0

    def look(execution: Execution) -> None:
        nonlocal most
        most = max(most, len(execution.steps))

    run = DrivenRun(compiled(program), "hot", look, max_open_events=OPEN)
    answered(run)

    assert run.execution.outputs == results
    assert len(run.store.load_steps("run")) == run.execution.count
    # An element of the second program has at most 15 steps. The last ones, and a slice, are still on their way.
    assert most < 15 * (OPEN + LOT + limits.FOREACH_SLICE + 300)
    assert most < run.execution.count / 2


@pytest.mark.parametrize("way", some_now(["watched", "read back"], 1))
def test_elements_that_are_watched_or_read_back_have_the_same_results(way: str) -> None:
    text = ASK_EACH.replace(str(XS), str(XS[: limits.FOREACH_WHOLE + 40]))
    run = DrivenRun(compiled(text), "watched", lambda _: None, max_open_events=OPEN)
    if way == "watched":
        answered(run)
        assert run.execution.outputs == {"r": [10 * x for x in range(limits.FOREACH_WHOLE + 40)]}
        return
    engine = Engine(text, max_open_events=2_000)
    result = engine.start()
    while result.status == "PAUSED":
        for event in result.pending_events:
            value = event.payload["x"]
            assert isinstance(value, int)
            engine.evaluator.continue_step(event.step_id, {"r": 10 * value})
        engine.restart()
        result = engine.resume()
    assert result.outputs == {"r": [10 * x for x in range(limits.FOREACH_WHOLE + 40)]}


def left_id(run: DrivenRun, facet: str) -> str:
    """Return the id of a step of the facet that has left memory."""
    return next(
        document.id
        for document in run.store.load_steps("run")
        if document.facet_name.endswith(facet) and document.id not in run.execution.steps
    )


def half_answered(program: str) -> DrivenRun:
    run = DrivenRun(compiled(program), "hot", lambda _: None, max_open_events=OPEN)
    for _ in range(2_000):
        step = run.waiting()[0]
        value = step.params["x"]
        assert isinstance(value, int)
        run.answer(step, {"r": 10 * value})
    return run


@pytest.mark.parametrize("program", [ASK_EACH, NESTED])
def test_a_step_that_has_left_is_found_as_it_was(program: str) -> None:
    run = half_answered(program)
    step_id = left_id(run, ".E")
    steps = len(run.execution.steps)

    found = find_step(run.execution, step_id)

    assert isinstance(found, StepRecord)
    document = run.store.load_step(step_id)
    assert document is not None
    assert (found.id, found.state, found.event_state, found.attempt) == (
        step_id,
        document.state,
        document.event_state,
        1,
    )
    assert found.is_complete
    assert found.facet_name == "n.E"
    assert run.execution.step_path(found).endswith((".e", ".first", ".second"))
    assert len(run.execution.steps) == steps, "nobody keeps what was only looked at"
    assert find_step(run.execution, "run:0123") is None
    assert find_step(run.execution, "other:0123") is None


def test_a_second_answer_to_a_step_that_has_left_changes_nothing() -> None:
    engine = Engine(ASK_EACH, max_open_events=OPEN)
    result = engine.start()
    asked: list[str] = []
    while result.status == "PAUSED":
        asked += [event.step_id for event in result.pending_events]
        for event in result.pending_events:
            value = event.payload["x"]
            assert isinstance(value, int)
            engine.evaluator.continue_step(event.step_id, {"r": 10 * value})
        engine.evaluator.continue_step(asked[0], {"r": -1})
        engine.evaluator.fail_step(asked[1], "late", "Late")
        with pytest.raises(ValueError, match="not found"):
            engine.evaluator.continue_step("run:0123", {"r": -1})
        result = engine.resume()

    assert result.outputs == RESULTS["r"]
    assert len(asked) == COUNT


def outcome(engine: Engine, fails: int) -> ExecutionResult:
    result = engine.start()
    while result.status == "PAUSED":
        for event in result.pending_events:
            value = event.payload["x"]
            assert isinstance(value, int)
            if value == fails:
                engine.evaluator.fail_step(event.step_id, "broken", "Broken")
            else:
                engine.evaluator.continue_step(event.step_id, {"r": 10 * value})
        result = engine.resume()
    return result


def test_the_values_of_elements_that_have_left_do_not_count_as_the_state_of_the_run() -> None:
    program = f"""
        event facet E(text: String) => (r: String)
        facet V(v: Json)
        workflow W(xs: [Long] = {XS}) => (r: [Long]) andThen foreach x in $.xs {{
            before = V(v = "{"b" * 1_000}")
            e = E(text = "{"e" * 1_000}")
            yield W(r = [$.x])
        }}
    """
    # All of them are 18 MB.
    engine = Engine(program, max_open_events=OPEN, max_state_bytes=6_000_000)
    result = engine.start()
    while result.status == "PAUSED":
        for event in result.pending_events:
            engine.evaluator.continue_step(event.step_id, {"r": "r" * 1_000})
        result = engine.resume()

    assert result.outputs == {"r": XS}


def test_an_element_that_fails_fails_its_run_with_its_own_path() -> None:
    error = failure_of(outcome(Engine(ASK_EACH, max_open_events=OPEN), fails=COUNT - 1))

    assert (error.error_type, error.step_path) == ("Broken", f"n.W[{COUNT - 1}].e")


def test_a_catch_keeps_what_complete_elements_have_yielded_before_they_left() -> None:
    caught = ASK_EACH.rstrip() + " catch { yield W(r = [-1]) }\n"
    result = outcome(Engine(caught, max_open_events=OPEN), fails=7)

    assert result.outputs == {"r": [*(10 * x for x in range(COUNT) if x != 7), -1]}


def test_yields_to_a_step_further_out_come_in_their_order() -> None:
    program = f"""
        {EVENTS}
        facet Box(xs: [Long])
        workflow W(xs: [Long] = {XS}) => (r: [Long]) andThen {{
            box = Box(xs = $.xs) andThen foreach x in $.xs {{
                e = E(x = $.x)
                yield W(r = [e.r])
            }}
        }}
    """
    result = outcome(Engine(program, max_open_events=OPEN), fails=-1)

    assert result.outputs == RESULTS["r"]


def test_two_large_foreachs_of_one_step_are_merged_block_by_block() -> None:
    program = f"""
        {EVENTS}
        workflow W(xs: [Long] = {XS}) => (r: [Long])
        andThen foreach x in $.xs {{
            e = E(x = $.x)
            yield W(r = [e.r])
        }}
        andThen foreach x in $.xs {{
            v = V(v = $.x)
            yield W(r = [v.v])
        }}
    """
    result = outcome(Engine(program, max_open_events=OPEN), fails=-1)

    assert result.outputs == {"r": [*(10 * x for x in range(COUNT)), *range(COUNT)]}


def test_a_run_that_is_tried_again_after_elements_have_left_goes_on_with_the_rest() -> None:
    engine = Engine(ASK_EACH, max_open_events=OPEN)
    outcome(engine, fails=COUNT - 1)

    engine.evaluator.retry("run")
    result = engine.resume()
    assert engine.waiting() == [f"[{COUNT - 1}].e"]
    result = engine.answer(f"[{COUNT - 1}].e", {"r": 10 * (COUNT - 1)})

    assert result.outputs == RESULTS["r"]
