"""Continue as new: the next execution of a workflow, what it is given, and what it leaves behind."""

import pytest

from afl.core.ids import event_id_of
from afl.engine.errors import InputTypeMismatch, MissingInput, UnknownInput
from afl.engine.execution.commit_rows import Commits
from afl.engine.execution.execution import Execution
from afl.engine.execution.external_events import EventLimits, Raised
from afl.engine.execution.iteration import run_iteration
from afl.engine.execution.task_dispatch import TaskDispatch
from afl.engine.execution.timers import fire_timer
from afl.engine.model.entities import TaskState
from afl.engine.model.history import HistoryKind
from afl.engine.model.records import StepRecord
from afl.engine.model.store import Batch, OutboxRecord
from afl.engine.operations.operations import Kind
from afl.engine.types import Value
from tests.unit.engine.running import Engine
from tests.unit.engine.waiting_runs import START_MS, MakeRun, WaitingRun, make_run

__all__ = ["make_run"]

#: Counts down, execution by execution.
COUNT = """
    workflow W(n: Long, sum: Long = 0) => (r: Long) andThen when {
        case $.n == 0 => { yield W(r = $.sum) }
        case _ => { c = afl.ContinueAsNew(inputs = #{"n": $.n - 1, "sum": $.sum + $.n}) }
    }
"""
#: Takes an event in each execution of which the input says so.
TAKES = """
    workflow W(n: Long = 0, last: Long = 3, takes: Boolean = true) => (r: Json) andThen when {
        case $.n == $.last => {
            a = afl.WaitForEvent(name = "signal")
            yield W(r = a.data)
        }
        case $.takes && $.n != $.last => {
            a = afl.WaitForEvent(name = "signal")
            c = afl.ContinueAsNew(inputs = #{"n": $.n + 1, "last": $.last, "takes": a.timed_out == false})
        }
        case _ => {
            s = afl.Sleep(seconds = 1)
            c = afl.ContinueAsNew(inputs = #{"n": $.n + 1, "last": $.last + 0 * s.woke_at, "takes": false})
        }
    }
"""
EVENTS = """
    event facet E(x: Long) => (r: Json)
    workflow W(n: Long = 1) => (r: Json) andThen {
        a = E(x = 1) with Timeout(minutes = 1)
        b = E(x = 2)
        s = afl.Sleep(hours = 1)
        w = afl.WaitForEvent(name = "go", timeout_ms = 7200000)
        yield W(r = [a.r, b.r, $.n])
    } andThen {
        t = afl.WaitForEvent(name = "next")
        c = afl.ContinueAsNew(inputs = t.data)
    }
"""


def raised(run: WaitingRun) -> list[tuple[Value, int, int, bool]]:
    """Return what is kept of external events: data, executions in which it was raised and until which, and pending."""
    return [
        (row.value, row.execution, row.until_execution, row.is_pending)
        for row in run.history(HistoryKind.EXTERNAL_EVENT)
    ]


# --- the chain of executions ------------------------------------------------------------------------------------------


def test_a_workflow_goes_on_with_new_inputs(make_run: MakeRun) -> None:
    run = make_run(COUNT).start({"n": 3})

    row = run.row()
    assert run.outputs == {"r": 6}
    assert (row.execution, row.executions_before, row.execution_number) == (1, 3, 4)
    assert (row.inputs, row.created_at_ms) == ({"n": 0, "sum": 6}, START_MS)


def test_each_execution_is_told_in_the_history(make_run: MakeRun) -> None:
    run = make_run(COUNT).start({"n": 2})

    rows = run.history(HistoryKind.CONTINUED_AS_NEW)
    assert [(row.execution, row.number) for row in rows] == [(1, 0), (2, 1)]
    assert [row.value["inputs"] for row in rows] == [  # type: ignore[index,call-overload]  # a map
        {"n": 1, "sum": 2},
        {"n": 0, "sum": 3},
    ]
    # The root, its block, that of the case, and the step.
    assert [row.value["steps"] for row in rows] == [4, 4]  # type: ignore[index,call-overload]  # a map


