"""Serves an application of HTTP in a thread of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from afl.core.monitoring.status_server import NoPortFree, NoSuchAddress, SettingNames

#: How long open requests may take to end: seconds.
_GRACE_S: Final = 3
#: Connections at once; each open page keeps one for its live updates.
_MOST_CONNECTIONS: Final = 1_000


@dataclass(frozen=True, slots=True)
class ServedApplication:
    """An application that is served. `address` is where."""

    address: str
    _server: uvicorn.Server
    _thread: threading.Thread

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop serving."""
        self._server.should_exit = True
        self._thread.join(timeout_s)

    @property
    def is_serving(self) -> bool:
        return self._thread.is_alive()


def serve(
    app: ASGIApp, host: str, port: int, names: SettingNames, thread_name: str, *, on_shutdown: Callable[[], None]
) -> ServedApplication:
    """Serve an application in a thread; port 0 means a free one. `names` are the settings of host and port.

    `on_shutdown` is called on the event loop before open requests are waited for. Raises NoPortFree and NoSuchAddress.
    """
    listening = _listen(host, port, names)
    config = uvicorn.Config(
        app,
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
    server = _Server(config, on_shutdown)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name=thread_name, daemon=True)
    thread.start()
    shown = f"[{host}]" if ":" in host else host
    return ServedApplication(f"http://{shown}:{listening.getsockname()[1]}", server, thread)


class _Server(uvicorn.Server):
    """A server that leaves the process's signals alone, and ends long requests when it stops."""

    def __init__(self, config: uvicorn.Config, on_shutdown: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_shutdown = on_shutdown

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_shutdown()
        await super().shutdown(sockets)


def _listen(host: str, port: int, names: SettingNames) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except socket.gaierror as error:
        listening.close()
        raise NoSuchAddress(host, error, names) from error
    except OSError as error:
        listening.close()
        raise NoPortFree(host, port, port, error, names) from error
    listening.listen(512)
    return listening
