"""The entry of a process in the list of servers: it registers, sends heartbeats, counts its work, and signs off."""

from __future__ import annotations

import logging
import socket
import threading
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from afl.core.clock import Clock
from afl.core.text.exception_text import exception_class, exception_text, exception_traceback
from afl.engine.model.entities import HandledCount, ServerDefinition, ServerState
from afl.engine.model.store_identity import IdentifiedStore
from afl.stores.public.persistence import TaskStore

_log = logging.getLogger(__name__)


class ServerStore(TaskStore, IdentifiedStore, Protocol):
    """A store in which servers are listed."""


class ServerRecord:
    """The record of one server. Any thread may use it; a failed write is repeated with the next heartbeat.

    Reading it and counting never wait for the store.
    """

    def __init__(
        self,
        store: ServerStore,
        clock: Clock,
        *,
        service_name: str,
        server_group: str,
        server_name: str,
        topics: Sequence[str] = (),
        heartbeat_interval_ms: int = 10_000,
        server_id: str = "",
    ) -> None:
        """`topics` are the server's configured topics; without any they are the names of its handlers.

        `server_id` is unique to this process; without one it is drawn.
        """
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        #: Held while the record is written, so that writes are in order.
        self._saving = threading.Lock()
        self._topics = list(topics)
        self._counts: dict[str, HandledCount] = {}
        #: Whether more than the time of the last heartbeat has changed.
        self._has_changes = False
        self._registered_s: float | None = None
        self._server = ServerDefinition(
            uuid=server_id or str(uuid.uuid4()),
            server_group=server_group,
            service_name=service_name,
            server_name=server_name or socket.gethostname(),
            heartbeat_interval_ms=heartbeat_interval_ms,
        )

    @property
    def server_id(self) -> str:
        """The server's id, unique to this instance."""
        return self._server.uuid

    @property
    def server_name(self) -> str:
        """The server's name for people; the host's when none was given."""
        return self._server.server_name

    @property
    def state(self) -> str:
        """A ServerState constant."""
        return self._server.state

    @property
    def heartbeat_interval_s(self) -> float:
        """The time between two heartbeats."""
        return self._server.heartbeat_interval_ms / 1_000

    @property
    def up_ms(self) -> int:
        """The time since it registered; 0: not yet."""
        since_s = self._registered_s
        return 0 if since_s is None else int((self._clock.monotonic_s() - since_s) * 1_000)

    def counts(self) -> list[HandledCount]:
        """Return the counts of handled and not handled tasks so far, by facet."""
        with self._lock:
            return [replace(count) for count in self._counts.values()]

    def register(self, names: Sequence[str]) -> None:
        """Appear in the list, as starting. Raises the store's errors: a server that cannot be listed must not work."""
        now_ms, self._registered_s = self._clock.now_ms(), self._clock.monotonic_s()
        self._save(
            server_ips=_addresses(),
            start_time=now_ms,
            ping_time=now_ms,
            topics=self._topics or list(names),
            handlers=list(names),
            state=ServerState.STARTUP,
            store_id=self._store.identity().id,
            error=None,
        )

    def running(self) -> None:
        """Note that it works from now on, with the id of the current store."""
        self._save(state=ServerState.RUNNING, store_id=self._store.identity().id)

    def handles(self, names: Sequence[str]) -> None:
        """Note the changed facets that it works on; written with the next heartbeat."""
        with self._lock:
            if list(names) != self._server.handlers:
                self._server = replace(self._server, topics=self._topics or list(names), handlers=list(names))
                self._has_changes = True

    def count(self, handler: str, *, handled: bool) -> None:
        """Count a task as handled or not handled; written with the next heartbeat."""
        with self._lock:
            count = self._counts.setdefault(handler, HandledCount(handler))
            if handled:
                count.handled += 1
            else:
                count.not_handled += 1
            self._has_changes = True

    def counted(self, counts: Iterable[HandledCount]) -> None:
        """Take over the counts of a server that counts for itself; written with the next heartbeat."""
        now = {count.handler: replace(count) for count in counts}
        with self._lock:
            if now != self._counts:
                self._counts, self._has_changes = now, True

    def troubled(self, trouble: str) -> None:
        """Note in words what blocks the server while it lives; empty: nothing. Written with the next heartbeat."""
        error: dict[str, object] | None = {"type": "NotReady", "message": trouble} if trouble else None
        with self._lock:
            if error != self._server.error:
                self._server = replace(self._server, error=error)
                self._has_changes = True

    def beat(self) -> None:
        """Send a heartbeat, with the changes since the last."""
        now_ms = self._clock.now_ms()
        with self._lock:
            self._server = replace(self._server, ping_time=now_ms)
            has_changes = self._has_changes
        if has_changes:
            self._try_save("could not send its heartbeat")
            return
        try:
            self._store.update_server_ping(self._server.uuid, now_ms)
        except Exception as error:  # noqa: BLE001 - a store that is away must not end the work
            _log.error("server %s could not send its heartbeat\n%s", self._server.uuid, exception_traceback(error))

    def leaving(self) -> None:
        """Note that it accepts no new work, and finishes its current work."""
        self._try_save("could not record that it is leaving", state=ServerState.SHUTDOWN)

    def sign_off(self, error: BaseException | None = None) -> None:
        """Sign off: SHUTDOWN, or ERROR with the cause of the end."""
        now_ms = self._clock.now_ms()
        if error is None:
            self._try_save("could not sign off", state=ServerState.SHUTDOWN, ping_time=now_ms, error=None)
        else:
            failure = {"type": exception_class(error), "message": exception_text(error)}
            self._try_save("could not sign off", state=ServerState.ERROR, ping_time=now_ms, error=failure)

    def _try_save(self, failing: str, **fields: object) -> None:
        try:
            self._save(**fields)
        except Exception as error:  # noqa: BLE001 - a store that is away must not end the work
            _log.error("server %s %s\n%s", self._server.uuid, failing, exception_traceback(error))

    def _save(self, **fields: Any) -> None:
        """Change the record and write it, with the counts. Raises the store's errors."""
        with self._saving:
            counts = self.counts()
            with self._lock:
                server = self._server = replace(self._server, handled=counts, **fields)
                self._has_changes = False
            try:
                self._store.save_server(server)
            except BaseException:
                with self._lock:
                    self._has_changes = True
                raise


def _addresses() -> list[str]:
    try:
        return [socket.gethostbyname(socket.gethostname())]
    except OSError:
        return []
