"""The one look for the usual answer agrees with the table of outcomes, which it takes the place of."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from afl.core.ids import event_id_of
from afl.engine.execution.execution import Execution
from afl_stream.evaluator.answers import Answers
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.outcomes import Case, Outcome, judge
from afl_stream.evaluator.unit_of_work import UnitOfWork
from afl_stream.wire.messages import StepContinue
from tests.unit.engine.waiting_runs import WaitingRun
from tests.worlds.compiled import interpreted_only

pytestmark = interpreted_only

PROGRAM = """
    event facet E() => (r: Json)
    workflow W() => (r: Json) andThen {
        e = E() with Timeout(ms = 500) with Retry(times = 3, delay_ms = 100)
        w = afl.WaitForEvent(name = "go")
        yield W(r = e.r)
    }
"""


def opened() -> WaitingRun:
    return WaitingRun(PROGRAM).start()


def answered() -> WaitingRun:
    run = opened()
    run.answer("e", r=1)
    return run


def failed() -> WaitingRun:
    run = opened()
    run.fail("e")
    return run


def expired() -> WaitingRun:
    return opened().advance(500)


def asked_again() -> WaitingRun:
    run = failed()
    run.advance(100)
    return run


def ended() -> WaitingRun:
    run = answered()
    run.answer("w", data=1)
    return run


#: What has happened to step `e` before the answer comes.
BEFORE: Mapping[str, Callable[[], WaitingRun]] = {
    "open": opened,
    "answered": answered,
    "failed": failed,
    "expired": expired,
    "asked again": asked_again,
    "ended": ended,
}


class OneRun:
    """What an answer meets of a unit of work: one workflow, which is hot."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self.changed: dict[str, Execution] = {}
        self.evaluated = 0

    def hot_execution(self, workflow_id: str) -> Execution | None:
        return self._execution if workflow_id == self._execution.id else None

    def evaluate(self, execution: Execution) -> None:
        assert execution is self._execution
        self.evaluated += 1


def take(run: WaitingRun, answer: StepContinue, *, tokens: object = None) -> tuple[bool, OneRun]:
    unit = OneRun(run.execution)
    context = cast(EvaluatorContext, SimpleNamespace(tokens=tokens))
    return Answers(context, cast(UnitOfWork, unit)).take_usual(answer), unit


def answer_to(run: WaitingRun, path: str, attempt: int) -> StepContinue:
    step_id = run.step(path).id
    return StepContinue(
        step_id=step_id,
        result={"r": 1} if path == "e" else {"data": 1},
        workflow_id=run.execution.id,
        event_id=event_id_of(step_id, attempt),
        attempt=attempt,
        group="workers",
    )


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("attempt", [1, 2, 3])
def test_the_one_look_takes_what_the_table_applies_and_nothing_else(before: str, attempt: int) -> None:
    run = BEFORE[before]()
    answer = answer_to(run, "e", attempt)
    outcome = judge(Case(run.execution, run.execution.steps[answer.step_id], attempt))

    taken, unit = take(run, answer)

    assert taken is (outcome is Outcome.APPLIED)
    assert unit.evaluated == taken
    assert list(unit.changed) == ([run.execution.id] if taken else [])


def test_a_taken_answer_is_the_steps_result_and_names_its_group() -> None:
    run = opened()
    answer = answer_to(run, "e", 1)

    take(run, answer)

    step = run.execution.steps[answer.step_id]
    assert step.returns == {"r": 1}
    assert step.answered_by == "workers"


@pytest.mark.parametrize(
    "unusual",
    [
        {"workflow_id": None},
        {"workflow_id": "another"},
        {"step_id": "run:00"},
        {"attempt": None},
        {"group": None},
        {"event_id": "run:00#1"},
    ],
    ids=str,
)
def test_an_answer_of_another_form_is_left_to_the_table(unusual: Mapping[str, str | None]) -> None:
    run = opened()
    answer = replace(answer_to(run, "e", 1), **unusual)  # type: ignore[arg-type]  # names of fields

    taken, unit = take(run, answer)

    assert not taken
    assert unit.evaluated == 0
    assert run.execution.steps[run.step("e").id].returns == {}


def test_an_answer_to_what_asks_nobody_is_left_to_the_table() -> None:
    run = opened()

    assert not take(run, answer_to(run, "w", 1))[0]


def test_where_answers_carry_tokens_the_table_looks_at_them() -> None:
    run = opened()

    assert not take(run, answer_to(run, "e", 1), tokens=object())[0]
