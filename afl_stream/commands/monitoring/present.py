"""The processes that announce themselves, in the form of the list of servers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from afl_stream.commands.invocation import NothingThere, open_transport

if TYPE_CHECKING:
    from afl.engine.model.entities import ServerDefinition
    from afl_stream.presence.records import Presence
    from afl_stream.settings.config import StreamConfig

#: How long a broker is waited for: the store knows the rest.
_CONNECT_S: Final = 5


def present_members(config: StreamConfig, remark: Callable[[str], None]) -> list[Presence]:
    """Return the processes on the topic of presence; none, and a remark, while it cannot be read."""
    from afl_stream.embedded.file import FileInUse
    from afl_stream.errors import SchemaUnavailable
    from afl_stream.presence.listing import read_presence
    from afl_stream.topics.declared import Topology
    from afl_stream.transport import TransportError

    if not config.is_kafka and not config.log_path.exists():
        return []
    patient = replace(config, kafka=replace(config.kafka, connect_timeout_s=_CONNECT_S))
    try:
        with open_transport(patient) as transport:
            return read_presence(transport, Topology(config).presence())
    except (NothingThere, FileInUse):
        # Who has an embedded log is in the store.
        return []
    except (TransportError, SchemaUnavailable) as error:
        remark(f"who announces itself is not known now: {error}")
        return []


def with_members(
    stored: Iterable[ServerDefinition], members: Sequence[Presence]
) -> tuple[list[ServerDefinition], dict[str, Presence]]:
    """Return the servers of the store and the members that it does not have, and the members by id.

    A member that is in both was seen when the later of both says.
    """
    by_id = {member.id: member for member in members}
    servers = []
    for server in stored:
        member = by_id.get(server.uuid)
        if member is not None:
            server.ping_time = max(server.ping_time, member.seen_at)
        servers.append(server)
    known = {server.uuid for server in servers}
    return [*servers, *(_server_of(member) for member in members if member.id not in known)], by_id


def _server_of(member: Presence) -> ServerDefinition:
    from afl.engine.model.entities import HandledCount, ServerDefinition, ServerState

    server = ServerDefinition(
        uuid=member.id,
        server_group=", ".join(member.groups),
        service_name=member.kind,
        server_name=member.name or member.host,
        start_time=member.started_at or 0,
        ping_time=member.seen_at,
        topics=list(member.facets),
        handlers=list(member.facets),
        heartbeat_interval_ms=member.interval_s * 1_000,
    )
    server.state = ServerState.RUNNING
    if member.handled is not None or member.failed is not None:
        server.handled = [HandledCount("", member.handled or 0, member.failed or 0)]
    if member.reasons:
        server.error = {"type": "NotReady", "message": "; ".join(member.reasons)}
    return server
