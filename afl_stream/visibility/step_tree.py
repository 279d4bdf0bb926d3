"""A run's steps as a tree of calls, made of its rows alone, without the engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from afl.engine.model.plan import BlockPlan, WorkflowPlan
from afl.engine.model.store import CANCELLED, ENDED_STATUSES, PAUSED, StepDocument, WorkflowRow
from afl.engine.states import EventState, StepState
from afl.engine.types import ObjectType

_SYSTEM = frozenset({ObjectType.SYS_LOG, ObjectType.SYS_ASSERT})
#: How a block is called that has failed by itself: the source of its foreach, a condition.
_BLOCKS: Final = {ObjectType.AND_MAP: "foreach", ObjectType.AND_MATCH: "when"}
#: How a step waits that no agent is asked for, by the state of its event.
_WAITS = {"": "waits for its turn", "event.Waiting": "waits", "event.Retrying": "waits to try again"}
#: The statement of a step's catch.
_CATCH: Final = "catch"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtFailure:
    """A failure that a step's catch has run for."""

    type: str
    message: str


@dataclass(slots=True, kw_only=True)
class TreeNode:
    """One call, and the calls of its body.

    `label` is `name = Facet`, or `sys.log`, behind its place in a body: the element's index in a foreach, the case of a
    `when`, the catch. Yields and blocks are nodes when they failed.
    """

    step: StepDocument
    label: str
    children: list[TreeNode] = field(default_factory=list)
    #: Why it failed before its catch ran.
    caught: CaughtFailure | None = None
    #: It has failed, and a step around it has caught that.
    is_caught: bool = False
    #: It belongs to the catch of its step.
    in_catch: bool = False

    @property
    def is_waiting(self) -> bool:
        """Return whether its event is published and unanswered."""
        return self.step.state == StepState.EVENT_TRANSMIT and not EventState.is_terminal(self.step.event_state)

    @property
    def is_failed(self) -> bool:
        return self.step.state == StepState.STATEMENT_ERROR

    def walk(self, depth: int = 0) -> Iterator[tuple[int, TreeNode]]:
        """Return the node and all below it, in order of creation, each with its depth."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


def statement_names(plan: WorkflowPlan | None) -> dict[str, str]:
    """Return statement ids and the names that the program gives them."""
    names: dict[str, str] = {}
    if plan is not None:
        for facet in plan.facets:
            _name_all(facet.blocks, facet.catch, names)
    return names


def step_tree(documents: Sequence[StepDocument], names: Mapping[str, str]) -> TreeNode | None:
    """Return the tree below the root step, or None without a root. Blocks and yields are nodes if they failed.

    `documents` are in order of creation, so that a step comes after its containers.
    """
    root: TreeNode | None = None
    nodes: dict[str, TreeNode] = {}
    #: Each block's owner, and the block's role there.
    blocks: dict[str, tuple[TreeNode, str]] = {}
    for step in documents:
        if step.container_id is None and step.block_id is None:
            root = root or TreeNode(step=step, label=step.facet_name)
            nodes[step.id] = root
            continue
        owner, place = blocks.get(step.block_id or "", (nodes.get(step.container_id or ""), ""))
        if owner is None:
            continue
        if ObjectType.is_block(step.object_type):
            place += _place_of(step)
            blocks[step.id] = (owner, place)
            if step.statement_id == _CATCH and "error_type" in step.params:
                failed = step.params
                owner.caught = CaughtFailure(type=str(failed["error_type"]), message=str(failed.get("error", "")))
            if step.error is None or step.error.step_id != step.id:
                continue
            label = _BLOCKS.get(step.object_type, "andThen")
        elif step.object_type == ObjectType.YIELD_ASSIGNMENT:
            if step.state != StepState.STATEMENT_ERROR:
                continue
            label = f"yield {step.facet_name.rpartition('.')[2]}"
        elif step.object_type in _SYSTEM:
            label = step.facet_name
        else:
            name = names.get(step.statement_id or "", (step.statement_id or "?").removeprefix("mixin-"))
            label = f"{name} = {step.facet_name.rpartition('.')[2]}"
        node = TreeNode(step=step, label=place + label, in_catch=place.startswith(_CATCH))
        owner.children.append(node)
        nodes[step.id] = node
    if root is not None:
        _mark_caught(root)
    return root


def _mark_caught(owner: TreeNode) -> None:
    """Mark the failures below a step that it, or one around it, has caught."""
    for node in owner.children:
        if node.is_failed:
            caught_here = owner.caught is not None and not node.in_catch
            node.is_caught = caught_here or (owner.is_failed and owner.is_caught)
        _mark_caught(node)


def _place_of(block: StepDocument) -> str:
    if block.foreach_index is not None:
        return f"[{block.foreach_index}] "
    kind, _, number = (block.statement_id or "").partition("-")
    return {"case": f"case[{number}] ", "catch": "catch "}.get(kind, "")


def _name_all(blocks: Iterable[BlockPlan], catch: BlockPlan | None, names: dict[str, str]) -> None:
    for block in (*blocks, *((catch,) if catch is not None else ())):
        _name_all([case.block for case in block.cases], None, names)
        for statement in block.statements:
            if statement.id not in names:
                names[statement.id] = statement.name
                _name_all(statement.blocks, statement.catch, names)


def step_status(node: TreeNode, row: WorkflowRow) -> str:
    """Return a step's status in words. In a run that has ended no step runs or waits any more."""
    state = node.step.state
    if row.status == CANCELLED and (state != StepState.STATEMENT_COMPLETE and not _failed_by_itself(node)):
        return "cancelled"
    if node.is_failed:
        return "failed, caught" if node.is_caught else "failed"
    if state == StepState.STATEMENT_COMPLETE:
        return "complete"
    if row.status in ENDED_STATUSES:
        return "stopped"
    if node.is_waiting:
        return _WAITS.get(node.step.event_state, "waits for an answer")
    return "waits for its steps" if row.status == PAUSED else "runs"


def _failed_by_itself(node: TreeNode) -> bool:
    """Return whether a step failed before its run was cancelled: that fails the root alone."""
    return node.is_failed and node.step.container_id is not None
