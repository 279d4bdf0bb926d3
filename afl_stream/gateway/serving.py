"""Serves a gateway in a thread, with its agents in others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from afl.core.monitoring.status_server import SettingNames
from afl_stream.gateway.application import make_application
from afl_stream.gateway.gateway import Gateway
from afl_stream.settings.config import StreamConfig
from afl_stream.transport import Transport
from afl_stream.web.access import Access
from afl_stream.web.serving import ServedApplication, serve

_NAMES: Final = SettingNames("gateway.host, --host", "gateway.port, --port")


@dataclass(frozen=True, slots=True)
class Served:
    """A gateway that is served."""

    address: str
    gateway: Gateway
    _served: ServedApplication

    def stop(self) -> bool:
        """Drain, then stop serving. Returns False where leases were left."""
        try:
            return self.gateway.drain()
        finally:
            self._served.stop()
            self.gateway.close()

    @property
    def is_serving(self) -> bool:
        return self._served.is_serving


def start(config: StreamConfig, transport: Transport, host: str | None = None, port: int | None = None) -> Served:
    """Start a gateway and serve it; port 0 means a free one.

    Raises AccessRefused, ConfigError, NoPortFree, NoSuchAddress, and what Agent.start raises.
    """
    settings = config.gateway
    access = Access.of_gateway(settings, settings.host if host is None else host)
    gateway = Gateway(config, transport)
    number = settings.port if port is None else port
    try:
        app = make_application(gateway, access)
        served = serve(app, access.host, number, _NAMES, "afl-gateway", on_shutdown=gateway.begin_stop)
    except BaseException:
        gateway.close()
        raise
    try:
        gateway.start()
    except BaseException:
        served.stop()
        raise
    return Served(served.address, gateway, served)
