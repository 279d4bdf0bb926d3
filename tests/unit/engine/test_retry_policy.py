"""Further attempts after a failed one: the pause before each, their numbers, and what of the last one counts."""

import pytest

from afl.engine.execution.answer_acceptance import takes_answer
from afl.engine.limits import MAX_TIMEOUT_MS
from afl.engine.model.entities import TaskState
from afl.engine.model.waiting import RetryPlan
from afl.engine.operations.operations import Kind
from afl.engine.operations.unanswered import waiting_steps
from afl.engine.states import EventState
from tests.unit.engine.waiting_runs import MakeRun, WaitingRun, make_run

__all__ = ["make_run"]


def program(policy: str, more: str = "") -> str:
    return f"""
        event facet E(x: Long = 1) => (r: Json, s: Json = null)
        workflow W() => (r: Json, s: Json) andThen {{
            e = E() with Retry({policy}) {more}
            yield W(r = e.r, s = e.s)
        }}"""


PLAIN = program("times = 3, delay_ms = 100")
CAUGHT = PLAIN + " catch { yield W(r = $.error_type, s = $.error) }"


def test_a_failed_attempt_is_followed_by_another_after_a_pause(make_run: MakeRun) -> None:
    run = make_run(PLAIN).start()

    run.fail("e")
    assert (run.status, run.due()) == ("PAUSED", [("retry", 100)])
    assert run.document("e").event_state == EventState.RETRYING
    run.advance(99)
    assert run.document("e").attempt == 1
    run.advance(1)

    assert (run.document("e").attempt, run.document("e").event_state) == (2, EventState.CREATED)
    assert run.due() == []
    run.answer("e", r="done")
    assert run.outputs == {"r": "done", "s": None}
    assert run.document("e").retry is None


def test_pauses_grow_by_the_factor_up_to_the_longest(make_run: MakeRun) -> None:
    run = make_run(program("times = 5, delay_ms = 100, factor = 3, max_delay_ms = 1000")).start()
    pauses = []
    for _ in range(5):
        run.fail("e")
        ((_, due_ms),) = run.due()
        pauses.append(due_ms)
        run.now_ms = run.timers()[0].due_at_ms
        run.fire(run.timers()[0])

    begun = [0, *pauses[:-1]]
    assert [due - start for due, start in zip(pauses, begun, strict=True)] == [100, 300, 900, 1_000, 1_000]


def test_after_the_last_attempt_the_step_fails_with_its_error(make_run: MakeRun) -> None:
    run = make_run(PLAIN).start()
    for attempt in range(1, 5):
        assert run.document("e").attempt == attempt
        run.fail("e", "Broken", f"attempt {attempt}")
        run.advance(1_000)

    assert run.error() == ("Broken", "attempt 4")
    assert (run.document("e").retry, run.timers()) == (None, [])


def test_a_catch_sees_the_last_failure_only(make_run: MakeRun) -> None:
    run = make_run(CAUGHT).start()
    for attempt in range(1, 5):
        run.fail("e", "Broken", f"attempt {attempt}")
        run.advance(1_000)

    assert run.outputs == {"r": "Broken", "s": "attempt 4"}


@pytest.mark.parametrize(
    ("error_type", "is_retried"), [("Busy", True), ("Timeout", True), ("Busier", False), ("busy", False)]
)
def test_only_listed_errors_are_retried(make_run: MakeRun, error_type: str, is_retried: bool) -> None:
    run = make_run(program('times = 3, delay_ms = 100, errors = ["Busy", "Timeout"]')).start()

    run.fail("e", error_type)

    assert run.status == ("PAUSED" if is_retried else "ERROR")


def test_no_further_attempts_are_made_where_there_are_to_be_none(make_run: MakeRun) -> None:
    run = make_run(program("times = 0")).start()

    run.fail("e")

    assert run.error()[0] == "Broken"


def test_a_timeout_counts_as_a_failed_attempt(make_run: MakeRun) -> None:
    run = make_run(program("times = 1, delay_ms = 100", "with Timeout(ms = 50)")).start()
    assert run.due() == [("deadline", 50)]

    run.advance(50)
    assert (run.due(), run.document("e").event_state) == ([("retry", 150)], EventState.RETRYING)
    run.advance(100)
    assert (run.due(), run.document("e").attempt) == ([("deadline", 200)], 2)
    run.advance(50)

    assert run.error() == ("Timeout", "attempt 2 had no answer before its deadline, 1970-01-01T00:16:40.200Z")
    assert run.document("e").event_state == EventState.EXPIRED


def test_a_result_that_does_not_fit_is_a_failed_attempt(make_run: MakeRun) -> None:
    run = make_run(PLAIN).start()

    run.answer("e", wrong=1)

    assert run.due() == [("retry", 100)]
    assert run.document("e").retry is not None


def test_parts_of_a_failed_attempts_result_do_not_count(make_run: MakeRun) -> None:
    run = make_run(PLAIN).start()
    run.update("e", s="of the first")
    run.fail("e")
    assert run.document("e").returns == {}

    run.advance(100)
    run.answer("e", r="of the second")

    assert run.outputs == {"r": "of the second", "s": None}


def test_an_answer_between_two_attempts_is_not_taken(make_run: MakeRun) -> None:
    run = make_run(PLAIN).start()
    run.fail("e")
    execution = run.execution

    assert not takes_answer(execution, execution.steps[run.step("e").id])


def test_the_task_of_each_attempt_ends_with_it(make_run: MakeRun) -> None:
    run = make_run(PLAIN).start()
    step_id = run.step("e").id
    run.fail("e")
    assert run.task_state(step_id) == TaskState.FAILED

    run.advance(100)
    run.answer("e", r=1)

    assert [run.task_state(step_id, attempt) for attempt in (1, 2)] == [TaskState.FAILED, TaskState.COMPLETED]


