"""A TCP proxy before a Kafka broker that, from some moment on, swallows what the broker replies."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from enum import Enum
from types import TracebackType
from typing import Final, Self

_HOST: Final = "127.0.0.1"
#: The key of a request to fetch records, in Kafka's protocol.
_FETCH: Final = 1


class Swallows(Enum):
    """Which replies are lost."""

    NOTHING = "nothing"
    FETCHES = "replies to requests for records"
    EVERYTHING = "every reply"


class SwallowingProxy:
    """Stands between clients and one broker, which has to advertise the proxy's port."""

    def __init__(self, port: int, broker_port: int) -> None:
        self.port = port
        self.swallows = Swallows.NOTHING
        self.lost = 0
        self._broker_port = broker_port
        self._listener = socket.create_server((_HOST, port))
        self._sockets: set[socket.socket] = {self._listener}
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for opened in tuple(self._sockets):
            # A thread may wait in it: closing alone would not wake that.
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.add(client)
                try:
                    broker = socket.create_connection((_HOST, self._broker_port))
                except OSError:
                    client.close()
                    continue
                self._sockets.add(broker)
                #: The correlation ids of this connection's fetches.
                fetches: set[bytes] = set()
                threading.Thread(target=self._requests, args=(client, broker, fetches), daemon=True).start()
                threading.Thread(target=self._replies, args=(broker, client, fetches), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket, fetches: set[bytes]) -> None:
        # A request: its length, api key, api version, correlation id.
        while frame := _frame_of(client):
            if struct.unpack_from(">h", frame, 4)[0] == _FETCH:
                fetches.add(frame[8:12])
            if not _sent(broker, frame):
                break
        _end(broker)

    def _replies(self, broker: socket.socket, client: socket.socket, fetches: set[bytes]) -> None:
        # A reply: its length, correlation id.
        while frame := _frame_of(broker):
            is_fetch = frame[4:8] in fetches
            fetches.discard(frame[4:8])
            if self.swallows is Swallows.EVERYTHING or (is_fetch and self.swallows is Swallows.FETCHES):
                self.lost += 1
            elif not _sent(client, frame):
                break
        _end(client)


def _frame_of(source: socket.socket) -> bytes:
    """Return the next frame; empty when there is none."""
    head = _read(source, 4)
    if len(head) < 4:
        return b""
    body = _read(source, struct.unpack(">i", head)[0])
    return head + body


def _read(source: socket.socket, length: int) -> bytes:
    parts = bytearray()
    with suppress(OSError):
        while len(parts) < length and (part := source.recv(length - len(parts))):
            parts += part
    return bytes(parts)


def _sent(target: socket.socket, frame: bytes) -> bool:
    try:
        target.sendall(frame)
    except OSError:
        return False
    return True


def _end(target: socket.socket) -> None:
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
