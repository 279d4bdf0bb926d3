"""Serves a dashboard: in the process of a command, or in a thread of a process that has other work."""

from __future__ import annotations

import logging
import socket
import threading
from dataclasses import dataclass

import uvicorn

from afl.core.monitoring.status_server import NoPortFree, NoSuchAddress, SettingNames
from afl_stream.dashboard.actions.performing import LOG
from afl_stream.dashboard.application import make_application, make_dashboard
from afl_stream.dashboard.context import Dashboard
from afl_stream.dashboard.deployment import Deployment
from afl_stream.dashboard.security.access import Access

_NAMES = SettingNames("dashboard.host, --host", "dashboard.port, --port")
#: How long open pages may take to end: seconds.
_GRACE_S = 3
#: Connections at once; each open page keeps one for its live updates.
_MOST_CONNECTIONS = 1_000


@dataclass(frozen=True, slots=True)
class Served:
    """A dashboard that is served. `address` is what to open in a browser."""

    address: str
    _server: uvicorn.Server
    _thread: threading.Thread
    _dashboard: Dashboard

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop serving, and close what the dashboard has opened."""
        self._server.should_exit = True
        self._thread.join(timeout_s)
        self._dashboard.deployment.close()

    @property
    def is_serving(self) -> bool:
        return self._thread.is_alive()


def start(deployment: Deployment, access: Access, port: int) -> Served:
    """Serve a deployment on the host of `access`, in a thread of its own; port 0 means a free one.

    The dashboard has its own connections to store and broker, which `Served.stop` closes. Raises NoPortFree and
    NoSuchAddress.
    """
    listening = _listen(access.host, port)
    dashboard = make_dashboard(deployment, access)
    config = uvicorn.Config(
        make_application(dashboard),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # The headers of a proxy are read by the guard alone, which knows whose count.
        proxy_headers=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=_GRACE_S,
        timeout_keep_alive=30,
    )
    # Who did what is always shown, whatever the level of other lines is.
    LOG.setLevel(logging.INFO)
    server = _Server(config, dashboard)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="afl-dashboard", daemon=True)
    thread.start()
    shown = f"[{access.host}]" if ":" in access.host else access.host
    return Served(f"http://{shown}:{listening.getsockname()[1]}", server, thread, dashboard)


class _Server(uvicorn.Server):
    """A server that leaves the process's signals alone, and ends live messages when it stops."""

    def __init__(self, config: uvicorn.Config, dashboard: Dashboard) -> None:
        super().__init__(config)
        self._dashboard = dashboard

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._dashboard.live.close()
        await super().shutdown(sockets)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except socket.gaierror as error:
        listening.close()
        raise NoSuchAddress(host, error, _NAMES) from error
    except OSError as error:
        listening.close()
        raise NoPortFree(host, port, port, error, _NAMES) from error
    listening.listen(512)
    return listening
