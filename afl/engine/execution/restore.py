"""Loading a workflow from its rows: the same live state that was committed, with all movable steps in the queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from afl.engine import limits
from afl.engine.errors import StoreCorrupt
from afl.engine.execution.events import hold, release_held_event
from afl.engine.execution.execution import Execution
from afl.engine.execution.generations import LaterGeneration, current_of
from afl.engine.execution.inbox import Inbox
from afl.engine.execution.leaving import leave_of
from afl.engine.execution.making import block_plan
from afl.engine.execution.mixins import mixin_of
from afl.engine.execution.ports import RunEnvironment
from afl.engine.execution.runtime_waits import keep_wait
from afl.engine.execution.scripts import wait_for_script
from afl.engine.execution.stored_steps import by_number, put_left, put_unread, split
from afl.engine.execution.waits import InnerFailure, can_continue, wait_for, wait_for_yields
from afl.engine.model.plan import StatementPlan, WorkflowPlan
from afl.engine.model.records import Frame, StepRecord
from afl.engine.model.step_rows import BoundStep
from afl.engine.model.store import OpenRun, StepDocument, StoredStep, WorkflowRow
from afl.engine.states import EventState, StepState
from afl.engine.types import ObjectType

#: States in which a step waits for other steps, which wake it.
_WAITING = frozenset(
    {
        StepState.MIXIN_BLOCKS_CONTINUE,
        StepState.EVENT_TRANSMIT,
        StepState.STATEMENT_BLOCKS_CONTINUE,
        StepState.BLOCK_EXECUTION_CONTINUE,
        StepState.CATCH_CONTINUE,
    }
)


#: The count of waits of a statement that is made: however many end, it never reaches zero.
_MADE = -1


def restore(
    plan: WorkflowPlan,
    row: WorkflowRow,
    rows: Sequence[StepDocument | StoredStep],
    environment: RunEnvironment,
    inbox: Inbox | None = None,
) -> Execution:
    """Rebuild the execution that `rows` hold: documents in order of creation, or what `Store.load_run` returns.

    `inbox`: its pending external events; None: it has none, and no events are raised on it. Raises StoreCorrupt when
    the rows do not fit the pinned program.
    """
    later, count = None, len(rows)
    documents, stored = split(rows, read_all=row.execution != 1)
    if row.execution != 1:
        documents, attempts = current_of(documents)
        # Steps of older generations were made, too.
        later, count = LaterGeneration(row.execution, attempts), row.steps
    inbox = inbox if inbox is not None else Inbox(next_number=None)
    execution = Execution(plan, row, root_of(row, documents), environment, count=count, later=later, inbox=inbox)
    if stored:
        documents, inside = _outside_first(documents, execution.root.id)
        add_all(execution, documents)
        documents = sorted([*inside, *put_left(execution, stored)], key=by_number)
    add_all(execution, documents)
    return _continued(execution)


def restore_open(
    plan: WorkflowPlan, row: WorkflowRow, run: OpenRun, environment: RunEnvironment, inbox: Inbox | None = None
) -> Execution | None:
    """Rebuild the execution of a flat plan from its steps that are not complete; None: the others have to be read.

    `environment` is of no further use then. Works as `restore` otherwise. A run that has more to do, or in which
    something has failed, is not rebuilt so: a statement may not have been made yet that could be.
    """
    if row.execution != 1 or row.runnable or row.steps != len(run.steps) + run.complete:
        return None
    if any(step.error is not None for step in run.steps):
        return None
    documents = sorted(run.steps, key=by_number)
    inbox = inbox if inbox is not None else Inbox(next_number=None)
    try:
        root = root_of(row, documents)
        execution = Execution(plan, row, root, environment, count=row.steps, later=None, inbox=inbox)
        add_all(execution, documents)
    except StoreCorrupt:
        return None  # A step may belong to one that is not here. If none does, who reads all finds that out.
    return _continued(execution) if put_unread(execution, run) else None


def _continued(execution: Execution) -> Execution:
    """Count what has ended, and let the rest move or wait: the steps are all in their places."""
    for step in execution.steps.values():
        if step.reported:
            _count_down_ended(step)
        elif step.blocks is not None and len(step.blocks) > limits.FOREACH_WHOLE:
            leave_of(execution, step)
    if not execution.is_ended:
        for step in list(execution.steps.values()):
            _continue(execution, step)
        for _ in range(execution.max_open_events - execution.open_events):
            if not (execution.held_events or execution.waiting_foreachs):
                break
            release_held_event(execution)
        if execution.made:
            execution.leave_made()
    execution.bounds.read_back(execution.count)
    execution.room.renew()
    return execution


def root_of(row: WorkflowRow, documents: Sequence[StepDocument]) -> StepRecord:
    """Return the root, with nothing but its names. Raises StoreCorrupt when it is not among the documents."""
    for document in documents:
        if document.container_id is None and document.id.startswith(row.id):
            return StepRecord(document.id, document.number, document.object_type, document.created_at_ms)
    raise StoreCorrupt(path=f"workflow {row.id}", reason="it has no root step" if documents else "it has no steps")


def _outside_first(documents: Sequence[StepDocument], root_id: str) -> tuple[list[StepDocument], list[StepDocument]]:
    """Return the steps whose containers and blocks are all among these, and the others: inside of a complete step."""
    outside: list[StepDocument] = []
    inside: list[StepDocument] = []
    known = {None, root_id}
    for document in documents:
        if document.container_id in known and document.block_id in known:
            outside.append(document)
            known.add(document.id)
        else:
            inside.append(document)
    return outside, inside


def add_all(execution: Execution, documents: Iterable[StepDocument]) -> None:
    """Put steps into their places; those around each come before it. Raises StoreCorrupt when they do not fit."""
    for document in documents:
        # A caller may have saved a step of its own under this workflow: the engine runs only the steps that it made.
        if document.id.startswith(execution.id):
            _add(execution, document)


def _add(execution: Execution, document: StepDocument) -> None:
    if _restore_bound(execution, document):
        return
    step = execution.root
    if document.id != step.id:
        step = StepRecord(document.id, document.number, document.object_type, document.created_at_ms)
        execution.steps[step.id] = step
    step.dirty = False
    step.revision = document.revision
    step.state = document.state
    step.params, step.returns = document.params, document.returns
    step.attempt, step.event_state = document.attempt, document.event_state
    step.foreach_index, step.foreach_value = document.foreach_index, document.foreach_value
    step.size = execution.bounds.count(document.params, document.returns, document.foreach_value)
    step.deadline_ms, step.retry = document.deadline_ms, document.retry
    step.reported = step.is_terminal
    if step.reported:
        step.error = document.error
    elif StepState.is_catching(step.state):
        step.caught = document.error
        execution.has_caught = True
    else:
        step.failed = document.error
    if document.container_id is None:
        step.facet = execution.plan.facet
        return
    step.container = _known(execution, document, document.container_id)
    if document.block_id is not None:
        step.block = _known(execution, document, document.block_id)
    if ObjectType.is_block(step.object_type):
        step.plan = block_plan(step, document)
        if step.state not in (StepState.CREATED, StepState.BLOCK_EXECUTION_BEGIN):
            execution.open_frame(step)
        if step.block is not None:
            foreach = step.block
            foreach.blocks = foreach.blocks or []
            foreach.blocks.append(step)
            foreach.blocks_open += 1
        else:
            owner = step.container
            owner.blocks = [*(owner.blocks or ()), step]
            owner.blocks_open += 1
        if step.plan.splits and step.block is None and step.frame is not None:
            step.blocks = []
        if step.plan.is_catch:
            execution.has_caught = True
        return
    if step.block is None:
        _place_mixin(step, document)
        if execution.later is not None:
            execution.later.note(step.id)
    else:
        _place(execution, step, document)
    if step.state == StepState.EVENT_TRANSMIT:
        execution.has_timers |= step.deadline_ms is not None
        if EventState.is_asked(step.event_state):
            execution.open_events += 1
        elif EventState.is_of_runtime(step.event_state):
            keep_wait(execution, step)


def _restore_bound(execution: Execution, document: StepDocument) -> bool:
    """Keep a complete step that only bound as a row in its block's frame; return whether it was such a step."""
    if execution.execution != 1:
        return False  # Such a row gets the id of the running generation: this one may be of another.
    if document.state != StepState.STATEMENT_COMPLETE or document.block_id is None:
        return False
    if document.object_type not in (ObjectType.VARIABLE_ASSIGNMENT, ObjectType.SCHEMA_INSTANTIATION):
        return False
    frame, statement = _find_statement(execution, document)
    if not statement.plain:
        return False
    execution.bounds.count(document.params, document.returns)
    frame.env[statement.index] = BoundStep(
        frame.block_ids,
        statement,
        document.number,
        document.revision,
        document.params,
        document.returns,
        document.created_at_ms,
    )
    frame.missing -= 1
    for index in statement.wakes:
        frame.waiting[index] -= 1
    return True


