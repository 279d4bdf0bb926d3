"""Shapes that the results of several tools share."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from afl.diagnostics import Diagnostic, display_name, excerpt
from afl.engine.model.store import ErrorRecord
from afl.engine.operations.unanswered import WaitingStep
from afl_stream.mcp.bounds import STEP_VALUE_CHARS, bounded_text, bounded_values, value_uri
from afl_stream.visibility.workflows import WorkflowSummary


class Finding(BaseModel):
    """One mistake in an AFL text, or one warning about it. Lines and columns count from 1."""

    code: str = Field(description="Its stable code, such as V012.")
    severity: str = Field(description="error, which refuses the program, or warning.")
    message: str
    file: str
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    help: str | None = Field(default=None, description="What would be right.")
    excerpt: str | None = Field(default=None, description="The line of the text, and carets below the place.")


class Failure(BaseModel):
    """Why something failed."""

    type: str
    message: str
    path: str | None = Field(default=None, description="The step that failed first, from the workflow on.")


class RunLine(BaseModel):
    """One run in a list. Times are milliseconds since the epoch."""

    run_id: str
    workflow: str
    status: str = Field(description="RUNNING, WAITING (for answers, events or times), COMPLETED, ERROR or CANCELLED.")
    program: str = Field(description="The fingerprint of its program.")
    steps_made: int
    created_at_ms: int
    ended_at_ms: int | None = None
    duration_ms: int
    error: Failure | None = None


class Waiting(BaseModel):
    """One step that waits."""

    step_id: str = Field(description="For afl_continue_step.")
    facet: str
    attempt: int
    since_ms: int
    until_ms: int | None = Field(default=None, description="When its wait, or its time for an answer, is over.")
    event_name: str | None = Field(default=None, description="The external event that it waits for: for afl_raise.")
    payload: dict[str, Any] = Field(description="What the step asks with.")
    returns: str | None = Field(default=None, description="What an answer has to have, as AFL writes it.")


def finding_of(diagnostic: Diagnostic, text: str | None) -> Finding:
    """Return a finding of the compiler, with an excerpt where the text is known."""
    lines = [] if text is None else excerpt(diagnostic, text)
    return Finding(
        code=diagnostic.code,
        severity=diagnostic.severity.value,
        message=bounded_text(diagnostic.message),
        file=display_name(diagnostic.source_id),
        line=diagnostic.line,
        column=diagnostic.column,
        end_line=diagnostic.end_line,
        end_column=diagnostic.end_column,
        help=None if diagnostic.hint is None else bounded_text(diagnostic.hint),
        excerpt="\n".join(lines) or None,
    )


def failure_of(error: ErrorRecord | None) -> Failure | None:
    """Return a failure as the store has it."""
    if error is None:
        return None
    return Failure(type=error.type, message=bounded_text(error.message), path=error.path or None)


def line_of(summary: WorkflowSummary) -> RunLine:
    """Return a run's line in a list."""
    return RunLine(
        run_id=summary.workflow_id,
        workflow=summary.workflow,
        status=summary.status,
        program=summary.program,
        steps_made=summary.steps_made,
        created_at_ms=summary.created_at_ms,
        ended_at_ms=summary.ended_at_ms,
        duration_ms=summary.duration_ms,
        error=failure_of(summary.error),
    )


def waiting_of(step: WaitingStep, returns: str | None) -> Waiting:
    """Return a waiting step; its payload is bounded."""
    payload = bounded_values(
        step.payload, STEP_VALUE_CHARS, lambda name: value_uri(step.workflow_id, step.step_id, "inputs", name)
    )
    return Waiting(
        step_id=step.step_id,
        facet=step.facet,
        attempt=step.attempt,
        since_ms=step.since_ms,
        until_ms=step.until_ms,
        event_name=step.event_name,
        payload=payload,
        returns=returns,
    )
