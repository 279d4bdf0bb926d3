"""The metrics and the health of the command `gateway`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from afl_stream.commands.monitoring.agents import announced_agent
from afl_stream.commands.monitoring.serving import monitored

if TYPE_CHECKING:
    from afl_stream.gateway.serving import Served
    from afl_stream.transport import Transport


@contextmanager
def seen_gateway(remark: Callable[[str], None], transport: Transport, served: Served) -> Iterator[None]:
    """Announce a gateway's agents while this lasts, and serve and send its metrics, as its settings say."""
    from afl_stream.gateway.metrics import GatewayMetrics

    gateway = served.gateway
    config = gateway.config
    with ExitStack() as opened:
        for running in gateway.agents:
            opened.enter_context(announced_agent(transport, running.agent))
        if config.metrics.are_on:
            metrics = GatewayMetrics(gateway)
            health = partial(metrics.health, config.metrics.stuck_after_s)
            opened.enter_context(monitored(remark, config, "gateway", metrics, health))
        yield
