"""The metrics, the health and the presence of the command `audit`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from afl_stream.commands.monitoring.serving import monitored

if TYPE_CHECKING:
    from afl_stream.audit.audit import Audit
    from afl_stream.presence.records import Presence
    from afl_stream.transport import Transport


@contextmanager
def seen_audit(remark: Callable[[str], None], transport: Transport, audit: Audit) -> Iterator[None]:
    """Announce an audit while this lasts, and serve and send its metrics, as its settings say.

    One that reads for itself, without a group, is not announced.
    """
    from afl_stream.audit.metrics import AuditMetrics
    from afl_stream.presence.announcing import announced, new_member
    from afl_stream.topics.declared import Topology

    config, group = audit.config.stream, audit.group
    interval_s = 0 if group is None else config.presence.interval_s
    member = new_member("audit", interval_s)

    def describe() -> Presence:
        health, counts = audit.health(), audit.counts
        return replace(
            member,
            groups=() if group is None else (group,),
            partitions=len(audit.progress.lag.lags),
            lag=sum(lag.committed for lag in audit.progress.lag.lags.values()),
            handled=counts.written,
            failed=counts.unreadable,
            ready=health.ready,
            reasons=health.reasons,
        )

    metrics = AuditMetrics(audit)
    health = partial(metrics.health, config.metrics.stuck_after_s)
    serving = monitored(remark, config, "audit", metrics, health) if config.metrics.are_on else nullcontext()
    with announced(transport, Topology(config).presence(), interval_s, describe), serving:
        yield