def test_steps_of_an_execution_are_gone_and_their_ids_never_come_back(make_run: MakeRun) -> None:
    run = make_run(TAKES).start({"takes": False})
    ids = [{step.id for step in run.store.load_steps("run")}]
    for _ in range(3):
        run.advance(1_000)
        ids.append({step.id for step in run.store.load_steps("run")})

    assert all(ids)
    assert sum(map(len, ids)) == len(set().union(*ids))


def test_the_revision_counts_on(make_run: MakeRun) -> None:
    run = make_run(TAKES).start({"takes": False})
    before = run.row().revision

    run.advance(1_000)

    assert run.row().revision > before


def test_an_endless_workflow_keeps_its_store_flat(make_run: MakeRun) -> None:
    run = make_run(COUNT).start({"n": 100})

    assert len(run.store.load_steps("run")) <= 8
    rows = run.history()
    # The last ten executions are kept; the present one has not continued.
    assert [row.execution for row in rows] == list(range(92, 101))
    assert run.outputs == {"r": 5_050}


def test_fewer_executions_are_kept_where_that_is_said(make_run: MakeRun) -> None:
    run = make_run(COUNT, limits=EventLimits(kept_executions=3)).start({"n": 6})

    assert [row.execution for row in run.history()] == [5, 6]


# --- inputs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "error_type"),
    [
        ({}, "MissingInput"),
        ({"n": "one"}, "InputTypeMismatch"),
        ({"n": 1, "m": 2}, "UnknownInput"),
        ("text", "InvalidWait"),
        (None, "InvalidWait"),
        ([1], "InvalidWait"),
    ],
)
def test_inputs_that_do_not_fit_fail_the_step_and_a_catch_sees_it(
    make_run: MakeRun, inputs: Value, error_type: str
) -> None:
    run = make_run("""
        workflow W(n: Long, next: Json = null) => (r: Json) andThen {
            c = afl.ContinueAsNew(inputs = $.next)
        } catch { yield W(r = $.error_type) }
    """).start({"n": 1, "next": inputs})

    assert run.outputs == {"r": error_type}
    assert run.history() == []


def test_defaults_hold_for_what_is_left_out(make_run: MakeRun) -> None:
    run = make_run("""
        workflow W(is_last: Boolean, n: Long = 7) => (r: Long) andThen when {
            case $.is_last => { yield W(r = $.n) }
            case _ => { c = afl.ContinueAsNew(inputs = #{"is_last": true}) }
        }
    """).start({"is_last": False, "n": 1})

    assert run.outputs == {"r": 7}


def test_the_first_of_two_steps_that_continue_counts(make_run: MakeRun) -> None:
    run = make_run("""
        workflow W(n: Long = 0) => (r: Long) andThen when {
            case $.n == 0 => {
                a = afl.ContinueAsNew(inputs = #{"n": 1})
                b = afl.ContinueAsNew(inputs = #{"n": 2})
            }
            case _ => { yield W(r = $.n) }
        }
    """).start()

    assert (run.outputs, run.row().execution_number) == ({"r": 1}, 2)


def test_a_step_that_was_stored_before_its_workflow_continued_asks_again() -> None:
    run = WaitingRun(TAKES).start({"takes": False})
    (timer,) = run.timers()
    run.now_ms = timer.due_at_ms
    execution = run.execution
    fire_timer(execution, timer)
    while execution.next_inputs is None:
        run_iteration(execution)
    # A driver that does not know of continuing commits it like this.
    run.store.commit_batch(Commits(execution).next())
    run.restart()

    run.settle()

    assert run.row().execution_number == 2


# --- what is left behind ----------------------------------------------------------------------------------------------


