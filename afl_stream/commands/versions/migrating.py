"""The command `migrate`: a run that has not ended continues by another version of its program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from afl_stream.commands.arguments import common, reason_option
from afl_stream.commands.completing.values import run_ids
from afl_stream.commands.invocation import Invocation, open_transport
from afl_stream.commands.refusals import CommandRefused, NotFound, no_such_run
from afl_stream.commands.runs.short_ids import meant_id
from afl_stream.commands.versions.judging import (
    MoveDoesNotFit,
    MoveRefused,
    check_move,
    plain_store_here,
    workflows_of,
)
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl.engine.operations.misfits import Misfit
    from afl.engine.workflow_cache import WorkflowCache
    from afl.stores.public.persistence import EngineStore
    from afl_stream.client.client import Client

_SHORT: Final = 12


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
    #: That it does not fit, in words.
    stays: str = ""
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
            self.workflows = workflows_of(self.store)


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
        with plain_store_here(config, transport) as store:
            here = _Here(invocation, client, store, options)
            if store is None and (options.check or options.is_all):
                what = "--check" if options.check else "--all"
                raise CommandRefused(f"{what} reads the store of the evaluators, which is not on this machine")
            return _move_all(here) if options.is_all else _move_one(here)


def _move_one(here: _Here) -> ExitCode:
    invocation, options, terminal = here.invocation, here.options, here.invocation.terminal()
    assert options.run is not None
    workflow_id = meant_id(here.store, terminal, options.run)
    row = None if here.store is None else here.store.load_workflow(workflow_id)
    if here.store is not None and row is None:
        if (tombstone := here.store.tombstone(workflow_id)) is not None:
            raise CommandRefused(f"workflow {workflow_id} has ended as {tombstone.status}, and was purged")
        raise no_such_run(here.store, workflow_id)
    name = None if row is None else row.name
    moved = _Moved(
        workflow_id=workflow_id,
        workflow=name,
        program=None if row is None else row.program,
        to=_version(here, name),
    )
    _judge(here, moved)
    if moved.refused or (moved.misfits and not options.check):
        raise CommandRefused(moved.refused or moved.stays)
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
    from afl.core.text.near_names import near_names
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
        near = names or near_names(options.workflow, declared_names(store, None, {Kind.WORKFLOW}))
        raise NotFound("workflow", options.workflow, hint, near)
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
    """Return the fingerprint that a version's name means. Raises NotFound, UnknownProgram, and VersionUnclear."""
    from afl_stream.programs.versions import NoSuchVersion, meant_version

    to, stored = here.options.to, () if here.store is None else here.store.program_fingerprints()
    try:
        return meant_version(here.client.definitions, to, workflow, stored)
    except NoSuchVersion:
        hint = "deploy prints a program's id, and afl-stream programs list those with runs"
        raise NotFound("version", to, hint) from None


def _judge(here: _Here, moved: _Moved) -> None:
    """Note what an evaluator would refuse, if the store is here."""
    if here.workflows is None or here.store is None or moved.workflow is None:
        return
    definitions = here.client.definitions
    try:
        check_move(here.store, here.workflows, definitions, moved.workflow_id, moved.workflow, moved.to)
    except MoveDoesNotFit as error:
        moved.misfits, moved.stays = error.misfits, str(error)
    except MoveRefused as error:
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
