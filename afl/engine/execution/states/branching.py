"""Blocks that contain blocks: a foreach has one for each element, a `when` one for each case that holds."""

from __future__ import annotations

from afl.core.text.exception_text import exception_text
from afl.engine import limits
from afl.engine.errors import EvaluationError, StoreCorrupt, StoreUnavailable
from afl.engine.execution.events import wait_for_room
from afl.engine.execution.execution import Execution
from afl.engine.execution.leaving import begin_to_leave
from afl.engine.execution.making import make_case, make_instance
from afl.engine.execution.step_log import warn
from afl.engine.execution.waits import InnerFailure, wait_for
from afl.engine.model.plan import BlockPlan, CasePlan
from afl.engine.model.records import Frame, StepRecord
from afl.engine.types import Value
from afl.engine.values.rendering import type_name


def begin_foreach(execution: Execution, step: StepRecord, plan: BlockPlan) -> bool:
    """Wait for what the source reads, then evaluate it and make the elements' blocks; return whether all are made."""
    assert plan.source is not None
    frame = _awaited(execution, step, plan)
    if frame is None:
        return False
    step.blocks = step.blocks or []
    elements = _elements(plan.source(frame), plan)
    done, size = len(step.blocks), limits.FOREACH_WHOLE
    if len(elements) > size:
        done += begin_to_leave(execution, step, plan)
        if execution.made:
            # The existing ones run first: they may have events to send, which stops the creation of more.
            execution.wake(step)
            return False
        if execution.held_events:
            wait_for_room(execution, step)
            return False
        execution.waiting_foreachs.pop(step.id, None)
        size = limits.FOREACH_SLICE
    upto = min(len(elements), done + size)
    for index in range(done, upto):
        step.blocks.append(make_instance(execution, step, index, elements[index]))
    step.blocks_open += upto - done
    if upto < len(elements):
        # The rest follows in the next iteration, so that other workflows get their turn in between.
        execution.wake(step)
        return False
    return True


def begin_when(execution: Execution, step: StepRecord, plan: BlockPlan) -> bool:
    """Wait for what the conditions read, then evaluate them and run every case that holds.

    The default runs if none does.
    """
    frame = _awaited(execution, step, plan)
    if frame is None:
        return False
    chosen = [case for case in plan.cases if case.condition is not None and _holds(execution, step, frame, case)]
    if not chosen:
        chosen = [case for case in plan.cases if case.condition is None]
    step.blocks = [make_case(execution, step, case.block) for case in chosen]
    step.blocks_open = len(chosen)
    return True


def _awaited(execution: Execution, step: StepRecord, plan: BlockPlan) -> Frame | None:
    """Return the block's frame, once the steps that its source or conditions read are complete; None until then."""
    frame = step.frame
    if frame is None:
        frame = execution.open_frame(step)
        for wait in plan.source_waits:
            if wait_for(step, frame, wait, None):
                step.blocks_open += 1
    if step.blocks is None:
        if step.failed is not None:
            raise InnerFailure(step.failed)
        if step.blocks_open:
            return None
        if execution.trace is not None:
            execution.trace.begun(execution, step, frame)
    return frame


def _elements(source: Value, plan: BlockPlan) -> list[Value]:
    """Yield the elements: an array's elements, a map's keys, none for null."""
    if source is None:
        return []
    if isinstance(source, list):
        return source
    if isinstance(source, dict):
        return list(source)
    found = type_name(source)
    raise EvaluationError(expression=plan.source_text, message=f"foreach needs an array or a map, found a {found}")


def _holds(execution: Execution, step: StepRecord, frame: Frame, case: CasePlan) -> bool:
    """Say whether a condition is true. An error, or a value that is not a Boolean, counts as false, with a warning."""
    assert case.condition is not None
    try:
        value = case.condition(frame)
    except (MemoryError, StoreCorrupt, StoreUnavailable):
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the case does not run
        why = exception_text(error)
        warn(execution, step, case.block.name, f"case {case.condition_text} counts as not true: {why}")
        return False
    if not isinstance(value, bool):
        found = type_name(value)
        warn(
            execution, step, case.block.name, f"case {case.condition_text} counts as not true: {found} is not a Boolean"
        )
        return False
    return value
