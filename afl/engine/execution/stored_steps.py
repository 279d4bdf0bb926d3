"""Complete steps that are left in their store, or as it has them, when a workflow is loaded: read when someone asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from afl.engine.execution.execution import Execution
from afl.engine.execution.leaving import left_step
from afl.engine.model.plan import BlockPlan, StatementPlan, WorkflowPlan
from afl.engine.model.records import Frame, StepRecord
from afl.engine.model.step_rows import UNREAD, LateStep, OpenRun, StoredStep, Unread, UnreadStep
from afl.engine.model.store import StepDocument

#: Numbers that are kept of the progress of one block, about.
_MOST_PROGRESS: Final = 100_000


def split(rows: Sequence[StepDocument | StoredStep], *, read_all: bool) -> tuple[list[StepDocument], list[StoredStep]]:
    """Return the steps that have to be read, in order of creation, and those that perhaps need not be.

    With `read_all` there are none of the latter.
    """
    documents: list[StepDocument] = []
    stored: list[StoredStep] = []
    for row in rows:
        if type(row) is StoredStep:
            if read_all or not row.block:
                documents.append(row.document())
            else:
                stored.append(row)
        else:
            documents.append(row)  # type: ignore[arg-type]  # it is one or the other
    documents.sort(key=by_number)
    return documents, stored


def by_number(document: StepDocument) -> int:
    """Return the key that sorts steps by their creation."""
    return document.number


def put_left(execution: Execution, stored: Sequence[StoredStep]) -> list[StepDocument]:
    """Put complete steps, as they are, into the frames of their blocks; return those that have to be read.

    Those left are complete steps without a body of their own, of a block that is still running: what is left of them
    are their attributes.
    """
    keep = len(execution.id)
    running = {
        step.id[keep:].encode(): (step.frame, _leavable(step.plan))
        for step in execution.steps.values()
        if step.frame is not None and step.plan is not None and step.blocks is None and not step.is_terminal
    }
    left: list[StoredStep] = []
    others: list[StepDocument] = []
    size = 0
    for step in stored:
        found = running.get(step.block)
        statement = None if found is None else found[1].get(step.statement_id)
        if found is None or statement is None:
            others.append(step.document())
            continue
        frame = found[0]
        step.statement = statement
        left.append(step)
        frame.env[statement.index] = step
        frame.missing -= 1
        waiting = frame.waiting
        for index in statement.wakes:
            waiting[index] -= 1
        change = step.change
        size += len(step.content) if change is None else len(step.content) + len(change)
    if left:
        execution.bounds.estimate(left, size)
    return others


def _leavable(block: BlockPlan) -> dict[bytes, StatementPlan]:
    statements = block.leavable
    if statements is None:
        statements = block.leavable = {each.id.encode(): each for each in block.statements if _may_be_left(each)}
    return statements


def _may_be_left(statement: StatementPlan) -> bool:
    """Say whether only the attributes of the statement's complete step are ever wanted."""
    callee = statement.callee
    has_more = statement.blocks or statement.catch or statement.is_value or statement.is_yield
    return not has_more and not (callee is not None and callee.mixins)


def is_flat(plan: WorkflowPlan) -> bool:
    """Say whether a run of the workflow may be continued without its complete steps: none has others inside of it."""
    facet = plan.facet
    return not facet.mixins and all(_flatness(block) for block in facet.blocks)


def _flatness(block: BlockPlan) -> bool:
    """Return whether the block is flat. The first call finds out, and the block keeps it."""
    if block.is_flat is None:
        is_split = block.splits or block.cases or block.script or block.source or block.yield_waits
        block.is_flat = not (is_split or block.has_outer_waits) and len(_leavable(block)) == len(block.statements)
    return block.is_flat


def put_unread(execution: Execution, run: OpenRun) -> bool:
    """Put complete steps that were not read into the frames of the running blocks; False: they have to be read.

    Nobody says which they are. The run has come to rest and nothing has failed, so a statement was made as soon as all
    that it waits for was complete; one that was made, and has no step that is open, is complete. If there are as many
    of these as there are complete steps, there are no others: steps of another version of the program, say, under which
    a statement waited for less.
    """
    count = 0
    unread = _UnreadSteps()
    for block in execution.steps.values():
        plan, frame = block.plan, block.frame
        if plan is None or frame is None:
            continue
        if not _flatness(plan):
            return False
        made = [(index, step) for index, step in enumerate(frame.env) if step is not None]
        marks, waiting, complete = _progress(plan, tuple([index for index, _ in made]))
        unread.places.append((frame, marks))
        frame.env, frame.waiting, frame.read = [*marks], [*waiting], run.read
        for index, step in made:
            frame.env[index] = step
        frame.missing -= complete
        count += complete
    if count != run.complete:
        return False
    execution.bounds.estimate(unread, run.size)
    return True


def _progress(block: BlockPlan, made: tuple[int, ...]) -> tuple[list[Unread | None], list[int], int]:
    """Return what the block keeps of its progress when these have open steps and no further one can be made."""
    found = block.progress.get(made)
    if found is None:
        marks: list[Unread | None] = [None] * len(block.statements)
        waiting, reached, passed = list(block.wait_counts), list(block.first), frozenset(made)
        while reached:
            index = reached.pop()
            if index in passed:
                continue
            marks[index] = UNREAD
            for woken in block.statements[index].wakes:
                waiting[woken] -= 1
                if not waiting[woken]:
                    reached.append(woken)
        if len(block.progress) * len(waiting) >= _MOST_PROGRESS:
            block.progress.clear()
        found = block.progress[made] = (marks, waiting, len(marks) - marks.count(None))
    return found


class _UnreadSteps:
    """The steps of a run that were not read, each with what reads it."""

    def __init__(self) -> None:
        #: Frames, each with the marks that it had at first.
        self.places: list[tuple[Frame, list[Unread | None]]] = []

    def __iter__(self) -> Iterator[LateStep]:
        for frame, marks in self.places:
            plan = frame.step.plan
            assert plan is not None
            for statement, mark in zip(plan.statements, marks, strict=True):
                if mark is not None:
                    step = frame.at(statement.index)
                    if type(step) is UnreadStep:
                        yield step
                    else:
                        # It has got a record meanwhile.
                        yield UnreadStep(frame.read, frame.block_ids, statement)


def find_step(execution: Execution, step_id: str) -> StepRecord | None:
    """Return a step of the execution, also one that was left in its store. Raises StoreCorrupt and StoreUnavailable."""
    step = execution.steps.get(step_id)
    if step is not None:
        return step
    stored = execution.bounds.unread(step_id)
    return left_step(execution, step_id) if stored is None else _record(execution, stored)


def _record(execution: Execution, stored: LateStep) -> StepRecord | None:
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
