"""The rows of one workflow during an operator's action: their nesting, and their changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from afl.engine.execution.events import returns_before_event
from afl.engine.execution.execution import Execution
from afl.engine.execution.generations import current_of
from afl.engine.model.plan import FacetPlan
from afl.engine.model.records import StepRecord
from afl.engine.model.step_rows import ErrorRecord
from afl.engine.model.store import ENDED_STATUSES, RUNNING, StepDocument, WorkflowRow
from afl.engine.states import EventState, StepState, select_transitions
from afl.engine.types import ObjectType, Value


def start_of(object_type: str) -> str:
    """Return the first state of a kind of step in which it has work, by its table."""
    return select_transitions(object_type)[StepState.CREATED]


def waits_for(owner: StepDocument, part: StepDocument) -> str:
    """Return the state in which a step waits for a part: a mixin, an andThen block, its catch; a statement."""
    if ObjectType.is_block(owner.object_type):
        return StepState.BLOCK_EXECUTION_CONTINUE
    if part.object_type == ObjectType.FACET:
        return StepState.MIXIN_BLOCKS_CONTINUE
    return StepState.CATCH_CONTINUE if is_catch(part) else StepState.STATEMENT_BLOCKS_CONTINUE


def asking_again(document: StepDocument) -> StepDocument:
    """Return a step that asks its agent, or the runtime, anew: with it a new series of attempts begins."""
    return document._replace(event_state="", deadline_ms=None, retry=None)


def is_catch(document: StepDocument) -> bool:
    """Say whether it is the block of the step's own catch, and not a part of that block."""
    return document.statement_id == "catch" and document.block_id is None and ObjectType.is_block(document.object_type)


@dataclass(slots=True)
class RunRows:
    """The valid rows, and the changes that an action makes."""

    execution: Execution
    row: WorkflowRow
    #: All stored rows, older generations included.
    stored: Sequence[StepDocument]
    #: The valid rows by id, in order of creation; an action's changes are in `changed` only.
    documents: dict[str, StepDocument] = field(init=False)
    changed: dict[str, StepDocument] = field(default_factory=dict)
    #: Events that can no longer be answered, by step and attempt.
    withdrawn: list[tuple[str, int]] = field(default_factory=list)
    #: Rows that the action makes invalid.
    gone: set[str] = field(default_factory=set)
    _inside: dict[str, list[StepDocument]] = field(init=False)
    _catches: dict[str, StepDocument] = field(default_factory=dict)

    def __post_init__(self) -> None:
        counting = self.stored if self.row.execution == 1 else current_of(self.stored).documents
        self.documents = {document.id: document for document in counting}
        self._inside = defaultdict(list)
        for document in counting:
            around = document.block_id or document.container_id
            if around is not None:
                self._inside[around].append(document)
            if is_catch(document):
                self._catches[str(document.container_id)] = document
        for owner_id in self._catches:
            # Arguments inside a catch may be evaluated again, and read the error that it handles.
            self.execution.steps[owner_id].caught = self.caught_for(self.documents[owner_id])

    @property
    def root(self) -> StepDocument:
        return self.documents[self.execution.root.id]

    def inside(self, step_id: str) -> Sequence[StepDocument]:
        """Return the steps directly inside a step.

        These are statements and yields of a block, parts of one that splits, or a step's mixins and blocks.
        """
        return self._inside.get(step_id, ())

    def all_inside(self, step_id: str) -> Iterator[StepDocument]:
        pending = list(self.inside(step_id))
        while pending:
            document = pending.pop()
            yield document
            pending += self.inside(document.id)

    def around(self, document: StepDocument) -> StepDocument | None:
        """Return the block that it is a statement or part of, or else the step whose mixin or block it is."""
        outer = document.block_id or document.container_id
        return None if outer is None else self.documents[outer]

    def catch_of(self, document: StepDocument) -> StepDocument | None:
        return self._catches.get(document.id)

    def facet_of(self, document: StepDocument) -> FacetPlan | None:
        step = self.execution.steps.get(document.id)
        return None if step is None else step.facet

    def record_of(self, document: StepDocument) -> StepRecord:
        return self.execution.steps[document.id]

    def change(self, document: StepDocument) -> None:
        self.changed[document.id] = document

    def step_path(self, document: StepDocument) -> str:
        step = self.execution.steps.get(document.id)
        return document.id if step is None else self.execution.step_path(step)

    def caught_for(self, document: StepDocument) -> ErrorRecord:
        """Return the error that the catch of a step handles, as the catch's block has kept it."""
        catch = self.catch_of(document)
        caught: Mapping[str, Value] = {} if catch is None else catch.params
        return ErrorRecord(
            type=str(caught.get("error_type", "")),
            message=str(caught.get("error", "")),
            step_id=document.id,
            path=self.step_path(document),
            facet=document.facet_name,
        )

    def returns_before_event(self, step: StepDocument) -> dict[str, Value]:
        """Return the returns set by a script of its facet; partial results of an earlier attempt do not count."""
        return returns_before_event(self.facet_of(step), step.params, step.returns)

    def ask_again(self) -> None:
        """Let the steps whose events were withdrawn at the end of the workflow send new ones."""
        for document in self.documents.values():
            document = self.changed.get(document.id, document)
            if document.state == StepState.EVENT_TRANSMIT and document.event_state == EventState.CANCELED:
                returns = self.returns_before_event(document)
                self.change(asking_again(document)._replace(returns=returns))

    def opened(self, execution: int) -> WorkflowRow:
        """Return the workflow's row when it continues."""
        status = RUNNING if self.row.status in ENDED_STATUSES else self.row.status
        return self.row._replace(status=status, execution=execution, outputs=None, error=None, ended_at_ms=0)
