"""Complete elements of a large foreach leave memory once the store has them: of their yields the values stay.

Nothing happens to a complete element any more, and nothing outside of it reads its steps. So a foreach over a million
elements takes the memory of those that are under way, and of what the complete ones have yielded. After a restart
(large_runs.py) not even that: yields of elements that were complete before it are read when they are merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from afl.core.ids import derived_id
from afl.engine.errors import StoreCorrupt
from afl.engine.execution.captures import capture_order, is_kept
from afl.engine.execution.making import block_plan
from afl.engine.execution.mixins import mixin_of, mixin_step_id
from afl.engine.model.plan import OWN_YIELDS, BlockPlan
from afl.engine.model.records import LeftYield, StepRecord
from afl.engine.model.step_rows import BlockIds, BoundStep, StepDocument
from afl.engine.states import StepState
from afl.engine.types import ObjectType
from afl.engine.values.sizes import attribute_bytes

if TYPE_CHECKING:
    from afl.engine.execution.execution import Execution

#: Elements that leave together: what is left of their foreach is looked through once for all of them.
LOT: Final = 256


class Leaving:
    """A large foreach, and what is kept of its elements that have left memory."""

    __slots__ = ("complete", "foreach", "left", "unread", "yields")

    def __init__(self, foreach: StepRecord) -> None:
        self.foreach = foreach
        #: Elements that are complete, and still here.
        self.complete: list[StepRecord] = []
        #: How many have left, and what they have yielded to the step whose body the foreach is in.
        self.left = 0
        self.yields: list[LeftYield] = []
        #: The indices of elements whose yields are still in the store.
        self.unread: Sequence[int] = ()


def begin_to_leave(execution: Execution, foreach: StepRecord, plan: BlockPlan) -> int:
    """Let complete elements of a foreach leave memory from now on, if they may; return how many have left already."""
    leaving = execution.leaving
    if leaving is None or foreach.id not in leaving:
        if execution.load_step is None or execution.later is not None or execution.plan.facet.reads_steps:
            return 0
        if not _may_leave(plan):
            return 0
        if leaving is None:
            leaving = execution.leaving = {}
        leaving[foreach.id] = Leaving(foreach)
    return leaving[foreach.id].left


def leave_of(execution: Execution, foreach: StepRecord) -> None:
    """Do the same for a large foreach that was read from the store, with all of its elements."""
    plan = foreach.plan
    if plan is None or plan.cases or not plan.splits:
        return
    begin_to_leave(execution, foreach, plan)
    if execution.leaving is not None and foreach.id in execution.leaving:
        execution.leaving[foreach.id].complete += [each for each in foreach.blocks or () if each.is_complete]


def note_left(execution: Execution, foreach: StepRecord, unread: Sequence[int]) -> bool:
    """Note that a foreach which was read from the store has these elements besides those that were read with it.

    False: they may not leave memory.
    """
    assert foreach.plan is not None
    begin_to_leave(execution, foreach, foreach.plan)
    leaving = None if execution.leaving is None else execution.leaving.get(foreach.id)
    if leaving is None:
        return False
    leaving.left, leaving.unread = len(unread), unread
    owner = foreach.container
    if owner is not None and owner.captured is None:
        owner.captured = []
    return True


def _may_leave(block: BlockPlan, depth: int = 0) -> bool:
    """Say whether all that a block yields is for steps inside of the element, or for the one that its foreach is of."""
    if block.script is not None or any((each.yield_depth or 0) > depth for each in block.yields):
        return False
    if not all(_may_leave(case.block, depth) for case in block.cases):
        return False
    for statement in block.statements:
        bodies = statement.blocks if statement.catch is None else (*statement.blocks, statement.catch)
        if not all(_may_leave(body, depth + 1) for body in bodies if body.is_statement_body):
            return False
    return True


def leave(execution: Execution) -> None:
    """Let complete elements go that the store has. The last commit must be over, and the next one not begun."""
    assert execution.leaving is not None
    for leaving in list(execution.leaving.values()):
        if len(leaving.complete) >= LOT:
            _leave(execution, leaving)


def _leave(execution: Execution, leaving: Leaving) -> None:
    stored = [element for element in leaving.complete if not element.dirty]
    leaving.complete = [element for element in leaving.complete if element.dirty]
    gone = {step_id for element in stored for step_id in _inside(execution, element)}
    foreach = leaving.foreach
    owner = foreach.container
    size = 0
    if owner is not None and owner.captured:
        kept = [each for each in owner.captured if each.id in gone and is_kept(each)]
        leaving.yields += [LeftYield(capture_order(each), each.statement, each.params) for each in kept]  # type: ignore[arg-type]  # a yield has a statement
        size -= sum(each.size for each in kept)
        owner.captured = [each for each in owner.captured if each.id not in gone]
    for step_id in gone:
        step = execution.steps.pop(step_id, None)
        if step is not None:
            size += step.size
            if step.frame is not None:
                bound = [each for each in step.frame.env if type(each) is BoundStep]
                size += sum(attribute_bytes(each.params) + attribute_bytes(each.returns) for each in bound)
            if step.blocks is not None and execution.leaving is not None:
                # A large foreach inside of an element.
                execution.leaving.pop(step_id, None)
    execution.bounds.state_bytes -= size
    foreach.blocks = [each for each in foreach.blocks or () if each.id not in gone]
    leaving.left += len(stored)


def _inside(execution: Execution, element: StepRecord) -> Iterator[str]:
    """Yield the ids of an element and of all steps inside of it."""
    found = [element]
    while found:
        step = found.pop()
        yield step.id
        found += step.blocks or ()
        frame, plan = step.frame, step.plan
        if frame is not None and plan is not None:
            found += [each for each in frame.env if type(each) is StepRecord]
            if frame.yields_made:
                yield from (frame.block_ids.step_id(each.key) for each in plan.yields)
        elif step.facet is not None:
            mixins = [execution.steps.get(mixin_step_id(execution.id, step.id, each)) for each in step.facet.mixins]
            found += [mixin for mixin in mixins if mixin is not None]


def with_left_yields(execution: Execution, owner: StepRecord) -> list[StepRecord | LeftYield]:
    """Return the yields that a step has captured, and what elements that have left have yielded to it, in no order.

    Raises StoreCorrupt and StoreUnavailable.
    """
    found: list[StepRecord | LeftYield] = [*(owner.captured or ())]
    for leaving in _of(execution, owner):
        found += leaving.yields
        found += _unread_yields(execution, leaving)
    return found


def forget_yields(execution: Execution, owner: StepRecord) -> None:
    """Drop what elements that have left have yielded to a step: it has their values."""
    for leaving in _of(execution, owner):
        leaving.yields, leaving.unread = [], ()


def _of(execution: Execution, owner: StepRecord) -> list[Leaving]:
    assert execution.leaving is not None
    return [leaving for leaving in execution.leaving.values() if leaving.foreach.container is owner]


def _unread_yields(execution: Execution, leaving: Leaving) -> Iterator[LeftYield]:
    foreach = leaving.foreach
    plan, owner, load = foreach.plan, foreach.container, execution.load_step
    if not leaving.unread or plan is None or owner is None or load is None:
        return
    taken = [each for each in plan.yields if each.yield_depth is not None]
    for index in leaving.unread if taken else ():
        element_id = derived_id(execution.id, foreach.id, str(index))
        ids = BlockIds(execution.id, execution.root.id, owner.id, element_id, 0)
        for each in taken:
            document = load(ids.step_id(each.key))
            if document is None:
                raise StoreCorrupt(
                    path=f"workflow {execution.id}", reason=f"element {element_id} is complete and has no {each.name}"
                )
            yield LeftYield((plan.index, index, OWN_YIELDS + each.index), each, document.params)


# --- steps that someone asks for ------------------------------------------------------------------------------------


def left_step(execution: Execution, step_id: str) -> StepRecord | None:
    """Return a step that has left memory, as the store has it; None: there is none of this id.

    What happens to it has no effect. Raises StoreCorrupt and StoreUnavailable.
    """
    if execution.leaving is None or execution.load_step is None or not step_id.startswith(f"{execution.id}:"):
        return None
    document = execution.load_step(step_id)
    if document is None or document.revision > execution.revision or document.state != StepState.STATEMENT_COMPLETE:
        return None
    return _read(execution, document)


def _read(execution: Execution, document: StepDocument) -> StepRecord | None:
    step = StepRecord(document.id, document.number, document.object_type, document.created_at_ms)
    step.dirty, step.reported, step.revision, step.state = False, True, document.revision, document.state
    step.params, step.returns, step.error = document.params, document.returns, document.error
    step.attempt, step.event_state, step.deadline_ms = document.attempt, document.event_state, document.deadline_ms
    step.foreach_index, step.foreach_value = document.foreach_index, document.foreach_value
    step.container, step.block = _around(execution, document.container_id), _around(execution, document.block_id)
    if step.container is None:
        return None
    if ObjectType.is_block(step.object_type):
        step.plan = block_plan(step, document)
    elif step.block is None:
        step.mixin = mixin_of(step.container, document.statement_id)
        step.facet = None if step.mixin is None else step.mixin.facet
    else:
        plan = step.block.plan
        statements = () if plan is None else (*plan.statements, *plan.yields)
        step.statement = next((each for each in statements if each.id == document.statement_id), None)
        if step.statement is None or step.statement.plain:
            return None  # Such steps never have a record.
        step.facet = step.statement.callee
    return step


def _around(execution: Execution, step_id: str | None) -> StepRecord | None:
    """Return a container or block of a step that has left memory: still here, or read as well."""
    if step_id is None or execution.load_step is None:
        return None
    step = execution.steps.get(step_id)
    if step is None and (document := execution.load_step(step_id)) is not None:
        step = _read(execution, document)
    return step
