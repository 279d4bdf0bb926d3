"""Errors of the engine: each names the object, what was found, and what was expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from afl.core.text.near_names import did_you_mean, names_alike
from afl.core.values import ValueRefused as ValueRefused
from afl.engine.error_base import RuntimeError as RuntimeError
from afl.engine.error_base import shown_path
from afl.engine.limit_errors import IterationLimitReached as IterationLimitReached
from afl.engine.limit_errors import LimitReached as LimitReached
from afl.engine.limit_errors import NestingTooDeep as NestingTooDeep
from afl.engine.limit_errors import PayloadTooLarge as PayloadTooLarge
from afl.engine.limit_errors import RunLimitReached as RunLimitReached
from afl.engine.limit_errors import StateTooLarge as StateTooLarge
from afl.engine.limit_errors import StepLimitReached as StepLimitReached
from afl.engine.limit_errors import ValueTooDeep as ValueTooDeep
from afl.engine.limit_errors import ValueTooLarge as ValueTooLarge


@dataclass(eq=False)
class InvalidStepStateError(RuntimeError):
    """A step's state does not allow the requested action."""

    step_id: str
    current_state: str
    expected_states: list[str]

    def __str__(self) -> str:
        return f"step {self.step_id} is at {self.current_state}, expected {' or '.join(self.expected_states)}"


@dataclass(eq=False)
class StepNotFoundError(RuntimeError):
    """A step id is unknown."""

    step_id: str

    def __str__(self) -> str:
        return f"step {self.step_id} not found"


@dataclass(eq=False)
class BlockNotFoundError(RuntimeError):
    """A block id is unknown."""

    block_id: str

    def __str__(self) -> str:
        return f"block {self.block_id} not found"


@dataclass(eq=False)
class DependencyNotSatisfiedError(RuntimeError):
    """A step was run before the steps that it needs had completed."""

    step_id: str
    missing_dependencies: list[str]

    def __str__(self) -> str:
        return f"step {self.step_id} needs {', '.join(self.missing_dependencies)}, not complete yet"


@dataclass(eq=False)
class EvaluationError(RuntimeError):
    """An expression has no value. `expression` is its source text."""

    expression: str
    message: str
    step_id: str | None = None

    def __str__(self) -> str:
        return f"{self.message} in {self.expression}{_at_step(self.step_id)}"


@dataclass(eq=False)
class InvalidWait(RuntimeError):
    """The arguments of a library facet give nothing to wait for."""

    facet: str
    name: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.facet}: {self.name} is {self.found}, expected {self.expected}"


@dataclass(eq=False)
class ReferenceError(RuntimeError):  # shadows the builtin inside this module only: AFL programs catch it by this name
    """A reference cannot be resolved. `reference` is its source text."""

    reference: str
    message: str
    step_id: str | None = None

    def __str__(self) -> str:
        return f"{self.message} in {self.reference}{_at_step(self.step_id)}"


@dataclass(eq=False)
class InvalidTransitionError(RuntimeError):
    """A step was moved to a state that its table does not allow."""

    step_id: str
    from_state: str
    to_state: str

    def __str__(self) -> str:
        return f"step {self.step_id} can't go from {self.from_state} to {self.to_state}"


@dataclass(eq=False)
class ConcurrencyError(RuntimeError):
    """Two writers changed the same step."""

    step_id: str
    message: str

    def __str__(self) -> str:
        return f"step {self.step_id}: {self.message}"


@dataclass(eq=False)
class EventError(RuntimeError):
    """An event could not be handled."""

    event_id: str
    message: str

    def __str__(self) -> str:
        return f"event {self.event_id}: {self.message}"


