"""The yields that a step captures, in the order of the program, whatever completed first."""

from __future__ import annotations

from afl.engine.model.plan import OWN_YIELDS
from afl.engine.model.records import LeftYield, StepRecord


def is_kept(yielded: StepRecord | LeftYield) -> bool:
    """Say whether every block between a yield and the step that takes its values has completed.

    A block that failed and was caught further out gives nothing. An iteration of a foreach is a block of its own
    (language reference, 4.3 and 4.7), and so is a case of a `when` (4.4): one that completed keeps its yields when
    another one failed, though the foreach or `when` as a whole has then failed.
    """
    if type(yielded) is LeftYield:
        return True  # Else it would not have been kept when its step left memory.
    assert isinstance(yielded, StepRecord)
    assert yielded.statement is not None
    assert yielded.block is not None
    frame = yielded.block.frame
    for _ in range((yielded.statement.yield_depth or 0) + 1):
        assert frame is not None
        if frame.step.error is not None:
            return False
        frame = frame.parent
    return True


def capture_order(yielded: StepRecord | LeftYield) -> tuple[int, ...]:
    """Return the position of a yield's values in the merge.

    The order is by block, by element or case, nested bodies before own yields, then by textual order: three numbers
    for each level, the outermost first.
    """
    if type(yielded) is LeftYield:
        return yielded.order
    assert isinstance(yielded, StepRecord)
    assert yielded.statement is not None
    assert yielded.block is not None
    order: tuple[int, ...] = ()
    position = OWN_YIELDS + yielded.statement.index
    frame = yielded.block.frame
    for _ in range((yielded.statement.yield_depth or 0) + 1):
        assert frame is not None
        assert frame.step.plan is not None
        plan = frame.step.plan
        order = (plan.index, plan.case or frame.step.foreach_index or 0, position, *order)
        if frame.owner.statement is not None:
            position = frame.owner.statement.index
        frame = frame.parent
    return order
