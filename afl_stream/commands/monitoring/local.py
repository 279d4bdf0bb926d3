"""The metrics and the health of the command `dev`: of all services of its process together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from afl_stream.commands.monitoring.serving import monitored

if TYPE_CHECKING:
    from afl.core.monitoring.health import ServiceHealth
    from afl.core.monitoring.metrics import MetricSource
    from afl_stream.dev import LocalDeployment


@contextmanager
def monitored_deployment(remark: Callable[[str], None], deployment: LocalDeployment) -> Iterator[None]:
    """Serve and send the metrics of a deployment that runs here, as its settings say; `remark` is told where."""
    observer, service = deployment.observer, deployment.evaluator
    if observer is None or service is None:
        yield
        return
    from afl.core.clock import SystemClock
    from afl.core.monitoring.health import together
    from afl_stream.agent.metrics import AgentMetrics
    from afl_stream.audit.metrics import AuditMetrics
    from afl_stream.evaluator.monitoring.health import EvaluatorHealth
    from afl_stream.evaluator.monitoring.metrics import EvaluatorMetrics
    from afl_stream.evaluator.monitoring.store_watch import StoreWatch

    config = deployment.config
    stuck_s, agent, audit = config.metrics.stuck_after_s, deployment.agent, deployment.audit
    with closing(StoreWatch(deployment.store, SystemClock())) as watch:
        watch.start()
        judges: list[Callable[[], ServiceHealth]] = [EvaluatorHealth(service, watch, stuck_s)]
        sources: list[MetricSource] = []
        if agent is not None and agent.config.observer is not None:
            of_agent = AgentMetrics(agent, agent.config.observer)
            sources.append(of_agent)
            judges.append(partial(of_agent.health, stuck_s))
        if audit is not None:
            of_audit = AuditMetrics(audit)
            sources.append(of_audit)
            judges.append(partial(of_audit.health, stuck_s))

        def health() -> ServiceHealth:
            return together(*(judge() for judge in judges))

        with monitored(remark, config, "dev", EvaluatorMetrics(service, observer, watch), health, *sources):
            yield
