"""Loading a large run without what is inside of its complete steps: it takes the memory of what is still under way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from afl.core.ids import derived_id
from afl.engine.errors import StoreCorrupt
from afl.engine.execution.execution import Execution
from afl.engine.execution.inbox import Inbox
from afl.engine.execution.leaving import note_left
from afl.engine.execution.mixins import mixin_step_id
from afl.engine.execution.ports import RunEnvironment
from afl.engine.execution.restore import add_all, restore, root_of
from afl.engine.execution.run_bounds import RunBounds
from afl.engine.execution.stored_steps import by_number
from afl.engine.model.plan import BlockPlan, WorkflowPlan
from afl.engine.model.records import StepRecord
from afl.engine.model.store import OpenRun, StepDocument, WorkflowRow
from afl.engine.types import ObjectType

#: Steps from which on it is worth the look at each step that is open. Below, all steps of a run are read together.
LARGE: Final = 20_000

_LoadStep = Callable[[str], StepDocument | None]


def is_loaded_so(plan: WorkflowPlan) -> bool:
    """Say whether a large run of the workflow may be loaded so.

    What is inside of a complete step is not wanted then, but for what the blocks of an open one have yielded to it.
    """
    facet = plan.facet
    blocks = list(facet.blocks if facet.catch is None else (*facet.blocks, facet.catch))
    for mixin in facet.mixins:
        blocks += () if mixin.facet is None else mixin.facet.blocks
    return not facet.reads_steps and _yields_stay(tuple(blocks), set())


def _yields_stay(blocks: tuple[BlockPlan, ...], seen: set[int]) -> bool:
    """Say whether each yield of these blocks, and of all inside of them, is for the step that its block is of."""
    for block in blocks:
        if id(block) in seen:
            continue
        seen.add(id(block))
        if block.script is not None or any(each.yield_depth for each in block.yields):
            return False
        inner = [case.block for case in block.cases]
        for statement in block.statements:
            inner += statement.blocks if statement.catch is None else (*statement.blocks, statement.catch)
            for mixin in () if statement.callee is None else statement.callee.mixins:
                inner += () if mixin.facet is None else mixin.facet.blocks
        if not _yields_stay(tuple(inner), seen):
            return False
    return True


def restore_large(
    plan: WorkflowPlan, row: WorkflowRow, run: OpenRun, environment: RunEnvironment, inbox: Inbox | None = None
) -> Execution | None:
    """Rebuild the execution from its open steps, and from the complete ones that these still ask for.

    These are the steps of open blocks, and of complete blocks of open steps. Complete elements of a foreach are not
    read: they have left memory (leaving.py). None: something has failed, or the rows are of several moments; the run
    has to be read as a whole. `environment` is of no further use then.
    """
    load = environment.load_step
    if load is None or row.execution != 1 or row.steps != len(run.steps) + run.complete:
        return None
    try:
        documents = _needed(plan, row, run, environment, load)
        if documents is None:
            return None
        execution = restore(plan, row, documents, environment, inbox)
        for step in [each for each in execution.steps.values() if _is_foreach(each)]:
            unread = _unread(execution, step, load)
            if unread and not note_left(execution, step, unread):
                return None
    except StoreCorrupt:
        return None  # Who reads all finds out what is wrong.
    execution.count = row.steps
    execution.bounds.read_back(row.steps)
    return execution


def _needed(
    plan: WorkflowPlan, row: WorkflowRow, run: OpenRun, environment: RunEnvironment, load: _LoadStep
) -> list[StepDocument] | None:
    """Return the documents that the execution is made of, in order of creation; None: it has to be read as a whole.

    Raises StoreCorrupt.
    """
    documents = sorted(run.steps, key=by_number)
    if any(document.error is not None for document in documents):
        return None
    known = {document.id for document in documents}
    scratch = RunEnvironment(environment.dispatch, RunBounds(), load_step=load)
    # In a run of its own: which steps there are is known when those around them are in their places.
    found = Execution(plan, row, root_of(row, documents), scratch, count=row.steps, inbox=Inbox(next_number=None))
    add_all(found, documents)
    asked = list(found.steps.values())
    while asked:
        step = asked.pop()
        missing = [step_id for step_id in _asked_of(found, step) if step_id not in known]
        more = [document for step_id in missing if (document := load(step_id)) is not None]
        for document in more:
            if document.error is not None or document.revision > row.revision or document.workflow_id != row.id:
                return None
            known.add(document.id)
        add_all(found, more)
        documents += more
        asked += [found.steps[each.id] for each in more if _is_block_of_open(found, each)]
    documents.sort(key=by_number)
    return documents


def _is_block_of_open(found: Execution, document: StepDocument) -> bool:
    """Say whether a complete step is a block, whose yields its owner has not taken yet."""
    return ObjectType.is_block(document.object_type) and document.id in found.steps


def _is_foreach(step: StepRecord) -> bool:
    return step.plan is not None and step.plan.splits and not step.plan.cases and step.block is None


def _asked_of(execution: Execution, step: StepRecord) -> Iterator[str]:
    """Yield the ids that the steps directly inside of a step have, but for the elements of a foreach."""
    plan = step.plan
    if plan is None:
        calling = step.statement if step.statement is not None else step.facet
        if calling is not None and not step.is_terminal:
            yield from (derived_id(execution.id, step.id, each.name) for each in calling.blocks)
            mixins = step.facet.mixins if step.facet is not None else ()
            yield from (mixin_step_id(execution.id, step.id, each) for each in mixins)
    elif plan.cases and step.block is None:
        yield from (derived_id(execution.id, step.id, each.block.name) for each in plan.cases)
    elif step.frame is not None and not _is_foreach(step):
        yield from (step.frame.block_ids.step_id(each.key) for each in (*plan.statements, *plan.yields))


def _unread(execution: Execution, foreach: StepRecord, load: _LoadStep) -> list[int]:
    """Return the indices of the elements of a foreach that were made, and are not here: they are complete."""
    here = {each.foreach_index for each in foreach.blocks or ()}

    def is_made(index: int) -> bool:
        return index in here or load(derived_id(execution.id, foreach.id, str(index))) is not None

    # They were made in order, and are never deleted: the first that is missing is found by halving.
    low = max((index for index in here if index is not None), default=-1)
    high = max(1, 2 * low)
    while is_made(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if is_made(middle):
            low = middle
        else:
            high = middle
    return [index for index in range(low + 1) if index not in here]
