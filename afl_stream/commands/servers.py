"""The command `servers`: who works for the deployment, as the store and the topic of presence tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from afl.core.clock import epoch_ms
from afl_stream.commands.arguments import common
from afl_stream.commands.invocation import Invocation, NothingThere, open_store
from afl_stream.commands.terminal import Terminal, duration_text
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl.engine.model.entities import ServerDefinition
    from afl_stream.presence.records import Presence

#: Servers that ended longer ago are listed only when all are asked for.
_ENDED_LATELY_MS: Final = 24 * 60 * 60 * 1_000
#: Handlers that are listed by name; --json has all.
_MOST_NAMES: Final = 6
_COLUMNS: Final = (
    "server", "service", "group", "name", "state", "last seen", "lag", "version", "handlers", "handled", "failed", "",
)  # fmt: skip


@click.command("servers")
@click.option("--all", "all_servers", is_flag=True, help="Also list servers that ended more than a day ago.")
@common
def servers_command(invocation: Invocation, all_servers: bool) -> ExitCode:
    """List who works for the deployment: evaluators, agents and audits, pollers and runners, with their state, when
    they were last seen, their lag, version and handlers, and how many events or tasks each has handled or failed.

    Evaluators, pollers and runners are listed in the store; evaluators, agents and audits announce themselves on the
    topic presence, as programs in other languages may. One that has not signed off and has missed three heartbeats is
    shown as stale: others take over its work.

    \b
    Examples:
      afl-stream servers
      afl-stream servers --json | jq '.[] | select(.stale)'
    """
    from afl.engine.errors import ForeignStore
    from afl_stream.commands.monitoring.present import present_members, with_members

    config, terminal = invocation.settings(), invocation.terminal()
    now_ms = epoch_ms()
    members = present_members(config, terminal.remark)
    try:
        with open_store(config) as store:
            stored = list(store.get_all_servers())
    except (NothingThere, ForeignStore):
        # On Kafka the store may be on another machine.
        if not members:
            raise
        stored = []
    found, by_id = with_members(stored, members)
    shown = [server for server in found if all_servers or not _ended_long_ago(server, now_ms)]
    shown.sort(key=lambda server: (_rank(server, now_ms), server.server_group, server.service_name, -server.start_time))
    if terminal.as_json:
        terminal.document([_document(server, by_id.get(server.uuid), now_ms) for server in shown])
    else:
        _show(terminal, shown, by_id, now_ms)
        if hidden := len(found) - len(shown):
            terminal.remark(f"{hidden} that ended more than a day ago are not shown (--all shows them)")
    return ExitCode.OK


def _show(terminal: Terminal, shown: Sequence[ServerDefinition], members: Mapping[str, Presence], now_ms: int) -> None:
    if not shown:
        terminal.remark("no servers; evaluators, agents, pollers and runners appear here once they have started")
        return
    from afl.workers.heartbeat import is_stale

    terminal.table(
        _COLUMNS,
        [
            (
                server.uuid,
                server.service_name,
                server.server_group,
                server.server_name,
                "stale" if is_stale(server, now_ms) else server.state,
                f"{duration_text(max(now_ms - server.ping_time, 0))} ago",
                _lag(members.get(server.uuid)),
                "" if (member := members.get(server.uuid)) is None else member.version,
                _names(server.handlers),
                f"{sum(count.handled for count in server.handled):,}",
                f"{sum(count.not_handled for count in server.handled):,}",
                "" if server.error is None else str(server.error.get("message", server.error)),
            )
            for server in shown
        ],
        right=("last seen", "lag", "handled", "failed"),
        whole=("server",),
    )


def _lag(member: Presence | None) -> str:
    return "" if member is None or member.lag is None else f"{member.lag:,}"


def _names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _rank(server: ServerDefinition, now_ms: int) -> int:
    """Order the living first, then those that died without signing off, then those that ended."""
    from afl.engine.model.entities import ServerState
    from afl.workers.heartbeat import is_stale

    return 2 if server.state in (ServerState.SHUTDOWN, ServerState.ERROR) else int(is_stale(server, now_ms))


def _ended_long_ago(server: ServerDefinition, now_ms: int) -> bool:
    return now_ms - server.ping_time > _ENDED_LATELY_MS


def _document(server: ServerDefinition, member: Presence | None, now_ms: int) -> dict[str, object]:
    from afl.workers.heartbeat import is_stale

    return {
        **asdict(server),
        "stale": is_stale(server, now_ms),
        "last_seen_ms": max(now_ms - server.ping_time, 0),
        "presence": None if member is None else asdict(member),
    }
