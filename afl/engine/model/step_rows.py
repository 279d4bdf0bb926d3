"""One step as a store keeps it: a document, or for a step that only binds, a compact form until it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeAlias

from afl.core.ids import DIGEST_BYTES
from afl.core.row_maker import row_maker
from afl.engine.states import StepState
from afl.engine.types import Value

if TYPE_CHECKING:
    from afl.engine.model.plan import StatementPlan

_COMPLETE: str = StepState.STATEMENT_COMPLETE

#: Blocks of at least this many statements keep the digest from which the ids of their steps are derived: it takes 450
#: bytes.
_WORTH_A_DIGEST = 8


class ErrorRecord(NamedTuple):
    """The first cause of a failed step or run, kept unchanged (the agent's class name and text)."""

    type: str
    message: str
    step_id: str = ""
    #: The path of the failing step, e.g. `shop.Checkout.payment`.
    path: str = ""
    facet: str = ""
    #: Source line of the failing statement, 0 when the program was compiled without locations.
    line: int = 0


class RetryRecord(NamedTuple):
    """How far a step's `Retry` has come."""

    #: The attempt that the present series of attempts began with.
    first_attempt: int
    #: The failure of the last attempt.
    error: ErrorRecord


class StepDocument(NamedTuple):
    """One step as stored: an immutable snapshot. Ids of other steps tie the tree together."""

    id: str
    workflow_id: str
    #: Order of creation inside the workflow, from 0.
    number: int
    #: The workflow's revision that wrote this document.
    revision: int
    object_type: str
    state: str
    statement_id: str | None
    facet_name: str
    container_id: str | None
    container_type: str | None
    block_id: str | None
    root_id: str | None
    params: Mapping[str, Value]
    returns: Mapping[str, Value]
    #: The number of events that this step has sent; the current attempt. 0 for steps that sent none.
    attempt: int = 0
    #: An EventState constant once there is an event, else "".
    event_state: str = ""
    error: ErrorRecord | None = None
    foreach_index: int | None = None
    foreach_var: str | None = None
    foreach_value: Value = None
    #: When the step was created, ms since the epoch.
    created_at_ms: int = 0
    #: The time of the step's timer, ms since the epoch: the deadline of its current event, the end of a wait, or the
    #: next attempt; None: no timer.
    deadline_ms: int | None = None
    #: For a step of which an attempt has failed, and that tries again: how far it is; else None.
    retry: RetryRecord | None = None


class BlockIds:
    """The place of the statements of a running block: the common part of the rows of their steps."""

    __slots__ = ("_digest", "block_id", "owner_id", "root_id", "stored", "workflow_id")

    def __init__(self, workflow_id: str, root_id: str, owner_id: str, block_id: str, statements: int) -> None:
        self.workflow_id = workflow_id
        self.root_id = root_id
        #: The step whose body the block is.
        self.owner_id = owner_id
        self.block_id = block_id
        #: These fields as they stand in the stored form of a step; the code that encodes steps makes it once.
        self.stored: str | None = None
        self._digest = blake2b(self._start(), digest_size=DIGEST_BYTES) if statements >= _WORTH_A_DIGEST else None

    def _start(self) -> bytes:
        return f"{self.block_id}/".encode()

    def step_id(self, key: bytes) -> str:
        """Return the id of a statement's step: `identity.derived_id` of the block's id and the statement's name."""
        if self._digest is None:
            digest = blake2b(self._start() + key, digest_size=DIGEST_BYTES)
        else:
            digest = self._digest.copy()
            digest.update(key)
        return f"{self.workflow_id}:{digest.hexdigest()}"


#: The values in the order in which `document` of a bound and of a live step gives them.
_complete_step: Final = row_maker(
    StepDocument,
    "id", "workflow_id", "number", "revision", "object_type", "state", "statement_id", "facet_name", "container_id",
    "container_type", "block_id", "root_id", "params", "returns", "attempt", "event_state", "error",
    "foreach_index", "foreach_var", "foreach_value", "created_at_ms", "deadline_ms", "retry",
)  # fmt: skip


class BoundStep:
    """A step that only bound its attributes: it was complete when it was made, and never changes.

    A block's frame holds it, and a commit hands it to the store. Its id and its document are computed on first use.
    """

    __slots__ = ("block_ids", "created_at_ms", "number", "params", "returns", "revision", "statement")

    #: For code that reads any step of a frame.
    error: ClassVar[ErrorRecord | None] = None
    reported: ClassVar[bool] = True

    def __init__(
        self,
        block_ids: BlockIds,
        statement: StatementPlan,
        number: int,
        revision: int,
        params: Mapping[str, Value],
        returns: Mapping[str, Value],
        created_at_ms: int,
    ) -> None:
        self.block_ids = block_ids
        self.statement = statement
        self.number = number
        self.revision = revision
        self.params = params
        self.returns = returns
        self.created_at_ms = created_at_ms

    @property
    def id(self) -> str:
        return self.block_ids.step_id(self.statement.key)

    def document(self) -> StepDocument:
        """Return the document that a store keeps of it."""
        block_ids, statement = self.block_ids, self.statement
        return _complete_step(
            (
                block_ids.step_id(statement.key),
                block_ids.workflow_id,
                self.number,
                self.revision,
                statement.object_type,
                _COMPLETE,
                statement.id,
                statement.facet_name,
                block_ids.owner_id,
                None,
                block_ids.block_id,
                block_ids.root_id,
                self.params,
                self.returns,
                0,
                "",
                None,
                None,
                None,
                None,
                self.created_at_ms,
                None,
                None,
            ),
        )


class LiveStep(NamedTuple):
    """A step of a statement that has changed, as a commit hands it over: a snapshot with its common parts by name.

    Only a plain one has this form: in the frame of its block, without an error, a timer and a retry.
    """

    id: str
    number: int
    revision: int
    state: str
    attempt: int
    event_state: str
    params: Mapping[str, Value]
    returns: Mapping[str, Value]
    created_at_ms: int
    statement: "StatementPlan"  # noqa: UP037 - as in plan.py: compiled code would look it up here
    block_ids: BlockIds
    #: Whether the store has the step from this process, and all that may differ since is the revision, the state, the
    #: attempt, the event's state and the returns.
    is_written: bool

    def document(self) -> StepDocument:
        """Return the document that a store keeps of it."""
        block_ids, statement = self.block_ids, self.statement
        return _complete_step(
            (
                self.id,
                block_ids.workflow_id,
                self.number,
                self.revision,
                statement.object_type,
                self.state,
                statement.id,
                statement.facet_name,
                block_ids.owner_id,
                None,
                block_ids.block_id,
                block_ids.root_id,
                self.params,
                self.returns,
                self.attempt,
                self.event_state,
                None,
                None,
                None,
                None,
                self.created_at_ms,
                None,
                None,
            ),
        )


#: A changed step, in each of the forms in which a commit hands one over.
StepRow: TypeAlias = StepDocument | BoundStep | LiveStep


class StoredStep:
    """A complete step as its store has it: its document is read when someone asks.

    A block's frame holds it like a bound step, if all that anyone may still want of it are its attributes.
    """

    __slots__ = ("_document", "_read", "block", "change", "content", "id", "revision", "statement", "statement_id")

    #: For code that reads any step of a frame.
    error: ClassVar[ErrorRecord | None] = None
    reported: ClassVar[bool] = True

    def __init__(
        self,
        step_id: str,
        revision: int,
        content: bytes,
        change: bytes | None,
        read: Callable[[StoredStep], StepDocument],
        statement_id: bytes = b"",
        block: bytes = b"",
    ) -> None:
        """Take the step's stored form, what was written of it since, and what decodes both or raises StoreCorrupt.

        `statement_id` and `block` are what the stored form seems to say, in UTF-8, of the step's statement and of its
        block's id, without the workflow's: b"" where it is not known, and the step is decoded at once.
        """
        self.id = step_id
        self.revision = revision
        self.content = content
        self.change = change
        self._read = read
        self.statement_id = statement_id
        self.block = block
        self._document: StepDocument | None = None
        #: The statement that it is of; set when it is put into a frame.
        self.statement: StatementPlan

    def document(self) -> StepDocument:
        """Return the step's document. Raises StoreCorrupt."""
        if self._document is None:
            self._document = self._read(self)
        return self._document

    @property
    def params(self) -> Mapping[str, Value]:
        return self.document().params

    @property
    def returns(self) -> Mapping[str, Value]:
        return self.document().returns


class StillUnread(Exception):
    """Someone asks for the attributes of a step that a frame has not read: `Frame.at` returns one that has them."""


class Unread:
    """The mark, in a block's frame, of all complete steps that were not read when their run was."""

    __slots__ = ()

    #: For code that reads any step of a frame.
    error: ClassVar[ErrorRecord | None] = None
    reported: ClassVar[bool] = True

    @property
    def params(self) -> Mapping[str, Value]:
        raise StillUnread

    @property
    def returns(self) -> Mapping[str, Value]:
        raise StillUnread


UNREAD: Final = Unread()


class UnreadStep:
    """A complete step that was not read when its run was, after someone has asked for it: its row is found by its id.

    A block's frame holds it like a stored step.
    """

    __slots__ = ("_block_ids", "_document", "_read", "statement")

    #: For code that reads any step of a frame.
    error: ClassVar[ErrorRecord | None] = None
    reported: ClassVar[bool] = True

    def __init__(self, read: Callable[[str], StepDocument], block_ids: BlockIds, statement: StatementPlan) -> None:
        """`read` returns the document of a step by its id, or raises StoreCorrupt or StoreUnavailable."""
        self._read = read
        self._block_ids = block_ids
        self._document: StepDocument | None = None
        self.statement = statement

    @property
    def id(self) -> str:
        return self._block_ids.step_id(self.statement.key)

    def document(self) -> StepDocument:
        """Return the step's document. Raises StoreCorrupt and StoreUnavailable."""
        if self._document is None:
            self._document = self._read(self.id)
        return self._document

    @property
    def params(self) -> Mapping[str, Value]:
        return self.document().params

    @property
    def returns(self) -> Mapping[str, Value]:
        return self.document().returns


#: A complete step that is read when someone asks for it.
LateStep: TypeAlias = StoredStep | UnreadStep


class OpenRun(NamedTuple):
    """What a store has of a run, without its complete steps, as one moment has seen it."""

    #: The steps that are not complete, in any order.
    steps: list[StepDocument]
    #: The number of complete ones, their bytes in the store, and the newest revision of any of them.
    complete: int
    size: int
    newest: int
    #: Returns the document of a step by its id. Raises StoreCorrupt and StoreUnavailable.
    read: Callable[[str], StepDocument]
