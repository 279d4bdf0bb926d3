"""The life of an event."""

from typing import cast

from afl.engine.types import StepId, WorkflowId
from afl.evaluation.events import EventDispatcher, EventManager, LocalEventHandler
from afl.stores.public.persistence import EventDefinition, PersistenceAPI

# Nothing that an event manager does touches its store.
MANAGER = EventManager(cast(PersistenceAPI, None))


def an_event() -> EventDefinition:
    return MANAGER.create_event(StepId("s1"), WorkflowId("w1"), "shop.Pay", {"amount": 5})


def test_a_new_event_is_created_with_an_id_of_its_own() -> None:
    event = an_event()

    assert (event.state, event.event_type, event.payload) == ("event.Created", "shop.Pay", {"amount": 5})
    assert (event.step_id, event.workflow_id) == ("s1", "w1")
    assert event.id != an_event().id


def test_an_event_is_dispatched_processed_and_completed_in_place() -> None:
    event = an_event()

    assert MANAGER.dispatch(event) is event
    assert event.state == "event.Dispatched"
    assert MANAGER.start_processing(event) is event
    assert event.state == "event.Processing"
    assert MANAGER.complete(event, {"receipt": "r1"}) is event
    assert event.state == "event.Completed"
    assert event.payload == {"amount": 5, "result": {"receipt": "r1"}}


def test_a_failed_event_keeps_its_payload_and_says_why() -> None:
    event = MANAGER.error(an_event(), "no funds")

    assert event.state == "event.Error"
    assert event.payload == {"amount": 5, "error": "no funds"}


def test_no_event_is_pending_here() -> None:
    assert MANAGER.get_pending_events(WorkflowId("w1")) == []
    dispatcher = EventDispatcher()
    dispatcher.dispatch(an_event())
    assert dispatcher.poll_completed() == []


def test_the_handler_registered_last_answers() -> None:
    handler = LocalEventHandler()
    handler.register("shop.Pay", lambda payload: {"first": True})
    handler.register("shop.Pay", lambda payload: {"paid": payload["amount"]})

    assert handler.handle(an_event()) == {"paid": 5}


def test_an_event_that_nobody_handles_has_no_result() -> None:
    assert LocalEventHandler().handle(an_event()) is None
