"""A record of what a run did, transition by transition, for people who look into it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from afl.runtime.clock import Clock, SystemClock
from afl.runtime.step import StepDefinition


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


class Telemetry:
    """
    Collects the events of runs in memory.

    The engine asks `enabled` once per call and, when it is off, calls nothing here.
    """

    def __init__(self, enabled: bool = True, clock: Clock | None = None) -> None:
        self.enabled = enabled
        self.events: list[TelemetryEvent] = []
        self._clock: Clock = clock or SystemClock()

    def get_events(self) -> list[dict[str, object]]:
        """Return the JSON form of all events, oldest first."""
        return [event.to_dict() for event in self.events]

    def clear(self) -> None:
        """Forget all events."""
        self.events.clear()

    def to_json(self, indent: int | None = 2) -> str:
        """Return all events as a JSON array; values that JSON does not know are written as their text."""
        return json.dumps(self.get_events(), indent=indent, ensure_ascii=False, default=str)

    def log_workflow_start(self, workflow_id: str, workflow_name: str) -> None:
        """A run was started or resumed."""
        self._log("workflow.start", workflow_id=workflow_id, workflowName=workflow_name)

    def log_workflow_complete(self, workflow_id: str, result: object = None) -> None:
        """A run has completed with these outputs."""
        self._log("workflow.complete", workflow_id=workflow_id, result=result)

    def log_workflow_error(self, workflow_id: str, error: BaseException) -> None:
        """A run has failed."""
        self._log("workflow.error", workflow_id=workflow_id, error=str(error), errorType=type(error).__name__)

    def log_iteration_start(self, workflow_id: str, iteration: int) -> None:
        """An iteration begins."""
        self._log("iteration.start", workflow_id=workflow_id, iteration=iteration)

    def log_iteration_end(self, workflow_id: str, iteration: int, created: int, updated: int) -> None:
        """An iteration has ended, having created and updated so many steps."""
        self._log("iteration.end", workflow_id=workflow_id, iteration=iteration, created=created, updated=updated)

    def log_step_created(self, step: StepDefinition) -> None:
        """A step was created."""
        self._log_step("step.created", step, step.state, objectType=step.object_type, facetName=step.facet_name)

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
        self._log_step("step.error", step, state, error=str(error), errorType=type(error).__name__)

    def log_dependency_resolved(self, step_id: str, dependency_id: str) -> None:
        """A step no longer waits for another."""
        self._log("dependency.resolved", step_id=step_id, dependencyId=dependency_id)

    def log_event_published(self, event_id: str, step_id: str, event_type: str) -> None:
        """An event was handed out."""
        self._log("event.published", step_id=step_id, eventId=event_id, eventType=event_type)

    def _log_step(self, event_type: str, step: StepDefinition, state: str, **details: object) -> None:
        if self.enabled:
            self.events.append(
                TelemetryEvent(
                    timestamp=self._clock.now_ms(),
                    event_type=event_type,
                    workflow_id=step.workflow_id,
                    step_id=step.id,
                    block_id=step.block_id,
                    state=state,
                    details=details,
                )
            )

    def _log(
        self, event_type: str, *, workflow_id: str | None = None, step_id: str | None = None, **details: object
    ) -> None:
        if self.enabled:
            self.events.append(
                TelemetryEvent(
                    timestamp=self._clock.now_ms(),
                    event_type=event_type,
                    workflow_id=workflow_id,
                    step_id=step_id,
                    details=details,
                )
            )
