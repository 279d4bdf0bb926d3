"""The record of what a run did."""

import json

from afl.core.clock import ManualClock
from afl.engine.states import StepState
from afl.engine.types import ObjectType, WorkflowId
from afl.stores.public.step import StepDefinition
from afl.telemetry.telemetry import Telemetry, TelemetryEvent

STEP = StepDefinition.create(WorkflowId("w1"), ObjectType.VARIABLE_ASSIGNMENT, facet_name="shop.Pay")


def log_everything(telemetry: Telemetry) -> None:
    telemetry.log_workflow_start("w1", "Checkout")
    telemetry.log_iteration_start("w1", 1)
    telemetry.log_step_created(STEP)
    telemetry.log_state_begin(STEP, StepState.CREATED)
    telemetry.log_state_end(STEP, StepState.CREATED)
    telemetry.log_state_transition(STEP, StepState.CREATED, StepState.FACET_INIT_BEGIN)
    telemetry.log_dependency_resolved("s1", "s2")
    telemetry.log_event_published("e1", "s1", "shop.Pay")
    telemetry.log_error(STEP, StepState.FACET_INIT_BEGIN, ValueError("no funds"))
    telemetry.log_iteration_end("w1", 1, 2, 3)
    telemetry.log_workflow_error("w1", ValueError("no funds"))
    telemetry.log_workflow_complete("w1", {"sum": 15})


def test_each_thing_that_happens_has_its_type() -> None:
    telemetry = Telemetry(clock=ManualClock(7))

    log_everything(telemetry)

    assert [event.event_type for event in telemetry.events] == [
        "workflow.start",
        "iteration.start",
        "step.created",
        "state.begin",
        "state.end",
        "state.transition",
        "dependency.resolved",
        "event.published",
        "step.error",
        "iteration.end",
        "workflow.error",
        "workflow.complete",
    ]
    assert {event.timestamp for event in telemetry.events} == {7}


def test_disabled_telemetry_collects_nothing() -> None:
    telemetry = Telemetry(enabled=False)

    log_everything(telemetry)

    assert telemetry.events == []


def test_an_error_is_told_by_class_and_text() -> None:
    telemetry = Telemetry()

    telemetry.log_error(STEP, StepState.EVENT_TRANSMIT, ValueError("no funds"))

    event = telemetry.events[0]
    assert (event.workflow_id, event.step_id, event.state) == ("w1", STEP.id, "state.EventTransmit")
    assert event.details == {"error": "no funds", "errorType": "ValueError"}


def test_the_json_form_leaves_out_what_is_not_set() -> None:
    assert TelemetryEvent(7, "x").to_dict() == {"timestamp": 7, "eventType": "x"}
    full = TelemetryEvent(7, "x", "w1", "s1", "b1", "state.EventTransmit", {"a": 1})
    assert full.to_dict() == {
        "timestamp": 7,
        "eventType": "x",
        "workflowId": "w1",
        "stepId": "s1",
        "blockId": "b1",
        "state": "state.EventTransmit",
        "details": {"a": 1},
    }


def test_everything_can_be_written_as_json_and_forgotten() -> None:
    telemetry = Telemetry(clock=ManualClock())
    log_everything(telemetry)
    telemetry.log_workflow_complete("w1", {"when": object})

    assert [event["eventType"] for event in json.loads(telemetry.to_json())][:2] == [
        "workflow.start",
        "iteration.start",
    ]
    telemetry.clear()
    assert telemetry.get_events() == []
