"""What runs do, as structured events: handed to a sink, or kept in memory for people who look into it."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from afl.core.ids import workflow_of
from afl.core.process.crashes import Crash
from afl.core.text.exception_text import class_name, exception_class, exception_line, exception_text
from afl.engine.clock import Clock, SystemClock
from afl.engine.errors import StepFailure
from afl.stores.public.step import StepDefinition

_log = logging.getLogger(__name__)

#: What passes through a sink's methods: Ctrl-C in a thread that runs a workflow, and a test's death of the process.
_NOT_THE_SINKS: Final = (KeyboardInterrupt, Crash)

#: The types of all events.
EVENT_TYPES: Final = (
    "workflow.start",
    "workflow.complete",
    "workflow.error",
    "iteration.start",
    "iteration.end",
    "step.created",
    "step.complete",
    "step.error",
    "state.begin",
    "state.end",
    "state.transition",
    "dependency.resolved",
    "event.published",
)


@dataclass
class TelemetryEvent:
    """One thing that happened. `timestamp` is in milliseconds since the epoch."""

    timestamp: int
    event_type: str
    workflow_id: str | None = None
    step_id: str | None = None
    block_id: str | None = None
    state: str | None = None
    details: dict[str, object] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form; what is not set is left out."""
        optional = {
            "workflowId": self.workflow_id,
            "stepId": self.step_id,
            "blockId": self.block_id,
            "state": self.state,
            "details": self.details,
        }
        return {
            "timestamp": self.timestamp,
            "eventType": self.event_type,
            **{key: value for key, value in optional.items() if value},
        }


class TelemetrySink:
    """Where events go. Inherit and give `emit`; hand an instance to `Telemetry(sink=...)`.

    `emit` is called by whichever thread runs a workflow, after the commit of what the event tells, so it should be
    quick and must be thread-safe. What it raises is caught: execution goes on as if it had not been called.
    """

    @property
    def event_types(self) -> frozenset[str] | None:
        """The types of the events that this sink wants now; None: all. The engine makes no other event for it. Asked
        whenever a run is taken up.
        """
        return None

    def emit(self, event: TelemetryEvent) -> None:
        """Take one event."""
        raise NotImplementedError

    def traceparent(self, workflow_id: str, event_id: str) -> str | None:
        """The W3C trace context that the record of an event is to carry; None: none."""
        return None

    def close(self) -> None:
        """Write what is still held back; no event comes after this."""


