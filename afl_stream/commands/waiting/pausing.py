"""The commands `pause` and `resume`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from afl.core.errors import AFLError
from afl_stream.commands.arguments import common
from afl_stream.commands.facet_names import facets_with_topics, no_topic_of
from afl_stream.commands.invocation import Invocation, open_transport, store_here
from afl_stream.commands.refusals import CommandRefused
from afl_stream.commands.runs.unknown_ids import QUICK_S, meant_here, unknown_ids, unknown_in
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl_stream.client.client import Client
    from afl_stream.settings.config import StreamConfig
    from afl_stream.transport import Transport
    from afl_stream.wire.messages import Pause

F = TypeVar("F", bound=Callable[..., Any])


def _target(command: F) -> F:
    """Give a command the options that name what it is about."""
    for option in (
        click.option("--all", "everything", is_flag=True, help="Everything: all facets and all runs."),
        click.option("--workflow", "workflow_id", metavar="ID", help="One run, by its id; it may not have begun yet."),
        click.option("--facet", metavar="NAME", help="One event facet, by its qualified name, or a unique short one."),
    ):
        command = option(command)
    return command


@click.command("pause")
@_target
@click.option("--reason", default="", help="The reason, shown by why and status.")
@common
def pause_command(
    invocation: Invocation, facet: str | None, workflow_id: str | None, everything: bool, reason: str
) -> ExitCode:
    """Pause a facet, a run, or everything, until it is resumed. Without an option, list what is paused.

    Of a paused facet no event is published or started: those on the topic stay there, new ones wait in the store. A
    paused run makes no further step; answers to its events are kept. Handlers that run go on, and are answered.
    Deadlines of a paused facet's events go on; timers of a paused run wait. Evaluators and agents hear of it within
    seconds, none of them has to run now, and restarts change nothing.

    \b
    Examples:
      afl-stream pause --facet billing.Charge --reason "the bank is down"
      afl-stream pause --workflow order-17
      afl-stream pause --all
      afl-stream pause
    """
    return _change(invocation, facet, workflow_id, everything, reason=reason)


@click.command("resume")
@_target
@common
def resume_command(invocation: Invocation, facet: str | None, workflow_id: str | None, everything: bool) -> ExitCode:
    """End a pause. Each pause ends by itself: --all ends that of everything, and leaves those of facets and runs.

    Without an option, list what is paused.

    \b
    Examples:
      afl-stream resume --facet billing.Charge
      afl-stream resume --all
    """
    return _change(invocation, facet, workflow_id, everything, reason=None)


def _change(
    invocation: Invocation, facet: str | None, workflow_id: str | None, everything: bool, *, reason: str | None
) -> ExitCode:
    """Pause, or with `reason` None resume; without a target list the pauses."""
    from afl_stream.client.client import Client

    given = (facet is not None) + (workflow_id is not None) + everything
    if given > 1:
        raise click.UsageError("--facet, --workflow and --all go one at a time")
    config, terminal = invocation.settings(), invocation.terminal()
    with open_transport(config) as transport, Client(config, transport) as client:
        client.require_topics()
        changed, notes = False, list[str]()
        if workflow_id is not None:
            workflow_id = meant_here(config, transport, terminal, workflow_id)
        if given:
            name = None if facet is None else _known_facet(client, facet, transport.admin().topic_names())
            if reason is None:
                changed = client.resume(facet=name, workflow_id=workflow_id, everything=everything)
            else:
                changed = client.pause(facet=name, workflow_id=workflow_id, everything=everything, reason=reason)
            facet = name
        pauses = client.pauses()
        if workflow_id is not None and reason is not None:
            notes = _notes_on_paused(config, transport, workflow_id)
        elif workflow_id is not None and not changed:
            notes = [unknown.note for unknown in unknown_ids(config, transport, [workflow_id])]
    if terminal.as_json:
        document: dict[str, object] = {"paused": [_document(pause) for pause in pauses]}
        terminal.document({"changed": changed, **document} if given else document)
        return ExitCode.OK
    if given:
        what = "everything" if everything else f"facet {facet}" if facet is not None else f"run {workflow_id}"
        done = "resumed" if reason is None else "paused"
        if changed:
            terminal.line(f"{what} is {done}")
        else:
            terminal.line(f"{what} {'was not paused' if reason is None else 'was paused already'}: nothing changed")
        for note in notes:
            terminal.remark(note)
    if not given or (reason is None and pauses):
        _list(invocation, pauses, still=bool(given))
    return ExitCode.OK


def _list(invocation: Invocation, pauses: list[Pause], *, still: bool) -> None:
    from afl_stream.commands.terminal import time_text

    terminal = invocation.terminal()
    if not pauses:
        terminal.remark("nothing is paused")
        return
    if still:
        terminal.remark("still paused:")
    rows = [(pause.scope, pause.name, time_text(pause.at), pause.reason or "") for pause in pauses]
    terminal.table(("paused", "name", "since", ""), rows, whole=("name",))


def _known_facet(client: Client, facet: str, topics: frozenset[str]) -> str:
    """Return a facet's qualified name. Raises CommandRefused for a name that has no topic, or several."""
    topology = client.topology
    if topology.facet(facet) in topics or client.definitions.pauses.facets.get(facet) is not None:
        return facet
    names = facets_with_topics(topology, topics)
    short = [name for name in names if name.rsplit(".", 1)[-1] == facet]
    if len(short) == 1:
        return short[0]
    if short:
        raise CommandRefused(f"facet {facet}: found {', '.join(short)}; name one of them in full")
    if not topology.carries(facet):
        raise CommandRefused(f"events of {facet} are tasks (dispatch.*), which cannot be paused: stop their pollers")
    raise CommandRefused(no_topic_of(facet, names))


def _notes_on_paused(config: StreamConfig, transport: Transport, workflow_id: str) -> list[str]:
    """Return what is odd about the pause of a run: that it has ended, or has not begun; none where nothing is known."""
    from afl.engine.model.store import ENDED_STATUSES

    try:
        with store_here(config, transport, timeout_s=QUICK_S) as store:
            if store is None:
                return []
            row = store.load_workflow(workflow_id) or store.tombstone(workflow_id)
            if row is not None:
                ended = row.status in ENDED_STATUSES
                return [f"Note: run {workflow_id} has ended as {row.status}: nothing of it is held"] if ended else []
            unknown = unknown_in(store, workflow_id)
            if unknown is None:
                return []
            return [unknown.note if unknown.near else f"{unknown.note}: it is held as soon as it is started"]
    except AFLError:
        # The pause is made, whatever the store says.
        return []


def _document(pause: Pause) -> dict[str, object]:
    return {
        "scope": pause.scope,
        "name": pause.name or None,
        "since_ms": pause.at,
        "reason": pause.reason,
    }