def test_a_retrying_step_leaves_its_place_and_asks_for_one_again(make_run: MakeRun) -> None:
    run = make_run(
        """
        event facet E(x: Long) => (r: Json)
        workflow W(list: [Long] = [0, 1, 2]) => (r: [Json]) andThen foreach x in $.list {
            e = E(x = x) with Retry(times = 3, delay_ms = 100)
            yield W(r = [e.r])
        }
        """,
        max_open_events=1,
    ).start()
    run.fail("[0].e")
    assert run.waiting() == ["[0].e", "[1].e"]
    assert run.execution.open_events == 1

    run.advance(100)
    assert run.document("[0].e").event_state == ""
    run.answer("[1].e", r=1)
    # Those that wait for a place have it in order of their creation.
    assert (run.document("[0].e").attempt, run.document("[2].e").attempt) == (2, 0)
    run.answer("[0].e", r=0)
    run.answer("[2].e", r=2)

    assert run.outputs == {"r": [0, 1, 2]}


def test_a_mixin_is_retried_by_its_signature(make_run: MakeRun) -> None:
    run = make_run("""
        event facet E() => (r: Json) with Retry(times = 1, delay_ms = 10)
        facet Base() => (r: Json) with E() as e andThen { yield Base(r = $.e.r) }
        workflow W() => (r: Json) andThen {
            b = Base()
            yield W(r = b.r)
        }
    """).start()
    run.fail("b.e")
    run.advance(10)

    run.answer("b.e", r=1)

    assert run.outputs == {"r": 1}


def test_a_cancelled_run_makes_no_further_attempt(make_run: MakeRun) -> None:
    run = make_run(PLAIN).start()
    run.fail("e")
    (timer,) = run.timers()

    run.cancel()

    assert run.timers() == []
    assert not run.fire(timer)
    assert run.document("e").event_state == EventState.CANCELED


def test_an_event_that_cannot_be_sent_is_not_retried(make_run: MakeRun) -> None:
    run = make_run("""
        event facet E(x: Long) => (r: Json)
        workflow W(x: Long) => (r: Json) andThen {
            e = E(x = $.x * $.x) with Retry(times = 3)
            yield W(r = e.r)
        }
    """).start({"x": 2**40})

    assert run.error()[0] == "ValueRefused"


def test_another_part_of_the_run_may_fail_meanwhile(make_run: MakeRun) -> None:
    run = make_run("""
        event facet E(x: Long) => (r: Json)
        workflow W() => (r: Json) andThen {
            a = E(x = 1) with Retry(times = 1, delay_ms = 100)
            b = E(x = 2)
            yield W(r = [a.r, b.r])
        }
    """).start()
    run.fail("a")
    run.fail("b", "Second")
    assert run.status == "PAUSED"

    run.advance(100)
    run.answer("a", r=1)

    assert run.error()[0] == "Second"


# --- operators --------------------------------------------------------------------------------------------------------


def test_an_operators_retry_begins_a_new_series_of_attempts(make_run: MakeRun) -> None:
    run = make_run(program("times = 1, delay_ms = 100")).start()
    for _ in range(2):
        run.fail("e")
        run.advance(100)
    assert run.status == "ERROR"

    run.operate(Kind.RETRY, "e")
    assert run.document("e").attempt == 3
    run.fail("e")
    assert run.due() == [("retry", 300)]
    run.advance(100)
    assert run.document("e").attempt == 4
    run.fail("e")

    assert run.status == "ERROR"


def test_a_run_that_is_cancelled_between_attempts_goes_on_with_the_next_one(make_run: MakeRun) -> None:
    run = make_run(PLAIN).start()
    run.fail("e")
    run.cancel()

    run.operate(Kind.RETRY)

    assert (run.document("e").attempt, run.document("e").retry, run.due()) == (2, None, [])


def test_a_step_that_is_run_again_between_attempts_asks_at_once(make_run: MakeRun) -> None:
    run = make_run(PLAIN).start()
    run.fail("e")

    run.operate(Kind.RERUN, "e")

    (step,) = [step for step in run.execution.steps.values() if step.is_waiting]
    assert (step.attempt, step.retry, run.due()) == (2, None, [])
    run.answer_step(step.id, {"r": 1})
    assert run.outputs["r"] == 1


# --- views ------------------------------------------------------------------------------------------------------------


def test_a_waiting_step_is_shown_with_its_last_failure_and_its_next_attempt() -> None:
    run = WaitingRun(PLAIN).start()
    run.fail("e", "Busy", "come back later")

    (waits,) = waiting_steps(run.store, "run")

    assert (waits.attempt, waits.event_state, waits.until_ms) == (1, EventState.RETRYING, run.now_ms + 100)
    assert waits.error is not None
    assert (waits.error.type, waits.error.message) == ("Busy", "come back later")


# --- arithmetic -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factor", "longest", "failures", "pause_ms"),
    [
        (2.0, None, 1, 1_000),
        (2.0, None, 4, 8_000),
        (1.0, None, 50, 1_000),
        (1.5, None, 3, 2_250),
        (10.0, 5_000, 2, 5_000),
        (10.0, None, 100, MAX_TIMEOUT_MS),
        (10.0, None, 10_000, MAX_TIMEOUT_MS),
    ],
)
def test_the_pause_is_the_delay_times_a_power_of_the_factor(
    factor: float, longest: int | None, failures: int, pause_ms: int
) -> None:
    plan = RetryPlan(100, 1_000, factor, longest, frozenset())

    assert plan.pause_ms(failures) == pause_ms