@dataclass(eq=False)
class VersionMismatchError(RuntimeError):
    """Stored data has a version that this runtime does not read. `remedy` says what to do."""

    expected_version: str
    actual_version: str
    component: str
    remedy: str = ""

    @property
    def found(self) -> str:
        """The versioned object and its version."""
        return f"{self.component} {self.actual_version}"

    def __str__(self) -> str:
        remedy = f": {self.remedy}" if self.remedy else ""
        return f"{self.component} has version {self.actual_version}, this runtime reads {self.expected_version}{remedy}"


@dataclass(eq=False)
class WorkflowConflict(RuntimeError):
    """Other writers committed these workflows first: reload them and try again."""

    workflow_ids: Sequence[str]

    def __str__(self) -> str:
        return f"changed by another writer since they were read: workflows {', '.join(self.workflow_ids)}"


@dataclass(eq=False)
class WorkflowPurged(RuntimeError):
    """A workflow was started under the id of an earlier, purged one, of which only a tombstone is left."""

    workflow_id: str
    name: str
    status: str

    def __str__(self) -> str:
        return f"workflow {self.workflow_id} ({self.name}) has ended as {self.status} and was purged: choose another id"


@dataclass(eq=False)
class UnknownWorkflow(RuntimeError):
    """A program has no workflow of this name. `near` holds similar names of workflows."""

    name: str
    near: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"no workflow is called {self.name}{_did_you_mean(self.near)}"


@dataclass(eq=False)
class UnknownFacet(RuntimeError):
    """A program calls a facet that it does not declare. `near` holds similar names of facets."""

    name: str
    near: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"no facet or schema is called {self.name}{_did_you_mean(self.near)}"


@dataclass(eq=False)
class ProgramMismatch(RuntimeError):
    """A workflow was to continue with another program than the one it was started with."""

    workflow_id: str
    pinned: str
    given: str

    def __str__(self) -> str:
        return f"workflow {self.workflow_id} runs program {self.pinned}, not {self.given}"


@dataclass(eq=False)
class InputError(RuntimeError):
    """A workflow cannot be started with these inputs. The base of the three errors about inputs."""

    workflow: str
    name: str


@dataclass(eq=False)
class MissingInput(InputError):
    """An input without a default was not given."""

    expected: str

    def __str__(self) -> str:
        return f"{self.workflow} needs input {self.name}: {self.expected}, which was not given"


@dataclass(eq=False)
class UnknownInput(InputError):
    """An input was given that the workflow does not declare."""

    declared: tuple[str, ...] = ()

    def __str__(self) -> str:
        takes = f"it takes {', '.join(self.declared)}" if self.declared else "it takes none"
        near = names_alike(self.name, [declared.partition(":")[0] for declared in self.declared])
        meant = f"; {did_you_mean(near[:1])}" if near else ""
        return f"{self.workflow} has no input {self.name}: {takes}{meant}"


@dataclass(eq=False)
class InputTypeMismatch(InputError):
    """An input's value is not of the declared type. Both types are given by their AFL names.

    `inside` describes the part of the value that does not fit, by its path, unless it is the whole value.
    """

    expected: str
    found: str
    inside: str = ""

    def __str__(self) -> str:
        if self.inside:
            return f"{self.workflow}: input {self.name} does not fit {self.expected}: {self.inside}"
        found = self.found if self.found.startswith(("the ", "a ", "an ")) else f"a {self.found}"
        return f"{self.workflow}: input {self.name} is {found}, expected {self.expected}"


@dataclass(eq=False)
class StoreCorrupt(RuntimeError):
    """A store's file is damaged or not in its declared format."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"store {self.path} is damaged: {self.reason}"


@dataclass(eq=False)
class StoreUnavailable(RuntimeError):
    """A store is unavailable now: its directory is missing, its disk is full, or another process holds it."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"store {self.path} can't be used: {self.reason}"


@dataclass(eq=False)
class StoreMissing(StoreUnavailable):
    """A store that was to be opened, not created, does not exist."""


@dataclass(eq=False)
class ForeignStore(RuntimeError):
    """A file belongs to something else: it is not a store, has another prefix, or a newer format."""

    path: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.path} holds {self.found}, expected {self.expected}"


