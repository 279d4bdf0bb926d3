"""The engine's own records: one step, and one running block. Compact, slotted, and never handed out.

Public objects (StepDefinition and its kin) are views that documents.py makes of committed records.
Attribute maps are replaced, never changed in place: a committed snapshot may share them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from afl.engine.model.step_rows import Unread, UnreadStep
from afl.engine.states import EventState, StepState
from afl.engine.types import Value

if TYPE_CHECKING:
    from afl.engine.model.plan import BlockPlan, FacetPlan, MixinPlan, OuterWait, StatementPlan
    from afl.engine.model.step_rows import BlockIds, BoundStep, LateStep, RetryRecord, StepDocument
    from afl.engine.model.step_values import StepLookup
    from afl.engine.model.store import ErrorRecord

_NOTHING: Mapping[str, Value] = {}


class LeftYield(NamedTuple):
    """What is kept of a yield whose step has left memory: its place in the merge, and its values."""

    order: tuple[int, ...]
    statement: "StatementPlan"  # noqa: UP037 - in quotes it is not looked up where the class is made, compiled code included
    params: Mapping[str, Value]


class Admission(Protocol):
    """The limits of a run, as its frames see them."""

    def admit(self, params: Mapping[str, object], returns: Mapping[str, object], counted: int = 0) -> int:
        """Count what a step is given, and return its bytes; raises what RunBounds.admit raises."""


class StepKind(StrEnum):
    """The kind of step of a record."""

    #: The workflow itself.
    ROOT = "root"
    #: A statement or yield of a block.
    STATEMENT = "statement"
    #: A mixin with an alias, of its container's signature.
    MIXIN = "mixin"
    #: A block of its container, a catch's too; or in another block an element of a foreach, or a case of a `when`.
    BLOCK = "block"


_CALLS = frozenset({"facet", "caught", "captured"})
_EVENT = frozenset({"attempt", "event_state", "answered_by", "deadline_ms", "retry"})

#: The slots that the records of each kind use, besides those that all kinds do. The others keep what they begin with.
KIND_SLOTS: Final[Mapping[StepKind, frozenset[str]]] = {
    StepKind.ROOT: _CALLS,
    StepKind.STATEMENT: _CALLS | _EVENT | {"statement", "container", "block"},
    StepKind.MIXIN: _CALLS | _EVENT | {"mixin", "container"},
    StepKind.BLOCK: frozenset({"plan", "frame", "container", "block", "foreach_index", "foreach_value"}),
}


class StepRecord:
    """One step, of any kind: `KIND_SLOTS` says which slots a kind uses."""

    __slots__ = (
        "answered_by",
        "attempt",
        "block",
        "blocks",
        "blocks_open",
        "captured",
        "caught",
        "container",
        "created_at_ms",
        "deadline_ms",
        "dirty",
        "error",
        "event_state",
        "facet",
        "failed",
        "foreach_index",
        "foreach_value",
        "frame",
        "id",
        "mixin",
        "number",
        "object_type",
        "params",
        "plan",
        "queued",
        "reported",
        "retry",
        "returns",
        "revision",
        "size",
        "state",
        "statement",
        "written_params",
    )

    def __init__(self, step_id: str, number: int, object_type: str, created_at_ms: int = 0) -> None:
        self.id = step_id
        self.number = number
        #: The workflow's revision that last wrote this step; 0: not written yet.
        self.revision = 0
        #: The parameters with which this process last wrote the step, as a plain one; None: it has not.
        self.written_params: Mapping[str, Value] | None = None
        self.object_type = object_type
        self.state: str = StepState.CREATED
        #: Its work: the statement (None for blocks and the root) and the facet it calls (None for blocks).
        self.statement: StatementPlan | None = None
        self.facet: FacetPlan | None = None
        #: For a mixin of its container's signature: the mixin.
        self.mixin: MixinPlan | None = None
        #: For blocks: the plan of the block.
        self.plan: BlockPlan | None = None
        #: The step whose body this is part of, and the block that this is a statement (or foreach instance) of.
        self.container: StepRecord | None = None
        self.block: StepRecord | None = None
        self.params: Mapping[str, Value] = _NOTHING
        self.returns: Mapping[str, Value] = _NOTHING
        #: Bytes of its attributes, as the run's bounds have counted them.
        self.size = 0
        self.attempt = 0
        self.event_state = ""
        #: The consumer group that answered, as far as this process has seen it: it identifies duplicates of a second
        #: one.
        self.answered_by: str | None = None
        self.error: ErrorRecord | None = None
        self.foreach_index: int | None = None
        self.foreach_value: Value = None
        self.created_at_ms = created_at_ms
        self.deadline_ms: int | None = None
        #: For a step of which an attempt has failed, and that tries again.
        self.retry: RetryRecord | None = None
        #: A block's running state. For a foreach block `blocks` holds its instances instead.
        self.frame: Frame | None = None
        #: The block steps that this step (or foreach) runs, and how many have not ended. Complete elements of a large
        #: foreach leave it (execution/leaving.py).
        self.blocks: list[StepRecord] | None = None
        self.blocks_open = 0
        #: The first error of a statement (for blocks), block (for steps) or instance (for foreach blocks).
        self.failed: ErrorRecord | None = None
        #: The error for which the catch runs, kept while and after it runs: a catch runs once.
        self.caught: ErrorRecord | None = None
        #: Yields addressed to this step, in order of completion; sorted when captured.
        self.captured: list[StepRecord] | None = None
        #: Whether it is in the queue of the next iteration; whether it has changed since the last commit, as a new step
        #: has.
        self.queued = False
        self.dirty = True
        #: Whether its end was announced to waiting steps: until then they do not see it.
        self.reported = False

    @property
    def kind(self) -> StepKind:
        if self.plan is not None:
            return StepKind.BLOCK
        if self.statement is not None:
            return StepKind.STATEMENT
        return StepKind.ROOT if self.mixin is None else StepKind.MIXIN

    @property
    def is_terminal(self) -> bool:
        return self.state in (StepState.STATEMENT_COMPLETE, StepState.STATEMENT_ERROR)

    @property
    def is_complete(self) -> bool:
        return self.state == StepState.STATEMENT_COMPLETE

    @property
    def is_waiting(self) -> bool:
        """Return whether it waits for an answer: it has sent an event, or a person may answer in place of the runtime.

        Between two attempts it does not.
        """
        return (
            self.state == StepState.EVENT_TRANSMIT
            and bool(self.event_state)
            and self.event_state != EventState.RETRYING
        )

    @property
    def facet_name(self) -> str:
        """The name of the facet it calls, empty for blocks."""
        calling = self.statement if self.statement is not None else self.mixin
        return calling.facet_name if calling is not None else self.facet.name if self.facet is not None else ""

    def __repr__(self) -> str:
        return f"StepRecord({self.id!r}, {self.object_type}, {self.state})"


def sibling_frame(frame: Frame, index: int) -> Frame:
    """Return the frame of an earlier andThen block, by `index`, of the declaration that this frame belongs to."""
    blocks = frame.owner.blocks
    assert blocks is not None
    sibling = blocks[index].frame
    assert sibling is not None
    return sibling


def awaited_frame(frame: Frame, wait: OuterWait) -> Frame:
    """Return the frame, outwards from a block's own, that holds the awaited step."""
    outer = frame
    for _ in range(wait.depth):
        assert outer.parent is not None
        outer = outer.parent
    return outer if wait.sibling is None else sibling_frame(outer, wait.sibling)


