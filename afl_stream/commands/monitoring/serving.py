"""The metrics and the health of a service, served while its command runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from afl_stream.errors import ConfigError

if TYPE_CHECKING:
    from afl.core.monitoring.health import ServiceHealth
    from afl.core.monitoring.metrics import MetricSource
    from afl_stream.settings.config import StreamConfig


@contextmanager
def monitored(
    remark: Callable[[str], None],
    config: StreamConfig,
    service: str,
    source: MetricSource,
    health: Callable[[], ServiceHealth],
    *more: MetricSource,
) -> Iterator[None]:
    """Serve and send the metrics of a service while this lasts, as the settings say; `remark` is told where.

    `more`: the metrics of others that run in the same process. Raises ConfigError, NoPortFree and NoSuchAddress.
    """
    from afl.core.monitoring.serving import MISSING, MonitoringServer, ServiceMetrics

    settings = config.metrics
    sources: Sequence[MetricSource] = (ServiceMetrics(service, health), source, *more)
    with ExitStack() as opened:
        if settings.port is not None:
            server = MonitoringServer(sources, health)
            port = server.start(settings.host, settings.port)
            opened.callback(server.stop)
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            served = "/metrics, /health/live and /health/ready" if server.has_metrics else "/health/live, /health/ready"
            remark(f"http://{host}:{port} has {served}")
            if not server.has_metrics:
                remark(MISSING)
        if settings.otlp:
            opened.enter_context(_sending(config, service, sources))
        yield


@contextmanager
def _sending(config: StreamConfig, service: str, sources: Sequence[MetricSource]) -> Iterator[None]:
    try:
        from afl.core.monitoring.otlp import OtlpExport
    except ModuleNotFoundError as error:
        expected = "an installed extra: pip install afl-stream[otel]"
        raise ConfigError("metrics", "otlp", f"true without {error.name}", expected) from error
    settings = config.metrics
    export = OtlpExport(f"afl-stream-{service}", sources, settings.otlp_interval_s, endpoint=settings.otlp_endpoint)
    export.start()
    try:
        yield
    finally:
        export.close()
