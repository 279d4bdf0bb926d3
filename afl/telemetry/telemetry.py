"""Structured events about runs: handed to a sink, or kept in memory for inspection."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from afl.core.clock import Clock, SystemClock
from afl.core.ids import workflow_of
from afl.core.process.crashes import Crash
from afl.core.text.exception_text import class_name, exception_class, exception_line, exception_text
from afl.engine.errors import StepFailure
from afl.stores.public.step import StepDefinition

_log = logging.getLogger(__name__)

#: Exceptions that pass through a sink's methods: Ctrl-C in a thread that runs a workflow, and a test's death of the
#: process.
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
    "external.events",
    "timers.fired",
    "schedules.fired",
)


@dataclass
class TelemetryEvent:
    """One event. `timestamp` is in milliseconds since the epoch."""

    timestamp: int
    event_type: str
    workflow_id: str | None = None
    step_id: str | None = None
    block_id: str | None = None
    state: str | None = None
    details: dict[str, object] = field(default_factory=dict)
    #: The trace that the run is part of, as `TraceContext.text`; empty: the one whose id is derived from the run's.
    trace_context: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form; unset fields are left out."""
        fields: dict[str, object] = {"timestamp": self.timestamp, "eventType": self.event_type}
        if self.workflow_id:
            fields["workflowId"] = self.workflow_id
        if self.step_id:
            fields["stepId"] = self.step_id
        if self.block_id:
            fields["blockId"] = self.block_id
        if self.state:
            fields["state"] = self.state
        if self.details:
            fields["details"] = self.details
        return fields


class TelemetrySink:
    """The destination of events. Inherit and implement `emit`; pass an instance to `Telemetry(sink=...)`.

    The thread that runs a workflow calls `emit`, after the commit of the event's facts, so it should be quick and must
    be thread-safe. Its exceptions are caught: execution continues as if it had not been called.
    """

    @property
    def event_types(self) -> frozenset[str] | None:
        """Return the types of the events that this sink wants now; None: all.

        The engine makes no other event for it. It is asked whenever a run is loaded.
        """
        return None

    def emit(self, event: TelemetryEvent) -> None:
        """Take one event."""
        raise NotImplementedError

    def emit_all(self, events: Sequence[TelemetryEvent]) -> None:
        """Take the events of one commit of a run, in order. What `emit` raises for one ends it for the others."""
        for event in events:
            self.emit(event)

    def traceparent(self, workflow_id: str, event_id: str) -> str | None:  # noqa: ARG002 - sinks override it
        """Return the W3C trace context for the record of an event; None: none."""
        return None

    def close(self) -> None:
        """Write unsent events; no event comes after this."""


