"""The metrics and the health of the command `agent`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from afl_stream.commands.monitoring.serving import monitored

if TYPE_CHECKING:
    from afl_stream.agent.agent import Agent
    from afl_stream.presence.records import Presence
    from afl_stream.transport import Transport


@contextmanager
def announced_agent(transport: Transport, agent: Agent, member_id: str = "") -> Iterator[None]:
    """Announce an agent while this lasts, as its settings say; under a new id unless it has one."""
    from afl_stream.presence.announcing import announced, new_member
    from afl_stream.topics.declared import Topology

    config = agent.config.stream
    interval_s = config.presence.interval_s
    member = new_member("agent", interval_s, member_id=member_id, name=agent.config.name)

    def describe() -> Presence:
        health, counts = agent.health(), agent.counts
        return replace(
            member,
            groups=tuple(agent.groups),
            facets=tuple(agent.registered_names()),
            lag=health.lag,
            in_flight=health.in_flight,
            handled=counts.handled,
            failed=counts.failed,
            ready=health.ready,
            reasons=health.reasons,
            retrying=agent.failed_tries.snapshot(),
        )

    with announced(transport, Topology(config).presence(), interval_s, describe):
        yield


@contextmanager
def monitored_agent(remark: Callable[[str], None], agent: Agent) -> Iterator[None]:
    """Serve and send the metrics of an agent while this lasts, as its settings say; `remark` is told where."""
    from afl_stream.agent.metrics import AgentMetrics

    observer, config = agent.config.observer, agent.config.stream
    if observer is None:
        yield
        return
    metrics = AgentMetrics(agent, observer)
    health = partial(metrics.health, config.metrics.stuck_after_s)
    with monitored(remark, config, "agent", metrics, health):
        yield
