"""What an evaluator would say to a move, where its store is on this machine: the move is computed, and not stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from afl.core.errors import AFLError
from afl_stream.commands.invocation import store_here

if TYPE_CHECKING:
    from afl.engine.operations.misfits import Misfit
    from afl.engine.workflow_cache import WorkflowCache
    from afl.stores.public.persistence import EngineStore
    from afl_stream.programs.definitions import Definitions
    from afl_stream.settings.config import StreamConfig
    from afl_stream.transport import Transport

_SHORT: Final = 12


class MoveRefused(AFLError):
    """A run cannot move to a version, whatever is in that."""


class MoveDoesNotFit(AFLError):
    """What a run has done is not in the version that it is to go on by."""

    def __init__(self, workflow_id: str, to: str, misfits: Sequence[Misfit]) -> None:
        what = "; ".join(map(str, misfits))
        super().__init__(f"run {workflow_id} does not fit version {to[:_SHORT]}, and stays as it is: {what}")
        self.misfits = misfits


@contextmanager
def plain_store_here(config: StreamConfig, transport: Transport) -> Iterator[EngineStore | None]:
    """Open the deployment's store, if it is here, with its values decrypted where the keys are at hand."""
    from afl_stream.evaluator.sensitive.sealed_store import sealed
    from afl_stream.sensitive.deployment import deployment_sealer

    with store_here(config, transport) as store:
        yield None if store is None else sealed(store, deployment_sealer(config), config.sensitive.patterns)


def workflows_of(store: EngineStore) -> WorkflowCache:
    """Return what restores the runs of a store, for moves that are computed."""
    from afl.engine.execution.task_dispatch import TaskDispatch
    from afl.engine.workflow_cache import WorkflowCache

    return WorkflowCache(store, TaskDispatch(), runs_scripts=True)


def check_move(
    store: EngineStore, workflows: WorkflowCache, definitions: Definitions, workflow_id: str, workflow: str, to: str
) -> None:
    """Raise MoveDoesNotFit, which names what does not fit, or MoveRefused for a move that an evaluator would refuse."""
    from afl.compiled.program import ProgramError
    from afl.engine.errors import ScriptsNotAllowed
    from afl.engine.operations.migration import Move
    from afl.engine.operations.operation_errors import OperationRefused, VersionDoesNotFit
    from afl.engine.planning.programs import stored_program

    program = stored_program(store, to)
    if program is None:
        program, _ = definitions.find(workflow, to)
    try:
        workflows.migrate(workflow_id, Move(plan=workflows.plan(program, workflow)))
    except VersionDoesNotFit as error:
        raise MoveDoesNotFit(workflow_id, to, error.misfits) from error
    except (OperationRefused, ProgramError, ScriptsNotAllowed) as error:
        raise MoveRefused(str(error)) from error
