"""The command `migrate`: a run that has not ended continues by another version of its program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from afl_stream.commands.arguments import common, reason_option
from afl_stream.commands.completing.values import run_ids
from afl_stream.commands.invocation import Invocation, open_transport, store_here
from afl_stream.commands.refusals import CommandRefused, NotFound
from afl_stream.commands.runs.short_ids import meant_id
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from afl.engine.operations.misfits import Misfit
    from afl.engine.workflow_cache import WorkflowCache
    from afl.stores.public.persistence import EngineStore
    from afl_stream.client.client import Client
    from afl_stream.settings.config import StreamConfig
    from afl_stream.transport import Transport

#: The version that the workflow's name is deployed with.
_CURRENT: Final = "current"
_SHORT: Final = 12
#: The fewest digits of a fingerprint that name a version.
_LEAST_DIGITS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateOptions:
    """The options of `migrate`."""

    run: str | None
    to: str
    workflow: str | None = None
    is_all: bool = False
    check: bool = False
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class _Moved:
    """A run, and what comes of it."""

    workflow_id: str
    workflow: str | None
    #: Where it is, None without a store; and where it is to go.
    program: str | None
    to: str
    command_id: str | None = None
    answered: bool = False
    misfits: Sequence[Misfit] = ()
    #: Why it stays, in other cases.
    refused: str = ""

    @property
    def fits(self) -> bool:
        return not self.misfits and not self.refused

    def to_dict(self) -> dict[str, object]:
        return {
            "workflow_id": self.workflow_id,
            "workflow": self.workflow,
            "from": self.program,
            "to": self.to,
            "fits": self.fits,
            "misfits": [misfit._asdict() for misfit in self.misfits],
            "refused": self.refused or None,
            "command_id": self.command_id,
            "answered": self.answered,
        }


@dataclass(slots=True)
class _Here:
    """What a call works with."""

    invocation: Invocation
    client: Client
    store: EngineStore | None
    options: MigrateOptions
    workflows: WorkflowCache | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.store is not None:
            from afl.engine.execution.task_dispatch import TaskDispatch
            from afl.engine.workflow_cache import WorkflowCache

            self.workflows = WorkflowCache(self.store, TaskDispatch(), runs_scripts=True)


@click.command("migrate")
@click.argument("run", required=False, shell_complete=run_ids)
@click.option(
    "--to",
    "to",
    metavar="VERSION",
    required=True,
    help="The beginning of a program's id, as deploy and programs print it; or current: the one that is deployed now.",
)
@click.option("--workflow", metavar="NAME", help="With --all: the workflow whose runs move.")
@click.option("--all", "is_all", is_flag=True, help="Move all runs of the workflow that have not ended and fit.")
@click.option("--check", is_flag=True, help="Move nothing: say what would not fit.")
@reason_option
@common
def migrate_command(invocation: Invocation, **given: Any) -> ExitCode:
    """Ask for the RUN, which has not ended, to continue by another version of its program.

    What it has done stays, and its events in flight are answered as before; what it has not begun yet is done as the
    version says. A run whose steps or values the version does not take stays as it is, and what does not fit is named.
    The version must be deployed, or have runs.

    With --check it ends with 1 if something does not fit. With --all it ends with 1 if a run stays for that.

    \b
    Examples:
      afl-stream migrate order-17 --to current --check
      afl-stream migrate order-17 --to fa3c867d9b54 --reason "new address check"
      afl-stream migrate --workflow Checkout --all --to current
    """
    options = MigrateOptions(**given)
    if options.is_all != (options.run is None) or options.is_all != (options.workflow is not None):
        raise click.UsageError("give a RUN, or --workflow NAME with --all")
    from afl_stream.client.client import Client
    from afl_stream.wire.messages import check_workflow_id

    if options.run is not None:
        check_workflow_id(options.run)
    config = invocation.settings()
    with open_transport(config) as transport, Client(config, transport) as client:
        client.require_topics()
        with _plain_store(config, transport) as store:
            here = _Here(invocation, client, store, options)
            if store is None and (options.check or options.is_all):
                what = "--check" if options.check else "--all"
                raise CommandRefused(f"{what} reads the store of the evaluators, which is not on this machine")
            return _move_all(here) if options.is_all else _move_one(here)


@contextmanager
def _plain_store(config: StreamConfig, transport: Transport) -> Iterator[EngineStore | None]:
    """Open the deployment's store, if it is here, with its values decrypted where the keys are at hand."""
    from afl_stream.evaluator.sensitive.sealed_store import sealed
    from afl_stream.sensitive.deployment import deployment_sealer

    with store_here(config, transport) as store:
        yield None if store is None else sealed(store, deployment_sealer(config), config.sensitive.patterns)


def _move_one(here: _Here) -> ExitCode:
    invocation, options, terminal = here.invocation, here.options, here.invocation.terminal()
    assert options.run is not None
    workflow_id = meant_id(here.store, terminal, options.run)
    row = None if here.store is None else here.store.load_workflow(workflow_id)
    if here.store is not None and row is None:
        if (tombstone := here.store.tombstone(workflow_id)) is not None:
            raise CommandRefused(f"workflow {workflow_id} has ended as {tombstone.status}, and was purged")
        raise NotFound("run", workflow_id, "afl-stream list shows them")
    name = None if row is None else row.name
    moved = _Moved(
        workflow_id=workflow_id,
        workflow=name,
        program=None if row is None else row.program,
        to=_version(here, name),
    )
    _judge(here, moved)
    if moved.refused or (moved.misfits and not options.check):
        raise CommandRefused(moved.refused or _stays(moved))
    if not options.check:
        _send(here, moved)
    if terminal.as_json:
        terminal.document(moved.to_dict())
    elif options.check:
        _tell_check(invocation, moved)
    else:
        from afl_stream.commands.asking import what_comes_next

        done = "moved" if moved.answered else "asked to move"
        terminal.line(f"{done} {workflow_id} to version {moved.to[:_SHORT]}")
        terminal.remark(what_comes_next(invocation, "does", is_answered=moved.answered))
    return ExitCode.OK if moved.fits else ExitCode.WORK_LEFT


