"""Runs as the people of a deployment see them: how one ended, what it waits for, and which id is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from afl.runtime.operators import values_equal
from afl.runtime.persistence import ENDED_STATUSES, Store, WorkflowRow
from afl.runtime.states import EventState, StepState
from afl_stream.errors import StreamError
from afl_stream.messages import FailureReason


class AlreadyStarted(StreamError):
    """A workflow id is taken by a run of another program or with other inputs."""

    def __init__(self, workflow_id: str, name: str) -> None:
        super().__init__(
            f"workflow {workflow_id} exists: it runs {name}, with other inputs or another program; choose another id"
        )
        self.workflow_id, self.name = workflow_id, name


class ServiceEnded(StreamError):
    """A handler, or something else in a service, asked for the end of the process (SystemExit, for one)."""

    def __init__(self, service: str, error: BaseException) -> None:
        super().__init__(
            f"the {service} was ended by {type(error).__name__}({error}); what it had in hand is not answered"
        )
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
        for step in store.load_steps(workflow_id)
        if step.state == StepState.EVENT_TRANSMIT and step.event_state and not EventState.is_terminal(step.event_state)
    )


def check_same_start(row: WorkflowRow | None, name: str, fingerprint: str, inputs: Mapping[str, object]) -> None:
    """Raise AlreadyStarted when `row` is a run of another workflow or program than these, or with other inputs."""
    if row is None or ((row.name, row.program) == (name, fingerprint) and values_equal(dict(row.inputs), dict(inputs))):
        return
    raise AlreadyStarted(row.id, row.name)
