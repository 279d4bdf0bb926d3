"""A TCP proxy before a server that speaks HTTP: it lets through, resets, cuts, delays, is silent, or answers itself."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from enum import Enum
from types import TracebackType
from typing import Final, Self

_HOST: Final = "127.0.0.1"
#: The option by which closing resets the connection: nothing is said, and nothing waited for.
_RESETS: Final = struct.pack("ii", 1, 0)


class Fault(Enum):
    """What becomes of a connection."""

    NONE = "none"
    RESET = "reset at once"
    CUT = "reset in the middle of an answer"
    SILENT = "no answer"
    SLOW = "the answer comes after a while"
    UNAVAILABLE = "503 Service Unavailable"
    BROKEN = "500 Internal Server Error"
    PAGE = "a page of another program, with 200 OK"
    NOT_FOUND_PAGE = "a page of another program, with 404 Not Found"


_ANSWERS: Final = {
    Fault.UNAVAILABLE: ("503 Service Unavailable", "<html>come back later</html>"),
    Fault.BROKEN: ("500 Internal Server Error", '{"error_code": 50001, "message": "the backend store failed"}'),
    Fault.PAGE: ("200 OK", "<html>Sign in to this network</html>"),
    Fault.NOT_FOUND_PAGE: ("404 Not Found", "<html>there is nothing here</html>"),
}


class FaultyProxy:
    """Stands before a server. `fault` is for the requests from then on that begin with `faulty`.

    `met` counts those with a fault, `asked` also those without one.
    """

    def __init__(self, server_port: int, faulty: bytes = b"", delay_s: float = 1.5) -> None:
        """`delay_s`: how late a SLOW answer is."""
        self.fault = Fault.NONE
        self._faulty = faulty
        self._delay_s = delay_s
        self._closed = threading.Event()
        self.met = 0
        self.asked = 0
        self._server_port = server_port
        self._listener = socket.create_server((_HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: set[socket.socket] = {self._listener}
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, path: str) -> str:
        return f"http://{_HOST}:{self.port}{path}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closed.set()
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
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server: socket.socket | None = None
        with suppress(OSError):
            while request := _request_of(client):
                is_meant = request.startswith(self._faulty)
                fault = self.fault if is_meant else Fault.NONE
                self.asked += is_meant
                self.met += fault is not Fault.NONE
                if fault is Fault.RESET:
                    break
                if fault is Fault.SILENT:
                    continue
                if fault is Fault.SLOW:
                    self._closed.wait(self._delay_s)
                if fault in _ANSWERS:
                    client.sendall(_answer(*_ANSWERS[fault]))
                    continue
                if server is None:
                    server = socket.create_connection((_HOST, self._server_port))
                    self._sockets.add(server)
                    threading.Thread(target=self._replies, args=(server, client), daemon=True).start()
                server.sendall(request)
            else:
                return
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESETS)
        client.close()

    def _replies(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while reply := server.recv(65_536):
                if self.fault is Fault.CUT:
                    client.sendall(reply[: len(reply) - 5])
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESETS)
                    break
                client.sendall(reply)
        client.close()


def _request_of(client: socket.socket) -> bytes:
    """Return the next request, whole; empty when there is none."""
    request = bytearray()
    while True:
        head, end, body = bytes(request).partition(b"\r\n\r\n")
        if end:
            sizes = [
                line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
            ]
            if len(body) >= (int(sizes[0]) if sizes else 0):
                return bytes(request)
        part = client.recv(65_536)
        if not part:
            return b""
        request += part


def _answer(status: str, body: str) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nContent-Type: text/html\r\n\r\n"
    return (head + body).encode()
