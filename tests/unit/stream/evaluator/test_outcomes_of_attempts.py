"""What becomes of answers around deadlines, between attempts, to waits for the runtime, and to executions before."""

import pytest

from afl.core.ids import event_id_of
from afl_stream.evaluator.outcomes import Case, Outcome, judge
from tests.unit.engine.waiting_runs import WaitingRun

CALL = """
    event facet E() => (r: Json)
    workflow W() => (r: Json) andThen {
        e = E() with Timeout(ms = 500) %s
        w = afl.WaitForEvent(name = "go")
        yield W(r = e.r)
    }
"""
PLAIN = CALL % ""
RETRIED = CALL % "with Retry(times = 3, delay_ms = 100)"


def outcome(run: WaitingRun, path: str, attempt: int | None) -> Outcome:
    """Return what becomes of an answer; None: it names no attempt, as a person's does."""
    execution = run.execution
    return judge(Case(execution, execution.steps[run.step(path).id], attempt))


def test_an_answer_to_an_open_event_is_applied() -> None:
    run = WaitingRun(PLAIN).start()

    assert outcome(run, "e", 1) is outcome(run, "e", None) is Outcome.APPLIED


@pytest.mark.parametrize("attempt", [1, None])
def test_an_answer_after_the_deadline_is_superseded(attempt: int | None) -> None:
    run = WaitingRun(PLAIN).start().advance(500)

    assert run.status == "PAUSED"  # The other step still waits.
    assert outcome(run, "e", attempt) is Outcome.SUPERSEDED


@pytest.mark.parametrize("attempt", [1, None])
def test_an_answer_after_a_failure_is_a_duplicate_while_the_next_attempt_is_waited_for(attempt: int | None) -> None:
    run = WaitingRun(RETRIED).start()
    run.fail("e")

    assert outcome(run, "e", attempt) is Outcome.DUPLICATE


@pytest.mark.parametrize("attempt", [1, None])
def test_an_answer_after_a_timeout_is_superseded_while_the_next_attempt_is_waited_for(attempt: int | None) -> None:
    run = WaitingRun(RETRIED).start().advance(500)
    assert run.due() == [("retry", 600)]

    assert outcome(run, "e", attempt) is Outcome.SUPERSEDED


def test_the_next_attempt_supersedes_the_one_before() -> None:
    run = WaitingRun(RETRIED).start()
    run.fail("e")
    run.advance(100)

    assert [outcome(run, "e", attempt) for attempt in (1, 2, 3, None)] == [
        Outcome.SUPERSEDED,
        Outcome.APPLIED,
        Outcome.EARLY,
        Outcome.APPLIED,
    ]


def test_an_answer_to_an_attempt_that_waits_for_a_place_is_a_duplicate() -> None:
    run = WaitingRun(
        """
        event facet E(x: Long) => (r: Json)
        workflow W(list: [Long] = [0, 1]) => (r: [Json]) andThen foreach x in $.list {
            e = E(x = x) with Retry(times = 3, delay_ms = 100)
            yield W(r = [e.r])
        }
        """,
        max_open_events=1,
    ).start()
    run.fail("[0].e")
    run.advance(100)
    assert run.document("[0].e").event_state == ""

    assert outcome(run, "[0].e", 1) is Outcome.DUPLICATE
    assert outcome(run, "[0].e", 2) is Outcome.EARLY


def test_a_person_ends_a_wait_for_the_runtime() -> None:
    run = WaitingRun(PLAIN).start()

    assert outcome(run, "w", None) is Outcome.APPLIED
    run.answer("w", data=1)
    assert outcome(run, "w", None) is Outcome.DUPLICATE


def test_an_answer_to_a_step_of_an_execution_before_is_superseded() -> None:
    run = WaitingRun(PLAIN).start()
    step_id = run.step("e").id
    run.continue_as_new({})
    execution = run.execution

    case = Case(execution, execution.steps.get(step_id), 1, is_run_again=execution.is_superseded(step_id))

    assert judge(case) is Outcome.SUPERSEDED
    assert event_id_of(step_id, 1) != event_id_of(run.step("e").id, 1)