@dataclass(eq=False)
class DocumentTooLarge(RuntimeError, ValueError):
    """A step, workflow or record is larger than a store can keep in one piece. Waiting does not help."""

    document: str
    size_bytes: int
    limit_bytes: int

    def __str__(self) -> str:
        return f"{self.document} takes {self.size_bytes:,} bytes; the store keeps {self.limit_bytes:,} in one piece"


@dataclass(eq=False)
class CommitTooLarge(RuntimeError, ValueError):
    """A store does not take as much in one transaction. Waiting does not help: a part of it may be committed."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"store {self.path} does not take a commit of this size: {self.reason}"


@dataclass(eq=False)
class PositionLost(RuntimeError):
    """Another owner has moved a partition's stored position: discard what was read, and join again."""

    topic: str
    partition: int
    #: None: there was no position yet.
    expected: int | None
    found: int | None

    def __str__(self) -> str:
        found, expected = ("none" if offset is None else str(offset) for offset in (self.found, self.expected))
        return f"{self.topic}[{self.partition}]: the stored position is {found}, expected {expected}"


@dataclass(eq=False)
class ScriptsNotAllowed(RuntimeError):
    """A script was reached where none may be run. `declaration` is the facet or workflow that has it."""

    declaration: str

    def __str__(self) -> str:
        return (
            f"{self.declaration} has a script, and scripts are not allowed here: start the evaluator with "
            "--allow-scripts (evaluator.allow_scripts), or make Evaluator with scripts=ScriptPool()"
        )


@dataclass(eq=False)
class RunGivenUp(RuntimeError):
    """A workflow could not be evaluated, and is not tried again: memory ran out, or the engine has a defect.

    `error_type` and `cause` describe the failure. The run is in the store as its last commit left it.
    """

    workflow_id: str
    name: str
    error_type: str
    cause: str

    def __str__(self) -> str:
        return (
            f"{self.name} could not be evaluated: {self.error_type}{': ' if self.cause else ''}{self.cause}; its steps "
            "are as its last commit left them, and no other workflow is affected. If memory was short, `retry` "
            "continues it"
        )


@dataclass(eq=False)
class NoProgress(RuntimeError):
    """A workflow that cannot continue: no event is awaited, and these steps are not finished."""

    stuck: tuple[str, ...]

    def __str__(self) -> str:
        return f"no step can continue and none waits for an event; stuck: {', '.join(self.stuck) or 'none'}"


@dataclass(eq=False)
class StepFailure(RuntimeError):
    """The first cause of a failed run.

    `step_path` leads from the workflow down to the step (`Checkout.payment`), `error_type` is the class name of the
    original error, `message` its text, `line` the statement's line in the source where that is known.
    """

    step_id: str
    step_path: str
    facet: str
    error_type: str
    message: str
    line: int | None = field(default=None)

    def __str__(self) -> str:
        return self.message_with("" if self.line is None else f"line {self.line}")

    def message_with(self, where: str) -> str:
        """Return the failure in words; `where` is its place in the source, "" if unknown."""
        facet = f" ({', '.join(part for part in (self.facet, where) if part)})" if self.facet or where else ""
        # A script's message begins with the name of its exception.
        named = self.message == self.error_type or self.message.startswith(f"{self.error_type}: ")
        cause = self.message if named else f"{self.error_type}: {self.message}"
        return f"{shown_path(self.step_path)}{facet} failed: {cause}"


#: Errors that a store raises before its transaction, for a value without a stored form: too deep, too long, of an
#: unknown kind, or larger than the memory for it.
NO_FORM: Final = (ValueError, TypeError, RecursionError, OverflowError, MemoryError)


def _at_step(step_id: str | None) -> str:
    return "" if step_id is None else f" (step {step_id})"


def _did_you_mean(near: tuple[str, ...]) -> str:
    return f"; did you mean {' or '.join(near)}?" if near else ""
