"""Public steps are driven by changers and handlers of their own, and where there is work the engine does it."""

from __future__ import annotations

import sys
from types import FrameType
from unittest.mock import MagicMock

import pytest

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.engine.model.entities import TaskState
from afl.engine.planning.planner import plan_workflow
from afl.engine.states import SCHEMA_TRANSITIONS, EventState
from afl.runtime import Evaluator, ExecutionContext, MemoryStore, ObjectType, StepDefinition, StepState, WorkflowId
from afl.runtime.changers import get_state_changer
from afl.runtime.changers.base import StateChanger, StateChangeResult
from afl.runtime.handlers import get_handler
from afl.runtime.handlers.base import StateHandler
from afl.runtime.handlers.scripts import FacetScriptsBeginHandler
from afl.scripts.executor import ScriptError
from afl.stores.maintenance.check import Inspection

PROGRAM = """
namespace shop {
    event facet Pay(order: String) => (receipt: String)
    facet Twice(text: String) => (text: String, all: [String]) andThen {
        a = Once(text = $.text)
        yield Twice(text = a.text ++ a.text, all = ["x"])
    }
    facet Once(text: String) => (text: String = "o")
    workflow Buy(order: String) => (receipt: String, text: String, all: [String]) andThen {
        p = Pay(order = $.order)
        t = Twice(text = p.receipt)
        yield Buy(receipt = p.receipt, text = t.text, all = t.all)
    }
    workflow BuyAll(orders: [String]) => (receipts: [String]) andThen foreach order in $.orders {
        p = Pay(order = $.order)
        yield BuyAll(receipts = [p.receipt])
    }
}
"""


def step_of(object_type: str = ObjectType.VARIABLE_ASSIGNMENT, facet: str = "") -> StepDefinition:
    return StepDefinition.create(WorkflowId("w"), object_type, facet)


class PassingHandler(StateHandler):
    """A handler as users write them."""

    def process_state(self) -> StateChangeResult:
        return self.transition()


class RaisingHandler(StateHandler):
    def process_state(self) -> StateChangeResult:
        raise LookupError("nothing here")


class WaitingHandler(StateHandler):
    def process_state(self) -> StateChangeResult:
        return self.stay(push=True)


def test_a_handler_asks_for_the_next_state_or_stays_and_tells_telemetry() -> None:
    step, context = step_of(), MagicMock()
    step.request_state_change(False)

    result = PassingHandler(step, context).process()
    assert (result.step, result.success, result.error, result.continue_processing) == (step, True, None, True)
    assert step.transition.request_transition
    context.telemetry.log_state_begin.assert_called_once_with(step, "PassingHandler")
    context.telemetry.log_state_end.assert_called_once_with(step, "PassingHandler")

    result = WaitingHandler(step, context).process()
    assert result.continue_processing
    assert (step.transition.request_transition, step.transition.push_me) == (False, True)
    assert not WaitingHandler(step, context).stay().continue_processing
    assert not step.transition.push_me


def test_what_a_handler_raises_is_a_result_without_success_and_the_step_has_failed() -> None:
    step, context = step_of(), MagicMock()
    result = RaisingHandler(step, context).process()

    assert not result.success
    assert isinstance(result.error, LookupError)
    assert (step.state, step.transition.error) == (StepState.STATEMENT_ERROR, result.error)
    context.telemetry.log_error.assert_called_once_with(step, "RaisingHandler", result.error)


def test_every_state_but_a_terminal_error_has_a_handler() -> None:
    handler = get_handler(StepState.STATEMENT_END, step_of(), MagicMock())

    assert type(handler).__name__ == "StatementEndHandler"
    assert get_handler(StepState.STATEMENT_ERROR, step_of(), MagicMock()) is None
    assert get_handler("state.unheard.of", step_of(), MagicMock()) is None


# A script in front of a facet's blocks.


