"""The rows of a run beside the parts of another version of its program that they are rows of.

They are matched by the names that the rows' ids are made from: andThen blocks, cases and elements by their numbers,
steps and mixins by their names, yields by their places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar, cast

from afl.engine.errors import StoreCorrupt
from afl.engine.execution.generations import current_steps
from afl.engine.model.plan import BlockPlan, FacetPlan, MixinPlan, StatementPlan, WorkflowPlan
from afl.engine.model.store import StepDocument, WorkflowRow
from afl.engine.states import STEP_TRANSITIONS
from afl.engine.types import ObjectType

T = TypeVar("T")

#: What a row is an instance of: of these, the facet of the run itself is for its root.
Part: TypeAlias = FacetPlan | StatementPlan | MixinPlan | BlockPlan

#: How far a call is in each state.
PROGRESS: Final = {state: number for number, state in enumerate(STEP_TRANSITIONS)}
_END: Final = len(PROGRESS)


@dataclass(slots=True)
class Place:
    """A row beside its part of both versions; `now` is None where the new version has none, or none around it."""

    document: StepDocument
    path: str
    was: Part
    now: Part | None
    #: The row around it: a block for a statement, a case or an element, else a call; None for the root.
    around: Place | None
    #: The rows directly inside.
    inside: list[Place] = field(default_factory=list)

    @property
    def progress(self) -> int:
        """How far a call is; the end for one that has ended or handles its failure."""
        return PROGRESS.get(self.document.state, _END)


def places_of(was: WorkflowPlan, now: WorkflowPlan, row: WorkflowRow, documents: Sequence[StepDocument]) -> list[Place]:
    """Return the rows that count of a run of the plan `was`, each with its part of both versions.

    Raises StoreCorrupt for rows that are of no part of the version that the run has.
    """
    known: dict[str, Place] = {}
    for document in current_steps(documents, row.execution):
        if not document.id.startswith(row.id):
            continue  # A caller has saved a step of its own under this workflow.
        if document.container_id is None:
            place = Place(document, was.name, was.facet, now.facet, None)
        else:
            place = _place(document, known)
        known[document.id] = place
        if place.around is not None:
            place.around.inside.append(place)
    return list(known.values())


def _place(document: StepDocument, known: Mapping[str, Place]) -> Place:
    around = known[document.block_id or str(document.container_id)]
    name = document.statement_id
    if ObjectType.is_block(document.object_type):
        was, now = _blocks(around, document)
        return Place(document, _path_of_block(document, was, around), was, now, around)
    if not isinstance(around.was, BlockPlan):
        mixin = _known(_mixin(around.was, name), document)
        there = None if around.now is None else _mixin(around.now, name)
        return Place(document, f"{around.path}.{mixin.alias}", mixin, there, around)
    statement = _known(next((each for each in statements_of(around.was) if each.id == name), None), document)
    block = cast("BlockPlan | None", around.now)
    same = None if block is None else next((s for s in statements_of(block) if s.key == statement.key), None)
    return Place(document, f"{around.path}.{shown_name(statement)}", statement, same, around)


def _blocks(around: Place, document: StepDocument) -> tuple[BlockPlan, BlockPlan | None]:
    """Return the plans of a block, by the key that its id is made from."""
    name, whole = document.statement_id, around.was
    if not isinstance(whole, BlockPlan):
        calls = calling(whole), None if around.now is None else calling(around.now)
        was, now = (next((plan for plan in _blocks_of(call) if plan.name == name), None) for call in calls)
        return _known(was, document), now
    same = cast("BlockPlan | None", around.now)
    if not whole.cases:
        return whole, same
    was, now = (_case(plan, name) for plan in (whole, same))
    return _known(was, document), now


def _case(plan: BlockPlan | None, name: str | None) -> BlockPlan | None:
    cases = () if plan is None else plan.cases
    return next((case.block for case in cases if case.block.name == name), None)


def _blocks_of(call: StatementPlan | FacetPlan | None) -> Iterator[BlockPlan]:
    if call is not None:
        yield from call.blocks
        if call.catch is not None:
            yield call.catch


def _path_of_block(document: StepDocument, plan: BlockPlan, around: Place) -> str:
    if document.foreach_index is not None:
        return f"{around.path}[{document.foreach_index}]"
    return f"{around.path}.{plan.label}" if plan.label else around.path


def calling(part: Part) -> StatementPlan | FacetPlan | None:
    """Return what has the blocks of a call."""
    return part.facet if isinstance(part, MixinPlan) else None if isinstance(part, BlockPlan) else part


def facet_of(part: Part | None) -> FacetPlan | None:
    """Return the facet that a call is of; None for a block, and for a facet that only agents know."""
    if isinstance(part, StatementPlan):
        return part.callee
    if isinstance(part, MixinPlan):
        return part.facet
    return part if isinstance(part, FacetPlan) else None


def statements_of(block: BlockPlan) -> tuple[StatementPlan, ...]:
    """Return the statements of a block, and its yields."""
    return (*block.statements, *block.yields)


def shown_name(statement: StatementPlan) -> str:
    """Return the name of a statement in paths."""
    return "yield" if statement.is_yield else statement.name


def _mixin(owner: Part, name: str | None) -> MixinPlan | None:
    facet = facet_of(owner)
    return next((plan for plan in (facet.mixins if facet is not None else ()) if plan.name == name), None)


def _known(found: T | None, document: StepDocument) -> T:
    if found is None:
        reason = f"step {document.id} is {document.statement_id}, which its program does not have"
        raise StoreCorrupt(path=f"workflow {document.workflow_id}", reason=reason)
    return found