def _move_all(here: _Here) -> ExitCode:
    from afl.compiled.program import Kind
    from afl.engine.model.store import PAUSED, RUNNING
    from afl.engine.model.visibility import WorkflowFilter
    from afl_stream.visibility.programs import declared_names
    from afl_stream.visibility.workflows import all_workflows

    store, options, terminal = here.store, here.options, here.invocation.terminal()
    assert store is not None
    assert options.workflow is not None
    names = declared_names(store, options.workflow, {Kind.WORKFLOW})
    if len(names) != 1:
        hint = "afl-stream programs list shows those that have runs"
        raise NotFound("workflow", options.workflow, hint, names)
    to, already, moves = _version(here, names[0]), 0, list[_Moved]()
    rows = list(all_workflows(store, WorkflowFilter(statuses=(RUNNING, PAUSED), names=names)))
    for row in rows:
        if row.program == to:
            already += 1
            continue
        moved = _Moved(workflow_id=row.id, workflow=row.name, program=row.program, to=to)
        moves.append(moved)
        _judge(here, moved)
        if moved.fits and not options.check:
            _send(here, moved)
    staying = [moved for moved in moves if not moved.fits]
    if terminal.as_json:
        terminal.document({"to": to, "already": already, "runs": [moved.to_dict() for moved in moves]})
    else:
        verb = "would move" if options.check else "move"
        terminal.line(f"{len(moves) - len(staying):,} of {len(moves):,} runs {verb} to version {to[:_SHORT]}")
        for moved in staying:
            terminal.line(f"{moved.workflow_id} stays: {moved.refused or '; '.join(map(str, moved.misfits))}")
        terminal.remark(f"{already:,} runs of {names[0]} are on that version already")
    return ExitCode.WORK_LEFT if staying else ExitCode.OK


def _version(here: _Here, workflow: str | None) -> str:
    """Return the fingerprint that a version's name means. Raises NotFound, UnknownProgram, and CommandRefused."""
    to, definitions = here.options.to, here.client.definitions
    if to == _CURRENT:
        if workflow is None:
            raise CommandRefused("--to current needs the run's workflow, and no store is here: give the program's id")
        return definitions.find(workflow)[0].fingerprint
    if len(to) < _LEAST_DIGITS:
        raise CommandRefused(f"--to {to}: give {_LEAST_DIGITS} digits of the program's id or more, or current")
    known: Iterable[str] = definitions.fingerprints()
    if here.store is not None:
        known = {*known, *here.store.program_fingerprints()}
    found = sorted(fingerprint for fingerprint in known if fingerprint.startswith(to))
    if len(found) > 1:
        raise CommandRefused(f"--to {to}: several programs begin so: {', '.join(found[:3])}; give more of the id")
    if not found:
        raise NotFound("version", to, "deploy prints a program's id, and afl-stream programs list those with runs")
    return found[0]


def _judge(here: _Here, moved: _Moved) -> None:
    """Note what an evaluator would refuse, if the store is here: the move is computed, and not stored."""
    from afl.compiled.program import ProgramError
    from afl.engine.errors import ScriptsNotAllowed
    from afl.engine.operations.migration import Move
    from afl.engine.operations.operation_errors import OperationRefused, VersionDoesNotFit
    from afl.engine.planning.programs import stored_program

    if here.workflows is None or moved.workflow is None:
        return
    store = here.store
    assert store is not None
    program = stored_program(store, moved.to)
    if program is None:
        program, _ = here.client.definitions.find(moved.workflow, moved.to)
    try:
        here.workflows.migrate(moved.workflow_id, Move(plan=here.workflows.plan(program, moved.workflow)))
    except VersionDoesNotFit as error:
        moved.misfits = error.misfits
    except (OperationRefused, ProgramError, ScriptsNotAllowed) as error:
        moved.refused = str(error)


def _send(here: _Here, moved: _Moved) -> None:
    from afl_stream.client.client import drawn_id
    from afl_stream.commands.asking import ask

    command_id = moved.command_id = drawn_id()

    def give(answer_timeout_s: float | None) -> str:
        return here.client.migrate(
            moved.workflow_id,
            moved.to,
            reason=here.options.reason,
            command_id=command_id,
            answer_timeout_s=answer_timeout_s,
        )

    moved.answered = ask(here.invocation, here.client, give) is not None


def _tell_check(invocation: Invocation, moved: _Moved) -> None:
    terminal = invocation.terminal()
    if moved.fits:
        terminal.line(f"{moved.workflow_id} fits version {moved.to[:_SHORT]}")
        return
    terminal.line(f"{moved.workflow_id} does not fit version {moved.to[:_SHORT]}:")
    for misfit in moved.misfits:
        terminal.line(f"  {misfit}")


def _stays(moved: _Moved) -> str:
    what = "; ".join(map(str, moved.misfits))
    return f"run {moved.workflow_id} does not fit version {moved.to[:_SHORT]}, and stays as it is: {what}"
