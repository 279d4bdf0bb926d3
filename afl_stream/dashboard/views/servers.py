"""Who works for the deployment: evaluators, agents, audits, pollers, runners, by the store and by presence."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from afl.engine.model.entities import ServerDefinition, ServerState
from afl.workers.heartbeat import is_stale
from afl_stream.dashboard.deployment import Deployment
from afl_stream.dashboard.views.run_views import opened
from afl_stream.presence.listing import read_presence
from afl_stream.presence.records import Presence
from afl_stream.topics.declared import Topology

#: Servers that ended longer ago are listed only when all are asked for.
_LATELY_MS: Final = 24 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerView:
    """One process: as the store has it, as it announces itself, or both."""

    id: str
    kind: str
    group: str
    name: str
    status: str
    seen_ms: int
    started_ms: int
    version: str
    lag: int | None
    handlers: tuple[str, ...]
    handled: int
    failed: int
    problem: str

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return asdict(self)


def list_servers(deployment: Deployment, *, everybody: bool = False) -> tuple[list[ServerView], int, str]:
    """Return who works, the living first, how many that ended long ago are left out, and what could not be read."""
    now_ms, members, problem = deployment.clock.now_ms(), [], ""
    with opened(deployment) as (transport, why):
        if transport is None:
            problem = why
        else:
            members = read_presence(transport, Topology(deployment.config).presence())
    stored = list(deployment.store.get_all_servers()) if deployment.has_store() else []
    by_id = {member.id: member for member in members}
    views = [_of_stored(server, by_id.pop(server.uuid, None), now_ms) for server in stored]
    views += [_of_member(member, now_ms) for member in by_id.values()]
    shown = [view for view in views if everybody or now_ms - view.seen_ms <= _LATELY_MS]
    ranks = {"running": 0, "startup": 0, "stale": 1}
    shown.sort(key=lambda view: (ranks.get(view.status, 2), view.kind, view.group, view.name, view.id))
    return shown, len(views) - len(shown), problem


def _of_stored(server: ServerDefinition, member: Presence | None, now_ms: int) -> ServerView:
    if member is not None:
        server.ping_time = max(server.ping_time, member.seen_at)
    error = "" if server.error is None else str(server.error.get("message", server.error))
    return ServerView(
        id=server.uuid,
        kind=server.service_name,
        group=server.server_group,
        name=server.server_name,
        status="stale" if is_stale(server, now_ms) else server.state,
        seen_ms=server.ping_time,
        started_ms=server.start_time,
        version="" if member is None else member.version,
        lag=None if member is None else member.lag,
        handlers=tuple(server.handlers),
        handled=sum(count.handled for count in server.handled),
        failed=sum(count.not_handled for count in server.handled),
        problem=error or ("" if member is None else "; ".join(member.reasons)),
    )


def _of_member(member: Presence, now_ms: int) -> ServerView:
    return ServerView(
        id=member.id,
        kind=member.kind,
        group=", ".join(member.groups),
        name=member.name or member.host,
        status="stale" if member.is_gone(now_ms) else ServerState.RUNNING,
        seen_ms=member.seen_at,
        started_ms=member.started_at or 0,
        version=member.version,
        lag=member.lag,
        handlers=member.facets,
        handled=member.handled or 0,
        failed=member.failed or 0,
        problem="; ".join(member.reasons),
    )
