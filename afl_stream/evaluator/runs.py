"""Runs as the people of a deployment see them: how one ended, what it waits for, and which id is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from afl.compiled.program import CompiledProgram
from afl.compiled.sensitive import sensitive_marks
from afl.core.sensitive import NO_PATTERNS, SensitivePatterns
from afl.core.text.exception_text import exception_line
from afl.engine.model.store import ENDED_STATUSES, WorkflowRow
from afl.engine.model.tombstones import Tombstone
from afl.engine.operations.unanswered import WaitingStep
from afl.engine.planning.programs import is_pinned_by
from afl.stores.public.persistence import EngineStore
from afl_stream.errors import AlreadyExists, AlreadyPurged, StreamError
from afl_stream.evaluator.answer_identity import start_differences
from afl_stream.run_errors import IdInUse
from afl_stream.wire.headers import IfExists
from afl_stream.wire.messages import FailureReason

#: How long a wait for a run lasts before it reports, once, what the run waits for.
LONG_WAIT_S: Final = 10.0


class ServiceEnded(StreamError):
    """A handler, or another part of a service, asked for the end of the process (SystemExit, for one)."""

    def __init__(self, service: str, error: BaseException) -> None:
        super().__init__(f"the {service} was ended by {exception_line(error)}; its unfinished records are not answered")
        self.service = service


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of a wait for a workflow.

    The workflow ended (`row` says how), was `rejected`, only `waiting` steps are left that have no handler here, or the
    wait was interrupted (none of the others). `was_over`: it had ended before the wait, and nothing was run.
    """

    workflow_id: str
    row: WorkflowRow | None = None
    rejected: FailureReason | None = None
    waiting: tuple[WaitingStep, ...] = ()
    was_over: bool = False

    @property
    def is_ended(self) -> bool:
        return self.row is not None and self.row.status in ENDED_STATUSES


def is_taken(run: WorkflowRow | Tombstone, workflow: str, if_exists: IfExists | None) -> bool:
    """Return whether a start takes the run that has its id as it is, without a comparison of the two starts.

    Raises IdInUse for a start that is only for a new run.
    """
    if if_exists is IfExists.REFUSE:
        raise IdInUse(run.workflow_id if isinstance(run, Tombstone) else run.id, run.name, run.status)
    return if_exists is IfExists.USE and workflow in (run.name, run.name.rsplit(".", 1)[-1])


def check_same_start(
    store: EngineStore,
    workflow_id: str,
    name: str,
    program: CompiledProgram,
    inputs: Mapping[str, object],
    patterns: SensitivePatterns = NO_PATTERNS,
    if_exists: IfExists | None = None,
) -> WorkflowRow | None:
    """Return the stored run of this id, if there is one, and it was started in just this way or `if_exists` takes it.

    `patterns` are those of the settings that name sensitive inputs. Raises AlreadyExists for a run of another workflow
    or program, or with other inputs; IdInUse; AlreadyPurged when the same run was purged.
    """
    run = store.load_workflow(workflow_id) or store.tombstone(workflow_id)
    if run is None:
        return None
    if not is_taken(run, name, if_exists):
        differences = start_differences(
            run,
            name,
            program.fingerprint,
            inputs,
            is_same_program=lambda: is_pinned_by(program, run.program, store),
            sensitive=sensitive_marks(program, patterns).params_of(name),
        )
        if differences:
            raise AlreadyExists(workflow_id, run.name, differences)
    if isinstance(run, Tombstone):
        raise AlreadyPurged(workflow_id, run.name, run.status, run.ended_at_ms)
    return run
