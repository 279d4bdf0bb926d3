"""The metrics and the health of the command `evaluator`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from afl_stream.commands.monitoring.serving import monitored

if TYPE_CHECKING:
    from afl.stores.public.persistence import EngineStore
    from afl.workers.server_record import ServerRecord
    from afl_stream.evaluator.monitoring.observer import EvaluatorObserver
    from afl_stream.evaluator.service import EvaluatorService
    from afl_stream.presence.records import Presence
    from afl_stream.settings.config import StreamConfig
    from afl_stream.transport import Transport


def observer_of(config: StreamConfig) -> EvaluatorObserver | None:
    """Return what takes notes for the metrics; None where they are off."""
    if not config.metrics.are_on:
        return None
    from afl_stream.evaluator.monitoring.observer import EvaluatorObserver
    from afl_stream.topics.declared import Topology

    return EvaluatorObserver(Topology(config).facets_of)


@contextmanager
def announced_evaluator(
    config: StreamConfig, transport: Transport, service: EvaluatorService, server: ServerRecord
) -> Iterator[None]:
    """Announce an evaluator while this lasts, under the id that it has in the store."""
    from afl_stream.evaluator.outcomes import Outcome
    from afl_stream.presence.announcing import announced, new_member
    from afl_stream.topics.declared import Topology

    interval_s = config.presence.interval_s
    member = new_member("evaluator", interval_s, member_id=server.server_id, name=server.server_name)

    def describe() -> Presence:
        health, stats = service.health(), service.loop.stats()
        return replace(
            member,
            groups=(config.evaluator_group,),
            partitions=len(stats.owned),
            lag=sum(lag.committed for lag in service.lag.lags.values()),
            in_flight=stats.unacknowledged,
            handled=stats.outcomes.get(Outcome.APPLIED, 0),
            failed=sum(stats.dead_letters.values()),
            ready=health.ready,
            reasons=health.reasons,
        )

    with announced(transport, Topology(config).presence(), interval_s, describe):
        yield


@contextmanager
def monitored_evaluator(
    remark: Callable[[str], None],
    config: StreamConfig,
    service: EvaluatorService,
    store: EngineStore,
    observer: EvaluatorObserver | None,
) -> Iterator[None]:
    """Serve and send the metrics of an evaluator while this lasts; nothing without an observer."""
    if observer is None:
        yield
        return
    from afl.core.clock import SystemClock
    from afl_stream.evaluator.monitoring.health import EvaluatorHealth
    from afl_stream.evaluator.monitoring.metrics import EvaluatorMetrics
    from afl_stream.evaluator.monitoring.store_watch import StoreWatch

    with closing(StoreWatch(store, SystemClock())) as watch:
        watch.start()
        health = EvaluatorHealth(service, watch, config.metrics.stuck_after_s)
        with monitored(remark, config, "evaluator", EvaluatorMetrics(service, observer, watch), health):
            yield