def scripted(body: object, **params: object) -> tuple[StepDefinition, StateChangeResult]:
    step, context = step_of(facet="F"), MagicMock()
    step.request_state_change(False)
    for name, value in params.items():
        step.set_attribute(name, value)
    context.get_facet_definition.return_value = (
        None if body is None else {"type": "FacetDecl", "name": "F", "body": body}
    )
    return step, FacetScriptsBeginHandler(step, context).process_state()


def test_a_script_sees_the_params_and_its_result_becomes_returns() -> None:
    step, result = scripted(
        {"type": "ScriptBlock", "language": "python", "code": "result['sum'] = params['a'] + params['b']"}, a=1, b=2
    )

    assert result.success
    assert step.attributes.get_return("sum") == 3
    assert step.transition.request_transition


def test_a_script_that_fails_is_a_result_without_success() -> None:
    step, result = scripted({"type": "ScriptBlock", "language": "python", "code": "1 / 0"})

    assert not result.success
    assert isinstance(result.error, ScriptError)
    assert "ZeroDivisionError" in str(result.error)
    assert (step.state, step.transition.error) == (StepState.STATEMENT_ERROR, result.error)
    assert not step.transition.request_transition


def test_telemetry_has_the_failure_of_a_script_and_no_end_of_its_state() -> None:
    step, context = step_of(facet="F"), MagicMock()
    context.get_facet_definition.return_value = {"body": {"type": "ScriptBlock", "code": "result = undefined"}}

    result = FacetScriptsBeginHandler(step, context).process()

    context.telemetry.log_error.assert_called_once_with(step, "FacetScriptsBeginHandler", result.error)
    context.telemetry.log_state_end.assert_not_called()


@pytest.mark.parametrize(
    "body",
    [
        None,
        {"type": "AndThenBlock", "steps": []},
        [{"type": "AndThenBlock"}, {"type": "AndThenBlock"}],
        {"type": "PromptBlock"},
    ],
)
def test_whatever_has_no_script_passes(body: object) -> None:
    step, result = scripted(body)

    assert result.success
    assert step.transition.request_transition


# Changers.


class CountingChanger(StateChanger):
    """A changer as users write them: by the shortest table, with handlers that all pass but one."""

    def __init__(self, step: StepDefinition, stops_at: str = "", fails_at: str = "") -> None:
        super().__init__(step, MagicMock())
        self.stops_at, self.fails_at = stops_at, fails_at
        self.seen: list[str] = []

    def select_state(self) -> str | None:
        return SCHEMA_TRANSITIONS.get(self.step.current_state)

    def execute_state(self, state: str) -> StateChangeResult:
        self.seen.append(state)
        if state == self.fails_at:
            return StateChangeResult(self.step, success=False, error=ValueError("no"))
        self.step.request_state_change(state != self.stops_at)
        return StateChangeResult(self.step)


def test_a_changer_walks_its_table_to_the_end() -> None:
    changer = CountingChanger(step_of())
    result = changer.process()

    assert changer.seen == list(SCHEMA_TRANSITIONS.values())
    assert result.step.is_complete
    assert not result.continue_processing
    assert CountingChanger(result.step).process().success


def test_a_changer_stops_where_no_transition_is_asked_for() -> None:
    changer = CountingChanger(step_of(), stops_at=StepState.FACET_INIT_END)

    assert changer.process().step.current_state == StepState.FACET_INIT_END


def test_a_changer_stops_at_a_failure_which_the_step_keeps() -> None:
    changer = CountingChanger(step_of(), fails_at=StepState.FACET_INIT_BEGIN)
    result = changer.process()

    assert not result.success
    assert changer.step.is_error
    assert str(changer.step.transition.error) == "no"


def test_a_changer_needs_to_be_told_what_it_changes() -> None:
    with pytest.raises(TypeError, match="abstract"):
        StateChanger(step_of(), MagicMock())  # type: ignore[abstract]  # that is the test


# With the engine behind them.


