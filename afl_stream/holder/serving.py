"""The holder's side of the socket: it lets other processes use the log that this process holds."""

from __future__ import annotations

import logging
import os
import socket
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from afl_stream.embedded.transport import EmbeddedBroker
from afl_stream.holder.error_forms import error_out
from afl_stream.holder.frames import write_frame
from afl_stream.holder.places import connect_to, listen_at, socket_path
from afl_stream.holder.sessions import Session
from afl_stream.transport import TransportError

_log = logging.getLogger(__name__)

#: Most connections at a time. An agent has one for each of its facets, and some more.
MAX_CONNECTIONS: Final = 500
#: How long a member may ask for nothing before others get its partitions: what Kafka's clients are given by default.
LONGEST_SILENCE_S: Final = 300.0
#: How often the members are looked at.
_LOOK_INTERVAL_S: Final = 1.0
#: How long closing waits for what is being answered.
_CLOSE_TIMEOUT_S: Final = 5.0
_CREDENTIALS: Final = struct.Struct("3i")


class HolderSocket:
    """Serves guests beside the log that this process holds. Close it before the broker; guests then look for another.

    Each connection has a thread. Only the user of this process gets in: the socket is that user's alone, in mode and
    by the kernel's word for who has connected.
    """

    def __init__(self, broker: EmbeddedBroker, log_path: Path, *, longest_silence_s: float = LONGEST_SILENCE_S) -> None:
        """Listen beside the log. The broker must have its file: the lock says that no other holder lives.

        Raises SocketUnusable.
        """
        self.path = socket_path(log_path)
        self._broker = broker
        self._longest_silence_s = longest_silence_s
        self._sessions: dict[Session, threading.Thread] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._listener = listen_at(self.path)
        self._listener.settimeout(_LOOK_INTERVAL_S)
        self._thread = threading.Thread(target=self._accept_all, name="holder-socket", daemon=True)
        self._thread.start()

    @property
    def guests(self) -> int:
        """The number of connections now."""
        with self._lock:
            return len(self._sessions)

    def close(self) -> None:
        """Let no guest in any more, and end those that are there: what they have not committed comes again."""
        with self._lock:
            if self._closing.is_set():
                return
            self._closing.set()
            sessions = dict(self._sessions)
        with suppress(TransportError):
            # A connection ends the wait of the thread that accepts.
            if (waker := connect_to(self.path)) is not None:
                waker.close()
        with suppress(OSError):
            self.path.unlink()
        self._thread.join(_CLOSE_TIMEOUT_S)
        self._listener.close()
        deadline_s = time.monotonic() + _CLOSE_TIMEOUT_S
        for session in sessions:
            session.end()
        for thread in sessions.values():
            thread.join(max(0.0, deadline_s - time.monotonic()))

    def _accept_all(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                pass
            except OSError as error:
                if not self._closing.is_set():
                    _log.warning("%s: no guest can be let in now: %s", self.path, error.strerror or error)
                    self._closing.wait(_LOOK_INTERVAL_S)
            else:
                self._let_in(connection)
            self._look_for_silence()

    def _let_in(self, connection: socket.socket) -> None:
        connection.setblocking(True)
        if not _is_ours(connection):
            _log.warning("%s: a process of another user was turned away", self.path)
            connection.close()
            return
        session = Session(connection, self._broker, os.getpid())
        thread = threading.Thread(target=self._serve, args=(session,), name="holder-guest", daemon=True)
        with self._lock:
            is_welcome = not self._closing.is_set() and len(self._sessions) < MAX_CONNECTIONS
            if is_welcome:
                self._sessions[session] = thread
        if is_welcome:
            thread.start()
            return
        full = TransportError(f"{self.path}: there are {MAX_CONNECTIONS} connections, and no more are let in")
        with suppress(TransportError, OSError):
            write_frame(connection, {"error": error_out(full)})
        connection.close()

    def _serve(self, session: Session) -> None:
        try:
            session.run()
        except Exception:  # noqa: BLE001 - the one place of this thread; the other guests are served all the same
            _log.exception("a guest's connection has ended by an error")
        finally:
            with self._lock:
                self._sessions.pop(session, None)

    def _look_for_silence(self) -> None:
        with self._lock:
            sessions = list(self._sessions)
        now_s = time.monotonic()
        for session in sessions:
            session.expire_after(self._longest_silence_s, now_s)


def _is_ours(connection: socket.socket) -> bool:
    """Return whether the process at the other end is of this process's user, or root's; true where nobody says."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    _pid, user, _group = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return user in (os.getuid(), 0)
