"""A block: creates the steps whose dependencies are complete, then its yields, and ends when all have."""

from __future__ import annotations

from afl.runtime import limits
from afl.runtime.errors import EvaluationError
from afl.runtime.execution import Execution
from afl.runtime.handlers.base import StateHandler
from afl.runtime.notices import Cause, watch, watch_for_yields
from afl.runtime.plan import BlockPlan
from afl.runtime.records import Frame, StepRecord
from afl.runtime.types import Value


class BlockExecutionBeginHandler(StateHandler):
    """Set the block up. A foreach evaluates its source, once, and makes one block for each element."""

    @staticmethod
    def work(execution: Execution, step: StepRecord) -> bool:
        plan = step.plan
        assert plan is not None
        if plan.variable is not None and step.block is None:
            return _begin_foreach(execution, step, plan)
        frame = execution.open_frame(step)
        frame.ready.extend(_first(execution, step, frame, plan))
        watch_for_yields(step, frame, plan)
        return True


class BlockExecutionContinueHandler(StateHandler):
    """Create what has become ready; yields once every other statement is complete, none after a failure."""

    @staticmethod
    def work(execution: Execution, step: StepRecord) -> bool:
        plan = step.plan
        assert plan is not None
        if plan.variable is not None and step.block is None:
            if step.blocks_open:
                return False
            if step.failed is not None:
                raise Cause(step.failed)
            return True
        frame = step.frame
        assert frame is not None
        if step.failed is not None:
            if frame.live:
                return False
            raise Cause(step.failed)
        if frame.ready:
            ready, frame.ready = frame.ready, []
            if len(ready) > 1:
                # In textual order, whatever completed first: a run that is read back numbers its steps alike.
                ready.sort()
            for index in ready:
                statement = plan.statements[index]
                if statement.plain and execution.trace is None:
                    execution.settle_statement(step, frame, statement)
                else:
                    execution.make_statement(step, frame, statement)
        if frame.missing or frame.live or step.blocks_open:
            return False
        if plan.yields and not frame.yields_made:
            frame.yields_made = True
            for given in plan.yields:
                execution.make_statement(step, frame, given)
            return False
        return True


class BlockExecutionEndHandler(StateHandler):
    """Nothing to do after the statements."""


def _first(execution: Execution, step: StepRecord, frame: Frame, plan: BlockPlan) -> list[int]:
    """The statements that can be created at once; waits for steps outside the block are registered there."""
    if not plan.has_outer_waits:
        return list(plan.first)
    for statement in plan.statements:
        for wait in statement.outer_waits:
            if not watch(step, frame, wait.depth, wait.index, statement.index):
                frame.waiting[statement.index] -= 1
    return [index for index, count in enumerate(frame.waiting) if not count]


def _begin_foreach(execution: Execution, step: StepRecord, plan: BlockPlan) -> bool:
    assert plan.source is not None
    frame = step.frame
    if frame is None:
        frame = execution.open_frame(step)
        for wait in plan.source_waits:
            if watch(step, frame, wait.depth, wait.index, None):
                step.blocks_open += 1
    if step.blocks is None:
        if step.failed is not None:
            raise Cause(step.failed)
        if step.blocks_open:
            return False
        step.blocks = []
    elements = _elements(plan.source(frame), plan)
    done = len(step.blocks)
    upto = min(len(elements), done + limits.FOREACH_SLICE)
    for index in range(done, upto):
        step.blocks.append(execution.make_instance(step, index, elements[index]))
    step.blocks_open += upto - done
    if upto < len(elements):
        # The rest follows in the next iteration, so that other workflows get their turn in between.
        execution.wake(step)
        return False
    return True


def _elements(source: Value, plan: BlockPlan) -> list[Value]:
    """One element an iteration: an array's elements, a map's keys, none for null."""
    if source is None:
        return []
    if isinstance(source, list):
        return source
    if isinstance(source, dict):
        return list(source)
    kind = {bool: "Boolean", int: "Int", float: "Double", str: "String"}.get(type(source), type(source).__name__)
    raise EvaluationError(expression=plan.source_text, message=f"foreach needs an array or a map, found a {kind}")
