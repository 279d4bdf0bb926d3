"""Binding: a new step evaluates its arguments, and what fills in those that the call left out."""

from __future__ import annotations

from afl.engine.execution.execution import Execution
from afl.engine.model.records import Frame, StepRecord
from afl.engine.planning.binding import bind_arguments, bind_mixin


def bind_attributes(execution: Execution, step: StepRecord) -> bool:
    """Evaluate all attribute expressions. A schema's become returns; everything else gets params.

    A yield takes no defaults. A root step was bound when the workflow was started.
    """
    statement = step.statement
    if statement is None:
        if step.mixin is not None:
            assert step.container is not None
            execution.give(step, bind_mixin(step.mixin, step.container.params, execution), step.returns)
        return True
    frame: Frame = step.block.frame  # type: ignore[union-attr,assignment]  # a statement's block has begun
    execution.give(step, *bind_arguments(statement, frame))
    return True
