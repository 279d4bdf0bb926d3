"""Waiting steps in an evaluator's answer, for those who have no store at hand."""

from __future__ import annotations

from collections.abc import Mapping

from afl.engine.operations.unanswered import WaitingStep
from afl.engine.states import EventState


def described_steps(workflow_id: str, outputs: Mapping[str, object]) -> list[WaitingStep]:
    """Return the waiting steps in an evaluator's answer. Malformed ones are skipped."""
    listed = outputs.get("waiting")
    steps = []
    for entry in listed if isinstance(listed, list) else ():
        match entry:
            case {"step_id": str(step_id), "facet": str(facet), "attempt": int(attempt), "since_ms": int(since_ms)}:
                steps.append(
                    WaitingStep(
                        workflow_id=workflow_id,
                        step_id=step_id,
                        facet=facet,
                        attempt=attempt,
                        payload={"name": event} if isinstance(event := entry.get("event"), str) else {},
                        since_ms=since_ms,
                        event_state=state if isinstance(state := entry.get("state"), str) else EventState.CREATED,
                        until_ms=until_ms if isinstance(until_ms := entry.get("until_ms"), int) else None,
                    )
                )
    return steps