def paused(workflow: str, **inputs: object) -> tuple[Evaluator, ExecutionContext, list[StepDefinition]]:
    """Return a workflow that waits for its events, its context, and the steps that wait."""
    store = MemoryStore()
    evaluator = Evaluator(store)
    program = CompiledProgram(compile_text(PROGRAM).program_json)
    result = evaluator.execute(f"shop.{workflow}", inputs, program)  # type: ignore[arg-type]  # values of a test
    assert result.status == "PAUSED", result.error
    return evaluator, evaluator.context(result.workflow_id), store.get_steps_by_state(StepState.EVENT_TRANSMIT)


def test_an_answered_step_is_driven_to_its_end_and_the_evaluator_continues_from_there() -> None:
    evaluator, context, (step,) = paused("Buy", order="17")
    step.set_attribute("receipt", "r-17", is_return=True)
    step.request_state_change()

    result = get_state_changer(step, context).process()
    assert result.error is None
    assert result.step.is_complete
    stored = context.persistence.get_step(step.id)
    assert stored is not None
    assert (stored.state, stored.get_attribute("receipt")) == (StepState.STATEMENT_COMPLETE, "r-17")
    # With that its event is answered, and no poller should handle the task.
    store = context.persistence
    assert isinstance(store, MemoryStore)
    assert [event.state for event in store.get_all_events()] == [EventState.COMPLETED]
    task = store.get_task(f"{step.id}#1")
    assert task is not None
    assert task.state == TaskState.COMPLETED
    assert list(Inspection(store=store).findings()) == []
    assert evaluator.resume(context.workflow_id).outputs == {"receipt": "r-17", "text": "oo", "all": ["x"]}


def test_steps_are_driven_one_by_one_until_the_workflow_is_complete() -> None:
    _, context, waiting = paused("BuyAll", orders=["a", "b"])
    store = context.persistence
    for step in waiting:
        step.set_attribute("receipt", f"r-{step.get_attribute('order')}", is_return=True)
        step.request_state_change()
        get_state_changer(step, context).process()
    for _ in range(10):
        for step in store.get_steps_by_workflow(WorkflowId(context.workflow_id)):
            if not step.is_terminal:
                get_state_changer(step, context).process()

    root = store.get_workflow_root(WorkflowId(context.workflow_id))
    assert root is not None
    assert root.is_complete
    assert root.get_attribute("receipts") == ["r-a", "r-b"]


def test_a_workflow_is_planned_once_however_many_states_its_steps_pass() -> None:
    _, context, waiting = paused("BuyAll", orders=["a", "b", "a plan of its own"])
    calls: list[FrameType] = []

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is plan_workflow.__code__:
            calls.append(frame)

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for step in waiting:
            step.set_attribute("receipt", "r", is_return=True)
            step.request_state_change()
            get_state_changer(step, context).process()
    finally:
        sys.setprofile(before)

    assert [step.is_complete for step in waiting] == [True] * 3
    assert len(calls) <= 1, "the plan of an earlier test may serve"


def test_a_step_that_waits_for_its_answer_stays_where_it_is() -> None:
    _, context, (step,) = paused("Buy", order="17")
    result = get_state_changer(step, context).process()

    assert (result.success, result.continue_processing) == (True, False)
    assert step.current_state == StepState.EVENT_TRANSMIT


def test_a_step_of_no_stored_workflow_cannot_be_worked_on() -> None:
    _, context, _ = paused("Buy", order="17")
    step = step_of(ObjectType.AND_THEN)
    result = get_state_changer(step, context).process()

    assert not result.success
    assert "which the engine's store does not have" in str(result.error)
    assert step.is_error


@pytest.mark.parametrize(
    "state", [StepState.FACET_INIT_BEGIN, StepState.EVENT_TRANSMIT, StepState.STATEMENT_BLOCKS_BEGIN]
)
def test_a_state_that_cannot_do_its_work_says_so_in_its_result(state: str) -> None:
    _, context, _ = paused("Buy", order="17")
    step = step_of(facet="shop.Pay")
    handler = get_handler(state, step, context)
    assert handler is not None

    result = handler.process_state()
    assert (result.success, result.continue_processing) == (False, False)
    assert "which the engine's store does not have" in str(result.error)
    assert (step.state, step.transition.error) == (StepState.STATEMENT_ERROR, result.error)
