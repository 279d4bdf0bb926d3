"""Complete steps that are left as their store has them, when a workflow is loaded: read when someone asks for one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from afl.engine.errors import StoreCorrupt
from afl.engine.execution.execution import Execution
from afl.engine.model.plan import StatementPlan, WorkflowPlan
from afl.engine.model.records import Frame, StepRecord
from afl.engine.model.step_rows import StoredStep
from afl.engine.model.store import StepDocument
from afl.engine.states import StepState
from afl.engine.types import ObjectType

#: Blocks of a plan whose places are kept: the blocks of its declarations, and instances of foreachs up to that.
_BLOCKS_KEPT: Final = 64
#: Running blocks of a workflow for which its complete steps are looked up.
_MOST_BLOCKS: Final = 8

#: A complete step that is left as it is, and the id of its block.
_Left = tuple[StoredStep, str]


def split(
    plan: WorkflowPlan | None, workflow_id: str, rows: Sequence[StepDocument | StoredStep]
) -> tuple[list[StepDocument], list[_Left]]:
    """Return the steps that have to be read, in order of creation, and those that need not be.

    The others are complete steps without a body of their own, of a block that is still running: what is left of them
    are their attributes. Without a plan all are read. Their statements are known from the last time that a block of the
    same plan was loaded.
    """
    documents: list[StepDocument] = []
    stored: list[StoredStep] = []
    for row in rows:
        if isinstance(row, StoredStep):
            stored.append(row)
        else:
            documents.append(row)
    left: list[_Left] = []
    keep = len(workflow_id)
    running = [] if plan is None else _running(plan, documents, keep)
    for step in stored:
        place = step.id[keep:]
        for block_id, places in running:
            statement = places.get(place)
            if statement is not None:
                step.statement = statement
                left.append((step, block_id))
                break
        else:
            documents.append(step.document())
    documents.sort(key=_number)
    return documents, left


def _number(document: StepDocument) -> int:
    return document.number


def _running(
    plan: WorkflowPlan, documents: Sequence[StepDocument], keep: int
) -> list[tuple[str, dict[str, StatementPlan]]]:
    running = []
    for document in documents:
        if ObjectType.is_block(document.object_type):
            places = plan.stored_places.get(document.id[keep:])
            if places is not None and document.state not in (StepState.CREATED, StepState.BLOCK_EXECUTION_BEGIN):
                running.append((document.id, places))
    return running if len(running) <= _MOST_BLOCKS else []


def put_left(execution: Execution, left: Sequence[_Left]) -> None:
    """Put the steps that were left as they are into the frames of their blocks; see `split`."""
    for step, block_id in left:
        block = execution.steps.get(block_id)
        frame = None if block is None else block.frame
        if frame is None:
            raise StoreCorrupt(path=f"workflow {execution.id}", reason=f"step {step.id} is in no running block")
        frame.env[step.statement.index] = step
        frame.missing -= 1
        for index in step.statement.wakes:
            frame.waiting[index] -= 1
    execution.bounds.estimate({step.id: step for step, _ in left})


def remember_places(execution: Execution) -> None:
    """Note the statements of the running blocks whose complete steps need not be read the next time."""
    kept = execution.plan.stored_places
    if len(kept) >= _BLOCKS_KEPT or execution.execution != 1:
        return
    keep = len(execution.id)
    for step in execution.steps.values():
        frame = step.frame
        if frame is None or step.plan is None or step.blocks is not None or step.is_terminal:
            continue
        place = step.id[keep:]
        if place not in kept and len(kept) < _BLOCKS_KEPT:
            statements = [statement for statement in step.plan.statements if _may_be_left(statement)]
            kept[place] = {frame.block_ids.step_id(each.key)[keep:]: each for each in statements}


def _may_be_left(statement: StatementPlan) -> bool:
    """Say whether only the attributes of the statement's complete step are ever wanted."""
    callee = statement.callee
    has_more = statement.blocks or statement.catch or statement.is_value or statement.is_yield
    return not has_more and not (callee is not None and callee.mixins)


def find_step(execution: Execution, step_id: str) -> StepRecord | None:
    """Return a step of the execution, also one that was left as its store has it. Raises StoreCorrupt."""
    step = execution.steps.get(step_id)
    if step is not None:
        return step
    stored = execution.bounds.unread.get(step_id)
    return None if stored is None else _record(execution, stored)


def _record(execution: Execution, stored: StoredStep) -> StepRecord | None:
    document, statement = stored.document(), stored.statement
    if statement.plain:
        return None  # Such steps never get a record.
    block = execution.steps.get(document.block_id or "")
    frame: Frame | None = None if block is None else block.frame
    if block is None or frame is None:
        return None
    step = StepRecord(document.id, document.number, document.object_type, document.created_at_ms)
    step.dirty, step.reported, step.revision, step.state = False, True, document.revision, document.state
    step.params, step.returns = document.params, document.returns
    step.attempt, step.event_state, step.deadline_ms = document.attempt, document.event_state, document.deadline_ms
    step.statement, step.facet = statement, statement.callee
    step.container, step.block = frame.owner, block
    frame.env[statement.index] = step
    execution.steps[step.id] = step
    return step
