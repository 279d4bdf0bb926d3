"""Generations of a workflow's steps: a step that runs again gets new rows beside the existing ones, which stay.

A step's id begins with the digest of its place in the program, the same in every generation. The ids of the first
generation end there. In a later one a mark and the generation's number in hex digits follow: `a2` for a step that
starts from nothing, `c2` for one that continues with the steps inside the previous one (a block of which some
statements run again). The generation of a workflow is its row's `execution`.

For each place the row of the highest generation is valid. Rows inside it are valid when they are not older than the
last generation that started from nothing. In a later generation a row in state Created belongs to a step whose turn to
run again has not come yet: it shows that the older rows of its place are no longer valid. A step that was made there
and waits for the next iteration is in the state after that. In the first generation it is in state Created.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from afl.core.ids import AGAIN, Generation, generation_of, id_of_place
from afl.engine.model.records import StepRecord
from afl.engine.model.step_rows import BlockIds
from afl.engine.model.store import StepDocument
from afl.engine.states import StepState, select_transitions

if TYPE_CHECKING:
    from afl.engine.execution.execution import Execution


class Current(NamedTuple):
    """The valid rows of a workflow."""

    #: In order of creation, with the valid ids of container, block and root.
    documents: list[StepDocument]
    #: The attempts of earlier generations, by place: attempts never restart at zero.
    attempts: dict[str, int]


def current_of(documents: Iterable[StepDocument]) -> Current:
    """Return the valid rows of a workflow that was run again."""
    newest: dict[str, tuple[Generation, StepDocument]] = {}
    fresh_since: dict[str, int] = defaultdict(int)
    attempts: dict[str, int] = {}
    for document in documents:
        place, generation = id_of_place(document.id), generation_of(document.id)
        if generation.is_fresh:
            fresh_since[place] = max(fresh_since[place], generation.number)
        if document.attempt:
            attempts[place] = max(attempts.get(place, 0), document.attempt)
        if place not in newest or generation.number > newest[place][0].number:
            newest[place] = (generation, document)
    ids: dict[str, str] = {}
    found: list[StepDocument] = []
    for generation, document in sorted(newest.values(), key=lambda each: each[1].number):
        around = document.block_id or document.container_id
        if around is not None:
            outside = id_of_place(around)
            is_place_alone = document.state == StepState.CREATED and generation.number > 1
            if is_place_alone or outside not in ids or generation.number < fresh_since[outside]:
                continue
        ids[id_of_place(document.id)] = document.id
        found.append(_inside_of(document, ids))
    return Current(found, attempts)


def current_steps(documents: Sequence[StepDocument], execution: int) -> Sequence[StepDocument]:
    """Return the valid rows of a workflow whose row has this execution number."""
    return documents if execution == 1 else current_of(documents).documents


def _inside_of(document: StepDocument, ids: dict[str, str]) -> StepDocument:
    if document.container_id is None:
        return document
    return document._replace(
        container_id=ids[id_of_place(document.container_id)],
        block_id=None if document.block_id is None else ids[id_of_place(document.block_id)],
        root_id=None if document.root_id is None else ids.get(id_of_place(document.root_id), document.root_id),
    )


class LaterBlockIds(BlockIds):
    """The place of the statements of a block, in a later generation."""

    __slots__ = ("_mark",)

    def __init__(
        self, workflow_id: str, root_id: str, owner_id: str, block_id: str, statements: int, *, mark: str
    ) -> None:
        super().__init__(workflow_id, root_id, owner_id, block_id, statements)
        self._mark = mark

    def _start(self) -> bytes:
        return f"{id_of_place(self.block_id)}/".encode()

    def step_id(self, key: bytes) -> str:
        return super().step_id(key) + self._mark


class LaterGeneration:
    """Ids of new steps, and places of older ones, in an execution of which something was run again."""

    __slots__ = ("_attempts", "_ids", "_mark")

    def __init__(self, number: int, attempts: dict[str, int]) -> None:
        """Continue from `attempts`, those of the generations before, by place."""
        self._attempts = attempts
        self._mark = f"{AGAIN}{number:x}"
        #: Steps by place. Only mixins' steps are looked up by it.
        self._ids: dict[str, str] = {}

    def record(self, step_id: str, number: int, object_type: str, created_at_ms: int) -> StepRecord:
        """Return the record of the step at the place of this id, with its id in this generation and its attempts."""
        place = id_of_place(step_id)
        step = StepRecord(place + self._mark, number, object_type, created_at_ms)
        step.attempt = self._attempts.get(place, 0)
        self.note(step.id)
        return step

    def note(self, step_id: str) -> None:
        """Let a step be found by its place."""
        self._ids[id_of_place(step_id)] = step_id

    def id_at(self, place: str) -> str:
        """Return the id of the step at a place."""
        return self._ids[place]

    def has_asked(self, step_id: str) -> bool:
        """Return whether a step at the place of this id has sent an event in a generation before."""
        return id_of_place(step_id) in self._attempts

    def place(self, workflow_id: str, root_id: str, owner_id: str, block_id: str, statements: int) -> LaterBlockIds:
        """Return the places of the statements of a block."""
        return LaterBlockIds(workflow_id, root_id, owner_id, block_id, statements, mark=self._mark)

    def begin_made(self, execution: Execution) -> None:
        """Move steps that were made, and wait for the next iteration, on from Created: rows in that state do not
        count here.
        """
        for step in reversed(execution.made):
            if step.state != StepState.CREATED:
                break
            step.state = select_transitions(step.object_type)[StepState.CREATED]
            if execution.trace is not None:
                execution.trace.moved(execution, step, StepState.CREATED, step.state)
