"""A run's steps as a tree of calls, made of its rows alone: the engine is not needed to look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from afl.runtime.persistence import StepDocument
from afl.runtime.plan import BlockPlan, WorkflowPlan
from afl.runtime.states import EventState, StepState
from afl.runtime.types import ObjectType

_SYSTEM = frozenset({ObjectType.SYS_LOG, ObjectType.SYS_ASSERT})


@dataclass(slots=True, kw_only=True)
class TreeNode:
    """One call, and the calls of its body. `label` is `name = Facet`, or `sys.log`, behind where it stands in a body:
    the element's index in a foreach, the case of a `when`, the catch."""

    step: StepDocument
    label: str
    children: list[TreeNode] = field(default_factory=list)

    @property
    def is_waiting(self) -> bool:
        """Whether its event is out and unanswered."""
        return self.step.state == StepState.EVENT_TRANSMIT and not EventState.is_terminal(self.step.event_state)

    @property
    def is_failed(self) -> bool:
        return self.step.state == StepState.STATEMENT_ERROR

    def walk(self, depth: int = 0) -> Iterator[tuple[int, TreeNode]]:
        """This node and all below it, in order of creation, each with its depth."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


def statement_names(plan: WorkflowPlan | None) -> dict[str, str]:
    """Statement ids and the names that the program gives them."""
    names: dict[str, str] = {}
    if plan is not None:
        for facet in plan.facets:
            _name_all(facet.blocks, facet.catch, names)
    return names


def step_tree(documents: Sequence[StepDocument], names: Mapping[str, str]) -> TreeNode | None:
    """The tree below the root step; blocks and yields are no nodes. None without a root.

    `documents` are in order of creation, so that whatever a step stands in comes before it.
    """
    root: TreeNode | None = None
    nodes: dict[str, TreeNode] = {}
    #: Each block's owner, and what it is in there.
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
            blocks[step.id] = (owner, place + _place_of(step))
        elif step.object_type != ObjectType.YIELD_ASSIGNMENT:
            name = names.get(step.statement_id or "", (step.statement_id or "?").removeprefix("mixin-"))
            called = f"{name} = {step.facet_name.rpartition('.')[2]}"
            node = TreeNode(step=step, label=place + (step.facet_name if step.object_type in _SYSTEM else called))
            owner.children.append(node)
            nodes[step.id] = node
    return root


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
