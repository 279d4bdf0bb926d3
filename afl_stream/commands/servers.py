"""The command `servers`: the servers that work on the deployment's store, as they report themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from afl.core.clock import epoch_ms
from afl_stream.commands.arguments import common
from afl_stream.commands.invocation import Invocation, open_store
from afl_stream.commands.terminal import Terminal, duration_text
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl.engine.model.entities import ServerDefinition

#: Servers that ended longer ago are listed only when all are asked for.
_ENDED_LATELY_MS: Final = 24 * 60 * 60 * 1_000
#: Handlers that are listed by name; --json has all.
_MOST_NAMES: Final = 6


@click.command("servers")
@click.option("--all", "all_servers", is_flag=True, help="Also list servers that ended more than a day ago.")
@common
def servers_command(invocation: Invocation, all_servers: bool) -> ExitCode:
    """List the servers that work on the deployment's store: pollers, runners and evaluators, with their state, when
    they were last seen, their handlers, and how many tasks each has handled or failed.

    A server that has not signed off and has missed three heartbeats is shown as stale: others take over its tasks.
    An agent on Kafka is listed with --registry; other agents are known only to the broker, as members of their groups.

    \b
    Examples:
      afl-stream servers
      afl-stream servers --json | jq '.[] | select(.stale)'
    """
    config, terminal = invocation.settings(), invocation.terminal()
    now_ms = epoch_ms()
    with open_store(config) as store:
        found = list(store.get_all_servers())
    shown = [server for server in found if all_servers or not _ended_long_ago(server, now_ms)]
    shown.sort(key=lambda server: (_rank(server, now_ms), server.server_group, server.service_name, -server.start_time))
    if terminal.as_json:
        terminal.document([_document(server, now_ms) for server in shown])
    else:
        _show(terminal, shown, now_ms)
        if hidden := len(found) - len(shown):
            terminal.remark(f"{hidden} that ended more than a day ago are not shown (--all shows them)")
    return ExitCode.OK


def _show(terminal: Terminal, shown: Sequence[ServerDefinition], now_ms: int) -> None:
    if not shown:
        terminal.remark("no servers; pollers, runners and evaluators appear here once they have started")
        return
    from afl.workers.heartbeat import is_stale

    terminal.table(
        ("server", "service", "group", "name", "state", "last seen", "handlers", "handled", "failed", ""),
        [
            (
                server.uuid,
                server.service_name,
                server.server_group,
                server.server_name,
                "stale" if is_stale(server, now_ms) else server.state,
                f"{duration_text(max(now_ms - server.ping_time, 0))} ago",
                _names(server.handlers),
                f"{sum(count.handled for count in server.handled):,}",
                f"{sum(count.not_handled for count in server.handled):,}",
                "" if server.error is None else str(server.error.get("message", server.error)),
            )
            for server in shown
        ],
        right=("last seen", "handled", "failed"),
        whole=("server",),
    )


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


def _document(server: ServerDefinition, now_ms: int) -> dict[str, object]:
    from afl.workers.heartbeat import is_stale

    return {
        **asdict(server),
        "stale": is_stale(server, now_ms),
        "last_seen_ms": max(now_ms - server.ping_time, 0),
    }
