"""Runs as the people of a deployment see them: how one ended, what it waits for, and which id is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from afl.compiled import CompiledProgram
from afl.core.exception_text import exception_line
from afl.runtime.persistence import ENDED_STATUSES, EngineStore, Store, WorkflowRow
from afl.runtime.programs import is_pinned_by
from afl.runtime.states import EventState, StepState
from afl.runtime.tombstones import Tombstone
from afl_stream.answer_identity import has_inputs
from afl_stream.errors import StreamError
from afl_stream.messages import FailureReason


class AlreadyStarted(StreamError):
    """A workflow id is taken by a run of another program or with other inputs."""

    def __init__(self, workflow_id: str, name: str) -> None:
        super().__init__(
            f"workflow {workflow_id} exists: it runs {name}, with other inputs or another program; choose another id"
        )
        self.workflow_id, self.name = workflow_id, name


class AlreadyPurged(StreamError):
    """A run of this id has ended, and was purged: it is not started anew, and its outputs are gone."""

    def __init__(self, tombstone: Tombstone) -> None:
        ended = datetime.fromtimestamp(tombstone.ended_at_ms / 1000, UTC)
        super().__init__(
            f"workflow {tombstone.workflow_id} has run before: it ended as {tombstone.status} on "
            f"{ended:%Y-%m-%d %H:%M:%S} UTC, and was purged; choose another id to run {tombstone.name} again"
        )
        self.tombstone = tombstone


class ServiceEnded(StreamError):
    """A handler, or something else in a service, asked for the end of the process (SystemExit, for one)."""

    def __init__(self, service: str, error: BaseException) -> None:
        super().__init__(f"the {service} was ended by {exception_line(error)}; what it had in hand is not answered")
        self.service = service


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingStep:
    """A step whose event is out and unanswered."""

    step_id: str
    facet: str
    attempt: int
    payload: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Why a wait for a workflow is over: it ended (`row` says how), was `rejected`, only `waiting` steps are left that
    no handler here answers, or it was interrupted (none of the others)."""

    workflow_id: str
    row: WorkflowRow | None = None
    rejected: FailureReason | None = None
    waiting: tuple[WaitingStep, ...] = ()

    @property
    def is_ended(self) -> bool:
        return self.row is not None and self.row.status in ENDED_STATUSES


def waiting_steps(store: Store, workflow_id: str) -> tuple[WaitingStep, ...]:
    """The steps of a workflow whose events wait for an answer, in order of creation; none when it has ended."""
    row = store.load_workflow(workflow_id)
    if row is None or row.status in ENDED_STATUSES:
        return ()
    return tuple(
        WaitingStep(step_id=step.id, facet=step.facet_name, attempt=step.attempt, payload=step.params)
        for step in store.load_steps(workflow_id, state=StepState.EVENT_TRANSMIT)
        if step.event_state and not EventState.is_terminal(step.event_state)
    )


def check_same_start(
    store: EngineStore, workflow_id: str, name: str, program: CompiledProgram, inputs: Mapping[str, object]
) -> None:
    """Raise AlreadyStarted when the store has a run of this id of another workflow or program, or with other inputs;
    AlreadyPurged when it had this very one."""
    run = store.load_workflow(workflow_id) or store.tombstone(workflow_id)
    if run is None:
        return
    if run.name != name or not has_inputs(run, inputs) or not is_pinned_by(program, run.program, store):
        raise AlreadyStarted(workflow_id, run.name)
    if isinstance(run, Tombstone):
        raise AlreadyPurged(run)
