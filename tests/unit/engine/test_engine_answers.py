"""Events and their answers: what is sent, what an answer does, and what it no longer can do."""

import pytest

from afl.core.ids import event_id_of
from afl.engine.execution.execution import Execution
from afl.engine.execution.task_dispatch import TaskDispatch
from afl.engine.model.records import StepRecord
from afl.engine.model.store import Batch
from afl.engine.states import EventState
from afl.engine.types import Value
from afl.evaluation.evaluator import Evaluator
from afl.stores.memory.store import MemoryStore
from tests.unit.engine.running import Engine, compiled, failure_of

ONE = """
    event facet E(x: Long) => (r: Long)
    facet V(v: Long)
    workflow W() => (r: Long) andThen {
        v = V(v = 1)
        e = E(x = v.v)
        yield W(r = e.r)
    }
"""

MANY = """
    event facet E(x: Long) => (r: Long)
    workflow W(xs: [Long]) => (r: [Long]) andThen foreach x in $.xs {
        e = E(x = $.x)
        yield W(r = [e.r])
    }
"""


def test_a_result_goes_to_the_returns_and_leaves_the_params_alone() -> None:
    engine = Engine(ONE.replace("=> (r: Long)", "=> (r: Long, x: Long)", 1))
    engine.start()

    engine.answer("e", {"r": 5, "x": 7})

    document = engine.step("e").document
    assert (document.params, document.returns) == ({"x": 1}, {"r": 5, "x": 7})


def test_the_first_answer_wins_before_and_after_the_run_has_gone_on() -> None:
    engine = Engine(ONE)
    engine.start()
    step_id = engine.step("e").id
    engine.evaluator.continue_step(step_id, {"r": 1})

    engine.evaluator.continue_step(step_id, {"r": 2})
    engine.evaluator.fail_step(step_id, "too late")
    assert engine.resume().outputs == {"r": 1}
    revision = engine.row().revision
    engine.evaluator.continue_step(step_id, {"r": 3})

    assert engine.resume().outputs == {"r": 1}
    assert engine.row().revision == revision


def test_a_first_failure_wins_against_a_later_result() -> None:
    engine = Engine(ONE)
    engine.start()
    step_id = engine.step("e").id
    engine.evaluator.fail_step(step_id, "no")

    engine.evaluator.continue_step(step_id, {"r": 1})

    assert failure_of(engine.resume()).message == "no"


@pytest.mark.parametrize("step_id", ["nothing", "run:000000000000000000000000", "other:000000000000000000000000"])
def test_an_unknown_step_is_not_found(step_id: str) -> None:
    engine = Engine(ONE)
    engine.start()

    with pytest.raises(ValueError, match="not found"):
        engine.evaluator.continue_step(step_id, {})
    with pytest.raises(ValueError, match="not found"):
        engine.evaluator.fail_step(step_id, "no")
    with pytest.raises(ValueError, match="not found"):
        engine.evaluator.update_step(step_id, {})


def test_a_step_that_sends_no_event_and_has_not_ended_takes_no_answer() -> None:
    engine = Engine(ONE)
    engine.start()

    for path in ("", "#0"):
        with pytest.raises(ValueError, match="expected"):
            engine.evaluator.continue_step(engine.step(path).id, {})


def test_an_answer_to_a_cancelled_workflow_changes_nothing() -> None:
    engine = Engine(ONE)
    engine.start()
    assert engine.evaluator.cancel("run", "changed my mind")
    step = engine.step("e")

    engine.evaluator.continue_step(step.id, {"r": 1})

    assert engine.step("e") == step
    assert engine.row().status == "CANCELLED"
    assert failure_of(engine.resume()).message == "changed my mind"


def test_cancelling_twice_says_that_it_had_ended() -> None:
    engine = Engine(ONE)
    engine.start()

    assert engine.evaluator.cancel("run")
    assert not engine.evaluator.cancel("run")
    with pytest.raises(ValueError, match="not found"):
        engine.evaluator.cancel("another")


def test_partial_results_are_merged_and_readable_like_any_other() -> None:
    engine = Engine(
        """
        event facet E() => (rows: Long, state: String)
        workflow W() => (rows: Long, state: String) andThen {
            e = E()
            yield W(rows = e.rows, state = e.state)
        }"""
    )
    engine.start()
    step_id = engine.step("e").id

    engine.evaluator.update_step(step_id, {"rows": 1, "state": "begun"})
    engine.evaluator.update_step(step_id, {"rows": 2})

    assert engine.resume().status == "PAUSED"
    assert engine.step("e").document.event_state == EventState.PROCESSING
    assert engine.answer("e", {"state": "done"}).outputs == {"rows": 2, "state": "done"}


def test_an_event_has_the_qualified_name_and_a_copy_of_the_attributes() -> None:
    engine = Engine(
        """
        event facet E(xs: [Long], unset: Long, d: Long = 3) => (r: Long)
        workflow W(xs: [Long]) andThen { e = E(xs = $.xs) }"""
    )
    result = engine.start({"xs": [1, 2]})

    (event,) = result.pending_events
    (task,) = engine.store.get_pending_tasks("default")
    assert event.id == task.uuid == event_id_of(engine.step("e").id, 1)
    assert event.event_type == task.name == "n.E"
    assert event.payload == task.data == {"xs": [1, 2], "d": 3}