class Frame:
    """A running block: the steps of its statements so far, and the waits of the others."""

    __slots__ = (
        "block_ids",
        "bounds",
        "env",
        "live",
        "lookup",
        "missing",
        "owner",
        "parent",
        "read",
        "ready",
        "sorted",
        "step",
        "value",
        "waiters",
        "waiting",
        "yields_made",
    )

    def __init__(self, step: StepRecord, owner: StepRecord, parent: Frame | None, plan: BlockPlan) -> None:
        #: The block step itself.
        self.step = step
        #: The step whose body this is: the meaning of `$`, together with `parent` for a statement's body.
        self.owner = owner
        #: The frame that `owner` is a statement of, when this is a statement's own body; None for a declaration's.
        self.parent = parent
        #: The limits of the run; set when the frame is opened.
        self.bounds: Admission
        #: Finds steps that are used as values; unset where the program does that nowhere.
        self.lookup: StepLookup
        #: The loop variable's value in a foreach instance.
        self.value: Value = step.foreach_value
        #: The common fields of the rows of its statements' steps; the code that opens the frame sets them.
        self.block_ids: BlockIds
        #: Returns a step that is marked as unread, by its id; set where there are such.
        self.read: Callable[[str], StepDocument]
        #: The step of each statement, once created.
        self.env: list[StepRecord | BoundStep | LateStep | Unread | None] = [None] * len(plan.statements)
        #: For each statement: the number of steps it still waits for.
        self.waiting: list[int] = list(plan.wait_counts)
        #: Statements whose last dependency has completed, to be created when the block runs next.
        self.ready: list[int] = []
        #: The number of them left over from an iteration without room, in order.
        self.sorted = 0
        #: Statements not created yet, and created steps (yields too) that have not ended.
        self.missing = len(plan.statements)
        self.live = 0
        self.yields_made = False
        #: The waits outside for a statement of this block: nested frames, with the statement there (None: the foreach
        #: source of the nested block). Filled only where a nested body reads an outer step.
        self.waiters: dict[int, list[tuple[StepRecord, int | None]]] | None = None

    def at(self, index: int) -> StepRecord | BoundStep | LateStep | None:
        """Return the step of a statement, also one that is marked as unread; None: it is not created yet."""
        step = self.env[index]
        if type(step) is Unread:
            plan = self.step.plan
            assert plan is not None
            step = self.env[index] = UnreadStep(self.read, self.block_ids, plan.statements[index])
        return step  # type: ignore[return-value]  # the mark is of that type