def _find_statement(execution: Execution, document: StepDocument) -> tuple[Frame, StatementPlan]:
    block = execution.steps.get(document.block_id or "")
    if block is None or block.plan is None or block.frame is None:
        raise StoreCorrupt(path=f"workflow {execution.id}", reason=f"step {document.id} is in no running block")
    by_id = block.plan.by_id
    if by_id is None:
        by_id = block.plan.by_id = {each.id: each for each in (*block.plan.statements, *block.plan.yields)}
    statement = by_id.get(document.statement_id or "")
    if statement is None:
        raise StoreCorrupt(
            path=f"workflow {execution.id}",
            reason=f"step {document.id} is statement {document.statement_id}, which its program does not have",
        )
    return block.frame, statement


def _place(execution: Execution, step: StepRecord, document: StepDocument) -> None:
    frame, statement = _find_statement(execution, document)
    step.statement, step.facet = statement, statement.callee
    frame.live += 1
    if statement.is_yield:
        frame.yields_made = True
    else:
        frame.env[statement.index] = step
        frame.missing -= 1


def _place_mixin(step: StepRecord, document: StepDocument) -> None:
    owner = step.container
    assert owner is not None
    step.mixin = mixin_of(owner, document.statement_id)
    if step.mixin is None:
        raise StoreCorrupt(
            path=f"workflow {document.workflow_id}",
            reason=f"step {document.id} is {document.statement_id} of {owner.id}, which its program does not have",
        )
    step.facet = step.mixin.facet
    owner.blocks_open += 1


