"""Serves a dashboard: in the process of a command, or in a thread of a process that has other work."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from afl.core.monitoring.status_server import SettingNames
from afl_stream.dashboard.actions.performing import LOG
from afl_stream.dashboard.application import make_application, make_dashboard
from afl_stream.dashboard.context import Dashboard
from afl_stream.dashboard.deployment import Deployment
from afl_stream.web.access import Access
from afl_stream.web.serving import ServedApplication, serve

_NAMES = SettingNames("dashboard.host, --host", "dashboard.port, --port")


@dataclass(frozen=True, slots=True)
class Served:
    """A dashboard that is served. `address` is what to open in a browser."""

    address: str
    _served: ServedApplication
    _dashboard: Dashboard

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop serving, and close what the dashboard has opened."""
        self._served.stop(timeout_s)
        self._dashboard.deployment.close()

    @property
    def is_serving(self) -> bool:
        return self._served.is_serving


def start(deployment: Deployment, access: Access, port: int) -> Served:
    """Serve a deployment on the host of `access`, in a thread of its own; port 0 means a free one.

    The dashboard has its own connections to store and broker, which `Served.stop` closes. Raises NoPortFree and
    NoSuchAddress.
    """
    dashboard = make_dashboard(deployment, access)
    # Who did what is always shown, whatever the level of other lines is.
    LOG.setLevel(logging.INFO)
    served = serve(
        make_application(dashboard), access.host, port, _NAMES, "afl-dashboard", on_shutdown=dashboard.live.close
    )
    return Served(served.address, served, dashboard)