def test_events_and_waits_of_an_execution_end_with_it(make_run: MakeRun) -> None:
    run = make_run(EVENTS).start()
    abandoned = [run.step(path).id for path in ("a", "b")]
    assert [kind for kind, _ in run.due()] == ["deadline", "sleep", "wait"]

    run.raise_event("next", {"n": 2})

    (row,) = run.history(HistoryKind.CONTINUED_AS_NEW)
    assert row.value == {"inputs": {"n": 2}, "steps": row.value["steps"], "abandoned": abandoned}  # type: ignore[index,call-overload]  # a map
    assert run.row().execution_number == 2
    assert [kind for kind, _ in run.due()] == ["deadline", "sleep", "wait"]
    assert not {timer.step_id for timer in run.timers()} & set(abandoned)
    assert [run.task_state(step_id) for step_id in abandoned] == [TaskState.CANCELED] * 2
    assert run.execution.open_events == 2


def test_answers_to_steps_of_an_earlier_execution_are_superseded(make_run: MakeRun) -> None:
    run = make_run(EVENTS).start()
    step_id = run.step("a").id
    run.raise_event("next", {"n": 2})

    assert run.execution.is_superseded(step_id)
    assert not run.execution.is_superseded(run.step("a").id)


def test_an_answer_of_an_agent_to_an_execution_before_does_nothing() -> None:
    engine = Engine("""
        event facet E() => (r: Json)
        workflow W() => (r: Json) andThen { e = E()  yield W(r = e.r) }
    """)
    engine.start()
    step_id = engine.step("e").id
    engine.evaluator.continue_as_new("run", {})

    engine.evaluator.continue_step(step_id, {"r": "late"})

    assert engine.waiting() == ["e"]
    assert engine.answer("e", {"r": "in time"}).outputs == {"r": "in time"}


def test_an_event_of_the_same_commit_is_not_sent(make_run: MakeRun) -> None:
    run = make_run("""
        event facet E(x: Long) => (r: Json)
        workflow W(n: Long = 0) => (r: Json) andThen when {
            case $.n == 0 => {
                e = E(x = 1)
                c = afl.ContinueAsNew(inputs = #{"n": 1})
            }
            case _ => {
                e = E(x = 2)
                yield W(r = e.r)
            }
        }
    """).start()

    (row,) = run.history(HistoryKind.CONTINUED_AS_NEW)
    assert isinstance(row.value, dict)
    assert isinstance(row.value["abandoned"], list)
    assert [run.task_state(str(step_id)) for step_id in row.value["abandoned"]] == [None]
    assert [(task.data or {})["x"] for task in run.store.get_pending_tasks("default")] == [2]
    assert run.execution.open_events == 1


class Topics(TaskDispatch):
    """Writes records, keyed by their steps as on topics, and one for the workflow."""

    def dispatch(self, execution: Execution, step: StepRecord, event_id: str, effects: Batch) -> None:
        effects.outbox.append(OutboxRecord("lane", "topic", step.id.encode(), event_id.encode()))
        effects.outbox.append(OutboxRecord("lane", "topic", execution.id.encode(), b"asked"))


def test_a_record_of_the_same_commit_is_not_published(make_run: MakeRun) -> None:
    run = make_run(
        """
        event facet E(x: Long) => (r: Json)
        workflow W(n: Long = 0) => (r: Json) andThen when {
            case $.n == 0 => {
                e = E(x = 1)
                c = afl.ContinueAsNew(inputs = #{"n": 1})
            }
            case _ => { e = E(x = 2) }
        }
    """,
        dispatch=Topics(),
    ).start()

    (step_id,) = [step.id for step in run.execution.steps.values() if step.is_waiting]
    assert [stored.record.key for stored in run.store.outbox()] == [b"run", step_id.encode(), b"run"]


def test_a_retry_that_is_waited_for_ends_with_its_execution(make_run: MakeRun) -> None:
    run = make_run("""
        event facet E() => (r: Json)
        workflow W(n: Long = 0) => (r: Json) andThen {
            e = E() with Retry(times = 9, delay_ms = 100)
        } andThen {
            t = afl.WaitForEvent(name = "next")
            c = afl.ContinueAsNew(inputs = t.data)
        }
    """).start()
    run.fail("e")
    (timer,) = run.timers()

    run.raise_event("next", {"n": 1})

    assert (run.due(), run.execution.open_events) == ([], 1)
    assert not run.fire(timer)


