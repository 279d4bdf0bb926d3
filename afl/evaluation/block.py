"""The progress of a block: which of its statements have steps, and what those steps wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from afl.engine.states import StepState
from afl.engine.types import ObjectType
from afl.stores.public.step import StepDefinition


@dataclass
class StatementDefinition:
    """A statement of a block: its callee, its argument nodes, and the statements that it needs first."""

    id: str
    name: str
    object_type: str
    facet_name: str
    dependencies: set[str] = field(default_factory=set)
    args: Sequence[Mapping[str, object]] = field(default_factory=list)
    is_yield: bool = False


@dataclass
class StepAnalysis:
    """The statements of a block sorted by the progress of their steps. Each step is in at most one list."""

    block: StepDefinition
    statements: Sequence[StatementDefinition]
    missing: list[StatementDefinition] = field(default_factory=list)
    steps: list[StepDefinition] = field(default_factory=list)
    completed: list[StepDefinition] = field(default_factory=list)
    requesting_push: list[StepDefinition] = field(default_factory=list)
    requesting_transition: list[StepDefinition] = field(default_factory=list)
    pending_event: list[StepDefinition] = field(default_factory=list)
    pending_mixin: list[StepDefinition] = field(default_factory=list)
    pending_blocks: list[StepDefinition] = field(default_factory=list)
    done: bool = False
    errored: list[StepDefinition] = field(default_factory=list)

    @classmethod
    def load(
        cls, block: StepDefinition, statements: Sequence[StatementDefinition], steps: Sequence[StepDefinition]
    ) -> StepAnalysis:
        """Sort the steps of a block. Steps of other statements are left out."""
        analysis = cls(block, statements)
        by_statement = {step.statement_id: step for step in steps}
        for statement in statements:
            step = by_statement.get(statement.id)  # type: ignore[call-overload]  # ids are plain text in programs
            if step is None:
                analysis.missing.append(statement)
            else:
                analysis.steps.append(step)
                analysis._sort(step)
        analysis.done = len(analysis.completed) == len(statements)
        return analysis

    def _sort(self, step: StepDefinition) -> None:
        if step.is_complete:
            self.completed.append(step)
        elif step.is_error:
            self.errored.append(step)
        elif step.transition.is_requesting_push:
            self.requesting_push.append(step)
        elif step.is_requesting_state_change:
            self.requesting_transition.append(step)
        elif step.state == StepState.EVENT_TRANSMIT:
            self.pending_event.append(step)
        elif step.state == StepState.MIXIN_BLOCKS_CONTINUE:
            self.pending_mixin.append(step)
        elif step.state in (StepState.BLOCK_EXECUTION_CONTINUE, StepState.STATEMENT_BLOCKS_CONTINUE):
            self.pending_blocks.append(step)

    def can_be_created(self) -> Sequence[StatementDefinition]:
        """Return the statements without a step that may get one now.

        Statements that they need are complete; yields also wait for every other statement of the block, and nothing
        starts in a block that has failed.
        """
        if self.errored:
            return []
        completed = {str(step.statement_id) for step in self.completed}
        others_complete = all(statement.id in completed for statement in self.statements if not statement.is_yield)
        return [
            statement
            for statement in self.missing
            if statement.dependencies <= completed and (others_complete or not statement.is_yield)
        ]

    def has_pending_work(self) -> bool:
        """Say whether a step can continue by itself, or a new one can be created."""
        return bool(self.requesting_push or self.requesting_transition or self.can_be_created())

    def is_blocked(self) -> bool:
        """Say whether the block is unfinished and waits for something outside it."""
        return not self.done and not self.has_pending_work()

    @property
    def completion_progress(self) -> tuple[int, int]:
        """Return how many statements are complete, and how many there are."""
        return len(self.completed), len(self.statements)


@dataclass
class BlockAnalysis:
    """The blocks of a step sorted by their progress."""

    step: StepDefinition
    blocks: Sequence[StepDefinition]
    completed: list[StepDefinition] = field(default_factory=list)
    pending: list[StepDefinition] = field(default_factory=list)
    done: bool = False
    errored: list[StepDefinition] = field(default_factory=list)

    @classmethod
    def load(cls, step: StepDefinition, blocks: Sequence[StepDefinition], mixins: bool = False) -> BlockAnalysis:
        """Sort a step's blocks: those of its mixins, or the others. A step without blocks is done.

        A mixin here is a step of its own, or a block marked as a facet's; the blocks inside a mixin's step belong to
        that step.
        """

        def is_of_mixin(block: StepDefinition) -> bool:
            if block.object_type == ObjectType.FACET:
                return True
            return block.container_type == ObjectType.FACET and step.object_type != ObjectType.FACET

        chosen = [block for block in blocks if is_of_mixin(block) is mixins]
        analysis = cls(step, chosen)
        for block in chosen:
            if block.is_complete:
                analysis.completed.append(block)
            elif block.is_error:
                analysis.errored.append(block)
            else:
                analysis.pending.append(block)
        analysis.done = not analysis.pending and not analysis.errored
        return analysis

    @property
    def completion_progress(self) -> tuple[int, int]:
        """Return how many blocks are complete, and how many there are."""
        return len(self.completed), len(self.blocks)