def _known(execution: Execution, document: StepDocument, step_id: str) -> StepRecord:
    step = execution.steps.get(step_id)
    if step is None:
        raise StoreCorrupt(
            path=f"workflow {execution.id}", reason=f"step {document.id} belongs to {step_id}, which does not exist"
        )
    return step


def _count_down_ended(step: StepRecord) -> None:
    """Count an ended step where it was counted before, without waking other steps: _continue looks at the sums."""
    statement = step.statement
    if statement is not None:
        block = step.block
        assert block is not None
        frame = block.frame
        assert frame is not None
        frame.live -= 1
        if step.error is not None:
            block.failed = block.failed or step.error
        else:
            # Who can go on is asked when all have been counted.
            for index in statement.wakes:
                frame.waiting[index] -= 1
            if statement.is_yield:
                _capture(step)
        return
    waiting = step.block if step.block is not None else step.container
    if waiting is not None:
        waiting.blocks_open -= 1
        # For a step whose catch runs, the failed blocks are the reason for the catch.
        is_caught = waiting.caught is not None and not (step.plan is not None and step.plan.is_catch)
        if step.error is not None and not is_caught:
            waiting.failed = waiting.failed or step.error


def _capture(step: StepRecord) -> None:
    assert step.block is not None
    assert step.statement is not None
    if step.statement.yield_depth is None:
        return
    frame = step.block.frame
    for _ in range(step.statement.yield_depth):
        assert frame is not None
        frame = frame.parent
    assert frame is not None
    target = frame.owner
    if not target.is_terminal:
        if target.captured is None:
            target.captured = []
        target.captured.append(step)


def _continue(execution: Execution, step: StepRecord) -> None:
    """Queue a step that can move, or register its waits again."""
    if step.is_terminal:
        return
    if _awaits_script(step):
        _continue_script(execution, step)
    elif step.state == StepState.BLOCK_EXECUTION_BEGIN and step.blocks is None:
        _continue_source(execution, step)
    elif step.state == StepState.BLOCK_EXECUTION_BEGIN and step.plan is not None and step.plan.splits:
        # A large foreach that has some of its elements.
        execution.waiting_foreachs[step.id] = step
    elif step.state == StepState.CREATED and execution.execution == 1:
        # Made in an iteration that had no room to run it.
        execution.made.append(step)
    elif step.state not in _WAITING:
        execution.wake(step)
    elif step.state == StepState.EVENT_TRANSMIT:
        if not step.event_state:
            if step.facet is not None and step.facet.library is not None:
                execution.wake(step)
            else:
                hold(execution, step)
    else:
        if step.frame is not None and step.blocks is None and step.failed is None:
            _count_waits(step, step.frame)
        if can_continue(step):
            execution.wake(step)


def _awaits_script(step: StepRecord) -> bool:
    if step.plan is None:
        return step.state == StepState.FACET_SCRIPTS_BEGIN
    return step.plan.script is not None and step.state == StepState.BLOCK_EXECUTION_BEGIN


def _continue_script(execution: Execution, step: StepRecord) -> None:
    """Run the script again, or fail the step where scripts are not run: nothing of the script was stored."""
    if execution.runs_scripts:
        wait_for_script(execution, step)
    else:
        execution.wake(step)


def _continue_source(execution: Execution, step: StepRecord) -> None:
    """Continue a block in its first state: it is a foreach whose source is not ready yet."""
    assert step.plan is not None
    frame = execution.open_frame(step)
    if step.failed is None:
        try:
            for wait in step.plan.source_waits:
                if wait_for(step, frame, wait, None):
                    step.blocks_open += 1
        except InnerFailure as error:
            step.failed = error.record
    if can_continue(step):
        execution.wake(step)


def _count_waits(step: StepRecord, frame: Frame) -> None:
    """Let a running block wait again for what is not complete; it is going to fail when some of that has failed."""
    plan = step.plan
    assert plan is not None
    try:
        if not frame.yields_made:
            wait_for_yields(step, frame, plan)
        if plan.has_outer_waits:
            for statement in plan.statements:
                if frame.env[statement.index] is not None:
                    continue
                for wait in statement.outer_waits:
                    if not wait_for(step, frame, wait, statement.index):
                        frame.waiting[statement.index] -= 1
    except InnerFailure as error:
        step.failed = error.record
    for index, count in enumerate(frame.waiting):
        if count > 0 and frame.env[index] is not None:
            # It was made by another version of the program, which did not let it wait for that: not a second time.
            frame.waiting[index] = _MADE
    frame.ready = [index for index, count in enumerate(frame.waiting) if not count and frame.env[index] is None]
