"""A process in the list of servers: it registers, sends heartbeats, counts what it did, and signs off."""

from __future__ import annotations

import logging
import socket
import threading
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from afl.runtime.clock import Clock
from afl.runtime.entities import HandledCount, ServerDefinition, ServerState
from afl.runtime.persistence import TaskStore

_log = logging.getLogger(__name__)

#: A server that has missed this many heartbeats is taken to be gone.
MISSED_BEATS: Final = 3


class Presence:
    """The record of one server. Any thread may use it; what the store refuses is told with the next beat."""

    def __init__(
        self, store: TaskStore, clock: Clock, *, service_name: str, server_group: str, server_name: str
    ) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: dict[str, HandledCount] = {}
        #: Something but the time of the last heartbeat is to be told.
        self._news = False
        self._server = ServerDefinition(
            uuid=str(uuid.uuid4()),
            server_group=server_group,
            service_name=service_name,
            server_name=server_name or socket.gethostname(),
        )

    @property
    def server_id(self) -> str:
        """The server's id, unique to this instance."""
        return self._server.uuid

    @property
    def server_name(self) -> str:
        """The name that people know the server by; the host's when none was given."""
        return self._server.server_name

    @property
    def state(self) -> str:
        """A ServerState constant."""
        return self._server.state

    def register(self, names: Sequence[str]) -> None:
        """Appear in the list, starting up. Raises what the store raises: who can't be seen must not work."""
        now_ms = self._clock.now_ms()
        with self._lock:
            server = self._server
            server.server_ips, server.start_time, server.ping_time = _addresses(), now_ms, now_ms
            server.topics, server.handlers, server.state = list(names), list(names), ServerState.STARTUP
            server.error = None
            self._store.save_server(replace(server))

    def running(self) -> None:
        """It works from here on."""
        with self._lock:
            self._server.state = ServerState.RUNNING
            self._store.save_server(replace(self._server))

    def handles(self, names: Sequence[str]) -> None:
        """The facets have changed that it works on; told with the next beat."""
        with self._lock:
            if list(names) != self._server.handlers:
                self._server.topics, self._server.handlers = list(names), list(names)
                self._news = True

    def count(self, handler: str, *, handled: bool) -> None:
        """Count a task as handled or not handled; told with the next beat."""
        with self._lock:
            count = self._counts.setdefault(handler, HandledCount(handler))
            if handled:
                count.handled += 1
            else:
                count.not_handled += 1
            self._news = True

    def beat(self) -> None:
        """Send a heartbeat, with the news since the last."""
        now_ms = self._clock.now_ms()
        with self._lock:
            self._server.ping_time = now_ms
            try:
                if self._news:
                    self._server.handled = [replace(count) for count in self._counts.values()]
                    self._store.save_server(replace(self._server))
                    self._news = False
                else:
                    self._store.update_server_ping(self._server.uuid, now_ms)
            except Exception:  # noqa: BLE001 - a store that is away must not end the work
                _log.exception("server %s could not send its heartbeat", self._server.uuid)

    def sign_off(self, error: BaseException | None = None) -> None:
        """Leave the list of the living: SHUTDOWN, or ERROR with what it died of."""
        with self._lock:
            self._server.state = ServerState.SHUTDOWN if error is None else ServerState.ERROR
            self._server.ping_time = self._clock.now_ms()
            self._server.handled = [replace(count) for count in self._counts.values()]
            if error is not None:
                self._server.error = {"type": type(error).__name__, "message": str(error)}
            try:
                self._store.save_server(replace(self._server))
            except Exception:  # noqa: BLE001 - a store that is away must not end the work
                _log.exception("server %s could not sign off", self._server.uuid)


def is_stale(server: ServerDefinition, now_ms: int, heartbeat_interval_ms: int = 10_000) -> bool:
    """Say whether a server that has not signed off is to be taken for gone: its heartbeats have stopped."""
    alive = server.state in (ServerState.STARTUP, ServerState.RUNNING)
    return alive and now_ms - server.ping_time > MISSED_BEATS * heartbeat_interval_ms


def _addresses() -> list[str]:
    try:
        return [socket.gethostbyname(socket.gethostname())]
    except OSError:
        return []