class Telemetry:
    """Makes events of what runs do, and hands them to its sink. Without one they are kept in `events`.

    Whether it is on is asked when an evaluator is made: one that is off is not called at all. Thread-safe.
    """

    def __init__(
        self,
        enabled: bool = True,
        clock: Clock | None = None,
        *,
        sink: TelemetrySink | None = None,
        monotonic_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.enabled = enabled
        self.events: list[TelemetryEvent] = []
        self.clock: Clock = clock or SystemClock()
        self.monotonic_ns = monotonic_ns
        self.sink = sink
        #: Events that the sink has not taken, because it raised.
        self.lost = 0

    def wanted(self) -> frozenset[str]:
        """The types of the engine's events that somebody looks at now. Never raises."""
        chosen = self._chosen()
        return frozenset(EVENT_TYPES) if chosen is None else chosen

    def wants(self, event_type: str) -> bool:
        """Whether somebody looks at events of this type now, which need not be one of the engine's. Never raises."""
        chosen = self._chosen()
        return chosen is None or event_type in chosen

    def _chosen(self) -> frozenset[str] | None:
        if not self.enabled:
            return frozenset()
        if self.sink is None:
            return None
        try:
            chosen = self.sink.event_types
            # A plain set: what is asked of it later must not be the sink's own code.
            return None if chosen is None else frozenset(chosen)
        except _NOT_THE_SINKS:
            raise
        except BaseException as error:  # noqa: BLE001 - as in `emit`
            self._note_lost("what is wanted", error)
            return None

    def emit(self, event: TelemetryEvent) -> None:
        """Hand one event over. Never raises; the first event that the sink does not take is warned about."""
        if self.sink is None:
            self.events.append(event)
            return
        try:
            self.sink.emit(event)
        except _NOT_THE_SINKS:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, no run may depend on it
            self._note_lost(event.event_type, error)

    def _note_lost(self, what: str, error: BaseException) -> None:
        self.lost += 1
        if self.lost == 1:
            _log.warning(
                "telemetry lost %s, and says so only once; runs go on: %s raised %s: %s",
                what,
                class_name(type(self.sink)),
                exception_class(error),
                exception_text(error),
            )

    def traceparent(self, workflow_id: str, event_id: str) -> str | None:
        """The trace context of an event's record, where the sink has one. Never raises."""
        if self.sink is None or not self.enabled:
            return None
        try:
            parent = self.sink.traceparent(workflow_id, event_id)
            return None if parent is None else str.__str__(parent)
        except _NOT_THE_SINKS:
            raise
        except BaseException as error:  # noqa: BLE001 - as in `emit`
            self._note_lost("a trace context", error)
            return None

    def close(self) -> None:
        """Close the sink. Never raises."""
        if self.sink is None:
            return
        try:
            self.sink.close()
        except _NOT_THE_SINKS:
            raise
        except BaseException as error:  # noqa: BLE001 - as in `emit`
            _log.warning("%s did not close: %s", class_name(type(self.sink)), exception_line(error))

    def get_events(self) -> list[dict[str, object]]:
        """Return the JSON form of all events kept, oldest first."""
        return [event.to_dict() for event in self.events]

    def clear(self) -> None:
        """Forget all events."""
        self.events.clear()

    def to_json(self, indent: int | None = 2) -> str:
        """Return all events as a JSON array; values that JSON does not know are written as their text."""
        return json.dumps(self.get_events(), indent=indent, ensure_ascii=False, default=str)

    def log_workflow_start(self, workflow_id: str, workflow_name: str, **details: object) -> None:
        """A run was started, or (`resumed`) taken up again."""
        self._log("workflow.start", {"workflowName": workflow_name, **details}, workflow_id)

    def log_workflow_complete(self, workflow_id: str, result: object = None, **details: object) -> None:
        """A run has completed with these outputs."""
        self._log("workflow.complete", {"result": result, **details}, workflow_id)

    def log_workflow_error(self, workflow_id: str, error: BaseException, **details: object) -> None:
        """A run has failed, or a call could not go on with it."""
        told = {"error": exception_text(error), "errorType": _type_of(error)}
        self._log("workflow.error", {**told, **details}, workflow_id)

    def log_iteration_start(self, workflow_id: str, iteration: int) -> None:
        """An iteration begins."""
        self._log("iteration.start", {"iteration": iteration}, workflow_id)

    def log_iteration_end(
        self, workflow_id: str, iteration: int, created: int, updated: int, **details: object
    ) -> None:
        """An iteration has ended, having created so many steps, and created or moved so many (`updated`)."""
        counts = {"iteration": iteration, "created": created, "updated": updated}
        self._log("iteration.end", {**counts, **details}, workflow_id)

    def log_step_created(self, step: StepDefinition) -> None:
        """A step was created."""
        self._log_step("step.created", step, step.state, objectType=step.object_type, facetName=step.facet_name)

    def log_step_complete(self, step: StepDefinition) -> None:
        """A step is complete. `createdAt` is when it was made, in milliseconds since the epoch."""
        self._log_step("step.complete", step, step.state, **_life_of(step))

    def log_state_begin(self, step: StepDefinition, state: str) -> None:
        """The work of a state begins."""
        self._log_step("state.begin", step, state)

    def log_state_end(self, step: StepDefinition, state: str) -> None:
        """The work of a state is done."""
        self._log_step("state.end", step, state)

    def log_state_transition(self, step: StepDefinition, from_state: str, to_state: str) -> None:
        """A step moved from one state to another."""
        self._log_step("state.transition", step, to_state, fromState=from_state, toState=to_state)

    def log_error(self, step: StepDefinition, state: str, error: BaseException) -> None:
        """A step failed in this state."""
        life = _life_of(step) if step.timestamp is not None else {}
        if isinstance(error, StepFailure) and error.step_id != step.id:
            life["causedBy"] = error.step_id
        self._log_step("step.error", step, state, error=exception_text(error), errorType=_type_of(error), **life)

    def log_dependency_resolved(self, step_id: str, dependency_id: str) -> None:
        """A step no longer waits for another."""
        self._log("dependency.resolved", {"dependencyId": dependency_id}, workflow_of(step_id), step_id)

    def log_event_published(self, event_id: str, step_id: str, event_type: str) -> None:
        """An event was handed out."""
        self._log("event.published", {"eventId": event_id, "eventType": event_type}, workflow_of(step_id), step_id)

    def _log_step(self, event_type: str, step: StepDefinition, state: str, **details: object) -> None:
        if self.enabled:
            self.emit(
                TelemetryEvent(
                    timestamp=self.clock.now_ms(),
                    event_type=event_type,
                    workflow_id=step.workflow_id,
                    step_id=step.id,
                    block_id=step.block_id,
                    state=state,
                    details=details,
                )
            )

    def _log(
        self, event_type: str, details: dict[str, object], workflow_id: str | None, step_id: str | None = None
    ) -> None:
        if self.enabled:
            self.emit(
                TelemetryEvent(
                    timestamp=self.clock.now_ms(),
                    event_type=event_type,
                    workflow_id=workflow_id,
                    step_id=step_id,
                    details=details,
                )
            )


def _type_of(error: BaseException) -> str:
    """The class of an error by name; of a step's failure, that of its cause."""
    return error.error_type if isinstance(error, StepFailure) else exception_class(error)


def _life_of(step: StepDefinition) -> dict[str, object]:
    """What there is to say of a step that has ended; what is not set is left out."""
    facts = {
        "objectType": step.object_type,
        "facetName": step.facet_name,
        "statementId": step.statement_id,
        "containerId": step.container_id,
        "attempt": step.attempt,
        "createdAt": step.timestamp,
    }
    return {name: fact for name, fact in facts.items() if fact}
