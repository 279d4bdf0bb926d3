"""Events as workers and receivers of webhooks see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afl.core.handlers.context import HandlerContext


def event_document(payload: Mapping[str, Any], context: HandlerContext) -> dict[str, Any]:
    """Return an event as JSON has it. Sensitive values are as they are: who answers needs them."""
    return {
        "facet": context.facet,
        "event_id": context.event_id,
        "workflow_id": context.workflow_id,
        "step_id": context.step_id,
        "attempt": context.attempt,
        "tries": context.tries,
        "deadline_ms": context.deadline_ms,
        "traceparent": context.traceparent or None,
        "payload": dict(payload),
    }
