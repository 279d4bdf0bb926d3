"""Places of steps, in words, and failures at those places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from afl.engine.errors import StepFailure
from afl.engine.model.records import StepRecord
from afl.engine.model.store import ErrorRecord


def step_path(step: StepRecord, workflow: str) -> str:
    """Return the path of a step from the workflow on: `shop.Checkout.payment`, `fleet.Scan[3].ping`, `Pay.catch.a`."""
    parts: list[str] = []
    at = step
    while at.container is not None:
        if at.statement is not None:
            parts.append("yield" if at.statement.is_yield else at.statement.name)
        elif at.mixin is not None:
            parts.append(at.mixin.alias)
        block = at if at.statement is None else at.block
        if block is not None and block.plan is not None:
            if block.foreach_index is not None:
                parts.append(f"[{block.foreach_index}]")
            if block.plan.label:
                parts.append(block.plan.label)
        at = at.container
    parts.append(workflow)
    return ".".join(reversed(parts)).replace(".[", "[")


def failure_of(error: ErrorRecord) -> StepFailure:
    """Return the stored first cause as an error."""
    return StepFailure(
        step_id=error.step_id,
        step_path=error.path,
        facet=error.facet,
        error_type=error.type,
        message=error.message,
        line=error.line or None,
    )


def stuck_paths(unfinished: Iterable[StepRecord], workflow_name: str) -> Iterator[str]:
    """Return paths of the statements that have not ended, also of those that could not even start."""
    for step in unfinished:
        if step.statement is not None:
            yield step_path(step, workflow_name)
        elif step.frame is not None and step.plan is not None and step.blocks is None:
            around = step_path(step, workflow_name)
            for statement in step.plan.statements:
                if step.frame.env[statement.index] is None:
                    yield f"{around}.{statement.name}"


def line_of(step: StepRecord) -> int:
    """Return the source line of a statement, block or mixin, or of the declaration that a step runs; 0: unknown."""
    for plan in (step.statement, step.plan, step.mixin, step.facet):
        if plan is not None and plan.line:
            return plan.line
    return 0


def source_location(step: StepRecord) -> str:
    """Return the file and place of that line: `shop.afl:12:9`, as far as the program names it."""
    line = line_of(step)
    if not line:
        return "an unknown line"
    around = step.container if step.container is not None else step
    source_id = around.facet.source_id if around.facet is not None else ""
    if not source_id:
        return f"line {line}"
    column = step.statement.column if step.statement is not None else 0
    return f"{source_id.removeprefix('file://')}:{line}{f':{column}' if column else ''}"
