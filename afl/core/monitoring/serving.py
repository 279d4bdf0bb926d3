"""The server of a service's metrics and health."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Final

from afl.core.monitoring.health import ServiceHealth, health_routes
from afl.core.monitoring.metrics import BUILD, LIVE, READY, SERVICE_METRICS, Family, Metric, MetricSource
from afl.core.monitoring.status_server import Answer, Page, SettingNames, StatusServer
from afl.core.versions import RUNTIME_VERSION

if TYPE_CHECKING:
    from afl.core.monitoring.prometheus import PrometheusPage

#: What to install where metrics cannot be served.
MISSING: Final = "/metrics needs the extra metrics: pip install afl-stream[metrics]"
_NAMES: Final = SettingNames("metrics.host", "metrics.port, --metrics-port")


class ServiceMetrics:
    """What every service says of itself: its release, and its health as figures."""

    metrics: Sequence[Metric] = SERVICE_METRICS

    def __init__(self, service: str, health: Callable[[], ServiceHealth]) -> None:
        self._service = service
        self._health = health

    def collect(self) -> Iterator[Family]:
        """Return the values of now."""
        health, label = self._health(), (self._service,)
        yield Family(BUILD, {(self._service, RUNTIME_VERSION): 1.0})
        yield Family(READY, {label: float(health.is_ready)})
        yield Family(LIVE, {label: float(health.is_live)})


class MonitoringServer:
    """Serves `/metrics`, `/health/live` and `/health/ready` from `start` to `stop`.

    Without the extra `metrics` it serves the health alone, and `/metrics` says what to install.
    """

    def __init__(self, sources: Sequence[MetricSource], health: Callable[[], ServiceHealth]) -> None:
        """Serve these sources' metrics, and what `health` returns."""
        self.has_metrics, route = metrics_route(sources)
        self._server = StatusServer({"/metrics": route, **health_routes(health)}, name="afl-stream", settings=_NAMES)

    def start(self, host: str, port: int) -> int:
        """Listen, on a free port for 0, and return the port. Raises NoPortFree, NoSuchAddress and ValueError."""
        return self._server.start(host, port, 1)

    def stop(self) -> None:
        """Stop listening."""
        self._server.stop()


def metrics_route(sources: Sequence[MetricSource]) -> tuple[bool, Callable[[], Answer]]:
    """Return whether metrics can be served, and the route: the page, or without the extra what to install."""
    if find_spec("prometheus_client") is None:
        return False, lambda: (HTTPStatus.NOT_IMPLEMENTED, {"error": MISSING})
    page = _LazyPage(sources)
    return True, lambda: (HTTPStatus.OK, page.page())


class _LazyPage:
    """The page of these sources, whose library is loaded when it is asked for first."""

    def __init__(self, sources: Sequence[MetricSource]) -> None:
        self._sources = sources
        self._lock = Lock()
        self._made: PrometheusPage | None = None

    def page(self) -> Page:
        with self._lock:
            if self._made is None:
                from afl.core.monitoring.prometheus import PrometheusPage

                self._made = PrometheusPage(self._sources)
        return self._made.page()
