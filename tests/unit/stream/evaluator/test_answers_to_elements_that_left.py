"""Answers to steps of elements that have left memory are judged as if these were still there."""

from __future__ import annotations

from collections import Counter

from afl.engine import limits
from afl.engine.execution.leaving import LOT
from afl.engine.execution.stored_steps import find_step
from afl_stream.evaluator.outcomes import Case, Outcome, judge
from tests.unit.engine.driven import DrivenRun
from tests.unit.engine.running import compiled


def test_a_second_answer_is_a_duplicate_and_one_to_another_attempt_is_early() -> None:
    xs = list(range(limits.FOREACH_WHOLE + 700))
    program = compiled(
        f"""
        event facet E(x: Long) => (r: Long)
        workflow W(xs: [Long] = {xs}) => (r: [Long]) andThen foreach x in $.xs {{
            e = E(x = $.x)
            yield W(r = [e.r])
        }}"""
    )
    run = DrivenRun(program, "hot", lambda _: None, max_open_events=300)
    asked = []
    for _ in range(600):
        step = run.waiting()[0]
        asked.append(step.id)
        run.answer(step, {"r": 1})

    outcomes: Counter[tuple[bool, int, Outcome]] = Counter()
    for step_id in asked:
        found = find_step(run.execution, step_id)
        for attempt in (1, 2):
            outcomes[step_id in run.execution.steps, attempt, judge(Case(run.execution, found, attempt))] += 1

    assert outcomes[True, 1, Outcome.DUPLICATE] == outcomes[True, 2, Outcome.EARLY]
    assert outcomes[False, 1, Outcome.DUPLICATE] == outcomes[False, 2, Outcome.EARLY]
    # Two lots have left.
    assert outcomes[False, 1, Outcome.DUPLICATE] > 1.9 * LOT
    assert outcomes.total() == 2 * 600