# --- events are carried -----------------------------------------------------------------------------------------------


def test_an_event_that_no_wait_took_is_carried_with_its_execution(make_run: MakeRun) -> None:
    run = make_run(TAKES).start({"takes": False, "last": 3})
    run.raise_event("signal", "payload")

    run.advance(3_000)

    assert run.outputs == {"r": "payload"}
    assert raised(run) == [("payload", 1, 4, False)]
    assert [row.value for row in run.store.history("run", execution=3) if row.name == "signal"] == ["payload"]


def test_an_event_that_was_taken_is_not_carried(make_run: MakeRun) -> None:
    run = make_run(TAKES).start({"last": 1})

    run.raise_event("signal", "of the first")

    assert (run.status, run.row().execution_number, run.row().pending_events) == ("PAUSED", 2, 0)
    run.raise_event("signal", "of the second")
    assert run.outputs == {"r": "of the second"}
    assert raised(run) == [("of the first", 1, 1, False), ("of the second", 2, 2, False)]


@pytest.mark.parametrize(("executions", "is_carried"), [(5, True), (6, False)])
def test_an_event_is_carried_into_five_executions(make_run: MakeRun, executions: int, is_carried: bool) -> None:
    run = make_run(TAKES).start({"takes": False, "last": executions})
    run.raise_event("signal", "data")

    run.advance(executions * 1_000)

    assert run.row().execution_number == executions + 1
    assert run.status == ("COMPLETED" if is_carried else "PAUSED")
    assert [row.value for row in run.dropped] == ([] if is_carried else ["data"])


def test_a_dropped_event_says_why_in_the_history(make_run: MakeRun) -> None:
    run = make_run(TAKES, limits=EventLimits(max_carried_executions=1)).start({"takes": False, "last": 5})
    run.raise_event("signal", "data", "id")

    run.advance(2_000)

    (row,) = run.history(HistoryKind.EXTERNAL_EVENT)
    assert (row.dropped, row.until_execution) == ("raised in execution 1, and carried into 1 others", 2)
    assert (row.is_pending, row.step_id, row.event_id) == (False, "", "id")
    assert run.dropped == [row]
    assert run.row().pending_events == 0


def test_events_arrive_complete_and_in_order_over_many_executions(make_run: MakeRun) -> None:
    """Each execution takes some of the events, which are raised faster than that."""
    run = make_run(
        """
        workflow W(n: Long = 0, got: String = "") => (r: String) andThen when {
            case $.n == 50 => { yield W(r = $.got) }
            case _ => {
                a = afl.WaitForEvent(name = "number")
                b = afl.WaitForEvent(name = "number")
                c = afl.ContinueAsNew(inputs = #{"n": $.n + 1, "got": $.got ++ a.data ++ " " ++ b.data ++ " "})
            }
        }
        """,
        limits=EventLimits(max_pending=1_000, max_carried_executions=1_000),
    ).start()

    for number in range(100):
        assert run.raise_event("number", number) is not Raised.LIMIT

    assert run.outputs == {"r": "".join(f"{number} " for number in range(100))}
    assert (run.row().execution_number, run.dropped) == (51, [])


def test_a_backlog_is_taken_in_order_over_many_executions(make_run: MakeRun) -> None:
    run = make_run(
        """
        workflow W(n: Long = 0, got: String = "", pause: Long = 0) => (r: String) andThen {
            s = afl.Sleep(ms = $.pause)
            w = Work(n = $.n, got = $.got, woke = s.woke_at)
            yield W(r = w.r)
        }
        facet Work(n: Long, got: String, woke: Long) => (r: String) andThen when {
            case $.n == 50 => { yield Work(r = $.got) }
            case _ => {
                a = afl.WaitForEvent(name = "number")
                c = afl.ContinueAsNew(inputs = #{"n": $.n + 1, "got": $.got ++ a.data ++ " "})
            }
        }
        """,
        limits=EventLimits(max_pending=1_000, max_carried_executions=1_000),
    ).start({"pause": 10})
    for number in range(50):
        run.raise_event("number", number)

    run.advance(10)

    assert run.outputs == {"r": "".join(f"{number} " for number in range(50))}