def test_changing_what_was_handed_in_or_out_changes_nothing_inside() -> None:
    engine = Engine(
        """
        event facet E(xs: [Long]) => (r: Json)
        workflow W(xs: [Long]) => (r: Json) andThen {
            e = E(xs = $.xs)
            yield W(r = [$.xs, e.r])
        }"""
    )
    inputs: dict[str, Value] = {"xs": [1]}
    result: dict[str, Value] = {"r": {"k": [1]}}
    engine.start(inputs)
    inputs["xs"].append(2)  # type: ignore[union-attr]  # it is the list of the line above
    engine.evaluator.continue_step(engine.step("e").id, result)
    result["r"]["k"].append(2)  # type: ignore[index,union-attr,call-overload]  # it is the map of a line above

    outputs = engine.resume().outputs

    assert outputs == {"r": [[1], {"k": [1]}]}
    outputs["r"].append(3)  # type: ignore[union-attr]  # it is the list of the line above
    assert engine.resume().outputs == {"r": [[1], {"k": [1]}]}


@pytest.mark.parametrize("restarts", [False, True])
def test_no_more_events_are_open_than_allowed_and_all_are_sent_in_the_end(restarts: bool) -> None:
    engine = Engine(MANY, max_open_events=3)
    result = engine.start({"xs": list(range(10))})
    answered: list[str] = []
    while result.status == "PAUSED":
        assert len(engine.waiting()) == min(3, 10 - len(answered))
        assert engine.row().status == "PAUSED"
        assert not engine.row().runnable
        path = engine.waiting()[-1]
        answered.append(path)
        if restarts:
            engine.restart()
        result = engine.answer(path, {"r": len(answered)})

    assert len(set(answered)) == 10
    assert sorted(result.outputs["r"]) == list(range(1, 11))  # type: ignore[arg-type,type-var]  # a list of numbers


def test_a_restart_at_a_pause_with_events_held_back_finds_nothing_to_do() -> None:
    engine = Engine(MANY, max_open_events=1)
    engine.start({"xs": [1, 2, 3]})
    revision = engine.row().revision
    engine.restart()

    assert engine.resume().status == "PAUSED"
    assert engine.row().revision == revision


def test_an_answer_to_a_step_whose_event_is_held_back_comes_too_early() -> None:
    engine = Engine(MANY, max_open_events=1)
    engine.start({"xs": [1, 2]})

    with pytest.raises(ValueError, match="expected"):
        engine.evaluator.continue_step(engine.step("[1].e").id, {"r": 1})
    assert engine.waiting() == ["[0].e"]


class RefusesOddNumbers(TaskDispatch):
    def dispatch(self, execution: Execution, step: StepRecord, event_id: str, effects: Batch) -> None:
        x = step.params["x"]
        assert isinstance(x, int)
        if x % 2:
            raise ValueError(f"{x} does not fit")
        super().dispatch(execution, step, event_id, effects)


@pytest.mark.parametrize("max_open_events", [1, 10])
def test_an_event_that_cannot_be_sent_fails_its_step_and_holds_up_no_other(max_open_events: int) -> None:
    program, store = compiled(MANY), MemoryStore()
    evaluator = Evaluator(store, dispatch=RefusesOddNumbers(), max_open_events=max_open_events)
    engine = Engine(program, store=store)
    engine.evaluator = evaluator

    result = engine.start({"xs": [1, 2, 3, 5, 4]})
    while result.status == "PAUSED":
        result = engine.answer(engine.waiting()[0], {"r": 0})

    assert failure_of(result).message == "1 does not fit"
    assert engine.step("[4].yield").is_complete
    assert {task.data["x"] for task in store._tasks.values() if task.data} == {2, 4}


class AnswersInBetween(MemoryStore):
    """An agent so fast that its answer comes while `execute` is still running."""

    evaluator: Evaluator | None = None

    def commit_batch(self, batch: Batch) -> int:
        sequence = super().commit_batch(batch)
        agent, self.evaluator = self.evaluator, None
        if agent is not None:
            (task,) = self.get_pending_tasks("default")
            agent.continue_step(task.step_id, {"r": 10})
        return sequence


def test_an_answer_while_execute_is_still_running_is_not_lost_and_no_error() -> None:
    store = AnswersInBetween()
    engine = Engine(
        """
        event facet E(x: Long) => (r: Long)
        facet V(v: Long)
        workflow W() => (r: Long) andThen {
            e = E(x = 1)
            a = V(v = 1)
            b = V(v = a.v + 1)
            c = V(v = b.v + e.r)
            yield W(r = c.v)
        }""",
        store=store,
    )
    store.evaluator = Evaluator(store)

    assert engine.start().outputs == {"r": 12}


def test_starting_the_same_id_twice_is_a_conflict_and_changes_nothing() -> None:
    engine = Engine(ONE)
    engine.start()
    before = engine.steps()

    result = engine.start()

    assert (result.status, type(result.error).__name__) == ("ERROR", "WorkflowConflict")
    assert engine.steps() == before


def test_the_stored_event_is_completed_or_failed_with_its_answer() -> None:
    engine = Engine(MANY)
    engine.start({"xs": [1, 2]})

    engine.answer("[0].e", {"r": 1})
    engine.fail("[1].e")

    states = [engine.step(path).document.event_state for path in ("[0].e", "[1].e")]
    assert states == [EventState.COMPLETED, EventState.ERROR]


def test_the_runner_id_of_the_start_is_kept() -> None:
    engine = Engine(ONE)

    engine.evaluator.execute("W", {}, engine.program, "runner-7", workflow_id="run")
    engine.restart()
    engine.answer("e", {"r": 1})

    assert engine.row().runner_id == "runner-7"
    task = engine.store.get_task(event_id_of(engine.step("e").id, 1))
    assert task is not None
    assert task.runner_id == "runner-7"


def test_a_failure_may_be_given_as_an_exception() -> None:
    engine = Engine(ONE)
    engine.start()
    engine.evaluator.fail_step(engine.step("e").id, LookupError("no such order"))

    error = failure_of(engine.resume())
    assert (error.error_type, error.message) == ("LookupError", "no such order")
