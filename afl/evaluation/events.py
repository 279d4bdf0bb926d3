"""The life of an event, and handlers of events that live in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from afl.engine.states import EventState
from afl.engine.types import StepId, Value, WorkflowId, event_id
from afl.stores.public.persistence import EventDefinition, PersistenceAPI

#: A handler takes an event's payload and returns the result.
EventHandler = Callable[[dict[str, Value]], dict[str, Value] | None]


@dataclass
class EventManager:
    """Transitions of events through their states. Nothing is saved here: changes of an iteration carry the events."""

    persistence: PersistenceAPI

    def create_event(
        self, step_id: StepId, workflow_id: WorkflowId, event_type: str, payload: dict[str, Value]
    ) -> EventDefinition:
        """Return a new event in state Created."""
        return EventDefinition(
            id=event_id(),
            step_id=step_id,
            workflow_id=workflow_id,
            state=EventState.CREATED,
            event_type=event_type,
            payload=payload,
        )

    def dispatch(self, event: EventDefinition) -> EventDefinition:
        """Note that the event was handed out; returns the same event."""
        event.state = EventState.DISPATCHED
        return event

    def start_processing(self, event: EventDefinition) -> EventDefinition:
        """Note that the event is being processed; returns the same event."""
        event.state = EventState.PROCESSING
        return event

    def complete(self, event: EventDefinition, result: dict[str, Value]) -> EventDefinition:
        """Note the event's result, in its payload under "result"; returns the same event."""
        event.state = EventState.COMPLETED
        event.payload["result"] = result
        return event

    def error(self, event: EventDefinition, error: str) -> EventDefinition:
        """Note why the event failed, in its payload under "error"; returns the same event."""
        event.state = EventState.ERROR
        event.payload["error"] = error
        return event

    def get_pending_events(self, workflow_id: WorkflowId) -> list[EventDefinition]:  # noqa: ARG002 - a public signature
        """Return an empty list: events are pending at their steps and in the store, never in here."""
        return []


class EventDispatcher:
    """The extension point of a process that publishes events itself. This class publishes nothing."""

    def dispatch(self, event: EventDefinition) -> None:
        """Publish an event."""

    def poll_completed(self) -> list[EventDefinition]:
        """Return the events that were answered since the last call."""
        return []


@dataclass
class LocalEventHandler:
    """A handler that answers events in this process, by event type."""

    _handlers: dict[str, EventHandler] = field(default_factory=dict)

    def register(self, event_type: str, handler: EventHandler) -> None:
        """Register a handler for events of this type, replacing an earlier one."""
        self._handlers[event_type] = handler

    def handle(self, event: EventDefinition) -> dict[str, Value] | None:
        """Return the handler's result, None when no handler answers this type."""
        handler = self._handlers.get(event.event_type)
        return None if handler is None else handler(event.payload)