# --- operators --------------------------------------------------------------------------------------------------------


def test_an_operator_continues_a_run_with_other_inputs(make_run: MakeRun) -> None:
    run = make_run(EVENTS).start()

    run.continue_as_new({"n": 5})

    run.answer("a", r="a")
    run.answer("b", r="b")
    assert run.row().inputs == {"n": 5}
    assert run.row().execution_number == 2


@pytest.mark.parametrize(
    ("inputs", "error"), [({"n": "x"}, InputTypeMismatch), ({"n": 1, "m": 1}, UnknownInput), ({}, MissingInput)]
)
def test_inputs_of_an_operator_that_do_not_fit_change_nothing(
    make_run: MakeRun, inputs: dict[str, Value], error: type[Exception]
) -> None:
    run = make_run('workflow W(n: Long) andThen { a = afl.WaitForEvent(name = "x", timeout_ms = 9) }').start({"n": 1})
    before = run.store.load_steps("run")

    with pytest.raises(error):
        run.continue_as_new(inputs)

    assert run.store.load_steps("run") == before
    assert run.execution.waiting.keys() == {run.step("a").id}
    run.advance(9)
    assert run.status == "COMPLETED"


def test_an_operator_may_give_a_run_another_program() -> None:
    run = WaitingRun('workflow W() => (r: Json) andThen { a = afl.WaitForEvent(name = "x") yield W(r = 1) }').start()
    other = WaitingRun('workflow W() => (r: Json) andThen { a = afl.WaitForEvent(name = "x") yield W(r = 2) }')
    plan = run.cache.plan(other.program, "W")

    run.continue_as_new({}, plan)
    run.restart()
    run.raise_event("x")

    assert run.outputs == {"r": 2}
    assert run.row().program == other.program.fingerprint


@pytest.mark.parametrize("kind", [Kind.RERUN, Kind.RESET])
def test_operators_run_a_later_execution_again(make_run: MakeRun, kind: Kind) -> None:
    run = make_run(EVENTS).start()
    run.raise_event("next", {"n": 2})
    run.answer("a", r="first")
    before = {step.id for step in run.store.load_steps("run")}

    run.operate(kind, "a" if kind is Kind.RERUN else None)

    row = run.row()
    assert (row.execution, row.executions_before, row.execution_number) == (2, 1, 3)
    new = [step for step in run.execution.steps.values() if step.facet_name == "n.E" and step.id not in before]
    assert len(new) == (1 if kind is Kind.RERUN else 2)
    assert event_id_of(new[0].id, new[0].attempt).endswith("#2")
    run.raise_event("next", {"n": 3})
    row = run.row()
    assert (row.execution, row.executions_before, row.execution_number, row.inputs) == (1, 3, 4, {"n": 3})


def test_a_failed_step_of_a_later_execution_is_retried(make_run: MakeRun) -> None:
    run = make_run("""
        event facet E(x: Long) => (r: Json)
        workflow W(n: Long = 0) => (r: Json) andThen when {
            case $.n == 0 => { c = afl.ContinueAsNew(inputs = #{"n": 1}) }
            case _ => {
                e = E(x = $.n)
                yield W(r = e.r)
            }
        }
    """).start()
    run.fail("case[1].e")

    run.operate(Kind.RETRY)
    run.answer("case[1].e", r="again")

    assert run.outputs == {"r": "again"}
    assert (run.row().execution, run.row().execution_number) == (1, 2)


def test_a_cancelled_run_does_not_continue(make_run: MakeRun) -> None:
    run = make_run(TAKES).start({"takes": False})

    run.cancel()

    assert run.execution.next_inputs is None
    assert (run.status, run.timers()) == ("CANCELLED", [])
