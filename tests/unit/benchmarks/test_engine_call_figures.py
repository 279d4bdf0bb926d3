"""The benchmark of engine calls does the work that it says, and what it counts does not grow with the workflow."""

import io
import json

import pytest

from afl.stores.memory.store import MemoryStore
from benchmarks.engine_calls import (
    LIVE_KINDS,
    answer,
    bytes_a_live_step,
    calls_a_step,
    calls_an_answer,
    counted,
    events,
    given_program,
    main,
    paused,
    planned,
)


def test_every_event_is_asked_and_the_last_answer_completes_the_workflow() -> None:
    program = events(5)
    evaluator = planned(MemoryStore(), program)

    workflow_id, step_ids = paused(evaluator, program)
    answer(evaluator, workflow_id, step_ids)

    assert len(set(step_ids)) == 5
    assert evaluator.resume(workflow_id).outputs == {"value": 1}


def test_calls_of_python_and_of_c_are_counted() -> None:
    looked_into: dict[str, int] = {}

    with counted() as calls:
        before = calls()
        looked_into.get("a")
        looked_into.get("b")
        after = calls()

    # Each look is a call, and so is asking how many there were.
    assert after - before == 3


def test_a_step_of_a_long_chain_takes_as_many_visits_and_lookups_as_one_of_a_short_chain() -> None:
    small, large = calls_a_step(100), calls_a_step(1_000)

    assert large == pytest.approx(small, rel=0.1)


def test_an_answer_in_a_large_workflow_takes_as_many_visits_and_lookups_as_one_in_a_small_workflow() -> None:
    small, large = calls_an_answer(60), calls_an_answer(600)

    assert large == pytest.approx(small, rel=0.02)


def test_a_program_that_was_given_before_is_not_serialised() -> None:
    # About a tenth where nothing else is at work.
    assert given_program(150, pairs=7).ratio < 0.5


@pytest.mark.parametrize("kind", LIVE_KINDS)
def test_a_live_step_takes_less_than_1300_bytes(kind: str) -> None:
    assert bytes_a_live_step(kind, 500) < 1_300


def test_the_last_line_has_the_figures() -> None:
    out = io.StringIO()

    main(["--steps", "20", "--answers", "20", "--live", "20", "--rounds", "1"], out)

    assert set(json.loads(out.getvalue().splitlines()[-1])) == {
        "chain_first_s",
        "chain_s",
        "answers_s",
        "given_program_s",
        "given_program_ratio",
        "calls_a_step",
        "calls_a_step_growth",
        "calls_an_answer",
        "calls_an_answer_growth",
        "bytes_a_live_step",
    }