class Telemetry:
    """Maker of events about runs, which go to its sink. Without a sink they are kept in `events`.

    An evaluator checks once, when it is made, whether this is on; if not, it is never called. Thread-safe.
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
        #: The number of events that the sink did not take, because it raised.
        self.lost = 0

    def wanted(self) -> frozenset[str]:
        """Return the types of the engine's events that the sink wants now. Never raises."""
        chosen = self._chosen()
        return frozenset(EVENT_TYPES) if chosen is None else chosen

    def wants(self, event_type: str) -> bool:
        """Say whether the sink wants events of this type now, which need not be one of the engine's. Never raises."""
        chosen = self._chosen()
        return chosen is None or event_type in chosen

    def _chosen(self) -> frozenset[str] | None:
        if not self.enabled:
            return frozenset()
        if self.sink is None:
            return None
        try:
            chosen = self.sink.event_types
            # A plain set: later lookups must not run the sink's code.
            return None if chosen is None else frozenset(chosen)
        except _NOT_THE_SINKS:
            raise
        except BaseException as error:  # noqa: BLE001 - as in `emit`
            self._note_lost("what is wanted", error)
            return None

    def emit(self, event: TelemetryEvent) -> None:
        """Hand one event over. Never raises; the first event that the sink refuses is logged as a warning."""
        if self.sink is None:
            self.events.append(event)
            return
        try:
            self.sink.emit(event)
        except _NOT_THE_SINKS:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, no run may depend on it
            self._note_lost(event.event_type, error)

    def emit_together(self, events: Sequence[TelemetryEvent]) -> None:
        """Hand the events of a commit over together, where the sink takes them so. Never raises."""
        if self.sink is None or type(self.sink).emit_all is TelemetrySink.emit_all:
            for event in events:
                self.emit(event)
            return
        try:
            self.sink.emit_all(events)
        except _NOT_THE_SINKS:
            raise
        except BaseException as error:  # noqa: BLE001 - as in `emit`
            self._note_lost(events[0].event_type, error)

    def _note_lost(self, what: str, error: BaseException) -> None:
        self.lost += 1
        if self.lost == 1:
            _log.warning(
                "telemetry lost %s, reported only once; runs continue: %s raised %s: %s",
                what,
                class_name(type(self.sink)),
                exception_class(error),
                exception_text(error),
            )

    def traceparent(self, workflow_id: str, event_id: str) -> str | None:
        """Return the trace context of an event's record, if the sink has one. Never raises."""
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

    @property
    def makes_spans(self) -> bool:
        """Whether the sink makes a span of each event that is sent, and so gives events their trace context."""
        return self.sink is not None and type(self.sink).traceparent is not TelemetrySink.traceparent

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
        """Log that a run was started, or (`resumed`) loaded again."""
        self._log("workflow.start", {"workflowName": workflow_name, **details}, workflow_id)

    def log_workflow_complete(self, workflow_id: str, result: object = None, **details: object) -> None:
        """Log that a run has completed with these outputs."""
        self._log("workflow.complete", {"result": result, **details}, workflow_id)

    def log_workflow_error(self, workflow_id: str, error: BaseException, **details: object) -> None:
        """Log that a run has failed, or that a call could not continue it."""
        reported = {"error": exception_text(error), "errorType": _type_of(error)}
        self._log("workflow.error", {**reported, **details}, workflow_id)

    def log_iteration_start(self, workflow_id: str, iteration: int) -> None:
        """Log that an iteration begins."""
        self._log("iteration.start", {"iteration": iteration}, workflow_id)

    def log_iteration_end(
        self, workflow_id: str, iteration: int, created: int, updated: int, **details: object
    ) -> None:
        """Log that an iteration has ended; `created` counts steps, `updated` also those that moved."""
        counts = {"iteration": iteration, "created": created, "updated": updated}
        self._log("iteration.end", {**counts, **details}, workflow_id)

    def log_step_created(self, step: StepDefinition) -> None:
        """Log that a step was created."""
        self._log_step("step.created", step, step.state, objectType=step.object_type, facetName=step.facet_name)

    def log_step_complete(self, step: StepDefinition) -> None:
        """Log that a step is complete. `createdAt` is when it was made, in milliseconds since the epoch."""
        self._log_step("step.complete", step, step.state, **_life_of(step))

    def log_state_begin(self, step: StepDefinition, state: str) -> None:
        """Log that the work of a state begins."""
        self._log_step("state.begin", step, state)

    def log_state_end(self, step: StepDefinition, state: str) -> None:
        """Log that the work of a state is done."""
        self._log_step("state.end", step, state)

    def log_state_transition(self, step: StepDefinition, from_state: str, to_state: str) -> None:
        """Log that a step moved from one state to another."""
        self._log_step("state.transition", step, to_state, fromState=from_state, toState=to_state)

    def log_error(self, step: StepDefinition, state: str, error: BaseException) -> None:
        """Log that a step failed in this state."""
        life = _life_of(step) if step.timestamp is not None else {}
        if isinstance(error, StepFailure) and error.step_id != step.id:
            life["causedBy"] = error.step_id
        self._log_step("step.error", step, state, error=exception_text(error), errorType=_type_of(error), **life)

    def log_dependency_resolved(self, step_id: str, dependency_id: str) -> None:
        """Log that a step no longer waits for another."""
        self._log("dependency.resolved", {"dependencyId": dependency_id}, workflow_of(step_id), step_id)

    def log_event_published(self, event_id: str, step_id: str, event_type: str) -> None:
        """Log that an event was published."""
        self._log("event.published", {"eventId": event_id, "eventType": event_type}, workflow_of(step_id), step_id)

    def log_external_events(self, happened: Mapping[str, int], dropped: Mapping[str, int]) -> None:
        """Log what happened to external events in one commit, how many times; dropped ones by the reason."""
        self._log("external.events", {"happened": dict(happened), "dropped": dict(dropped)}, None)

    def log_timers_fired(self, late_ms: Mapping[str, Sequence[int]]) -> None:
        """Log the timers that one commit has fired: how late each was, by kind."""
        self._log("timers.fired", {"lateMs": {kind: list(found) for kind, found in late_ms.items()}}, None)

    def log_schedules_fired(self, outcomes: Mapping[str, int]) -> None:
        """Log what one commit has decided about firings of schedules: how many started a run, were skipped, missed."""
        self._log("schedules.fired", {"outcomes": dict(outcomes)}, None)

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
    """Return the class of an error by name; for a step's failure, that of its cause."""
    return error.error_type if isinstance(error, StepFailure) else exception_class(error)


def _life_of(step: StepDefinition) -> dict[str, object]:
    """Return the details of an ended step; unset ones are left out."""
    facts = {
        "objectType": step.object_type,
        "facetName": step.facet_name,
        "statementId": step.statement_id,
        "containerId": step.container_id,
        "attempt": step.attempt,
        "createdAt": step.timestamp,
    }
    return {name: fact for name, fact in facts.items() if fact}
