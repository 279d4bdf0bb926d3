"""The HTTP server of a service: its health, status and metrics, for probes, collectors and people.

The served data is in memory, so it answers while the store is unavailable. It has threads of its own and does not delay
the end of the process. Clients have a bounded number of connections, and each request a bounded time and size.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import urlsplit

from afl.core.errors import RuntimeError as EngineError
from afl.core.json_objects import write_json

_log = logging.getLogger(__name__)

#: The time for a request and its answer together, after which the connection is closed, even if bytes still arrive.
_REQUEST_TIMEOUT_S: Final = 5.0
#: The size of request line and headers. Probes send some hundred bytes.
_MOST_REQUEST_BYTES: Final = 16 * 1024
#: The most connections at a time. One more closes the oldest connection: a probe is always answered, whichever clients
#: keep connections open.
MAX_CONNECTIONS: Final = 32
#: The time that a closed connection has to end.
_HANGING_UP_S: Final = 1.0
#: The highest port number.
LAST_PORT: Final = 65_535


class Page(NamedTuple):
    """A text of another form than JSON."""

    content_type: str
    body: bytes


#: An HTTP status code, and the answer: the members of a JSON document, or a page.
Answer = tuple[HTTPStatus, Mapping[str, object] | Page]


class SettingNames(NamedTuple):
    """The names of a server's settings, for its messages."""

    host: str = "http_host"
    port: str = "http_port, http_max_port_attempts"


USUAL_NAMES: Final = SettingNames()


class NoPortFree(EngineError, builtins.RuntimeError):
    """None of the tried ports was free."""

    def __init__(self, host: str, first: int, last: int, cause: OSError, names: SettingNames = USUAL_NAMES) -> None:
        ports = f"port {first}" if first == last else f"any port from {first} to {last}"
        super().__init__(
            f"Could not bind {ports} of {host or 'any address'}: {cause.strerror or cause}; "
            f"stop what listens there, or name other ports ({names.port})"
        )
        self.host, self.first, self.last = host, first, last


class NoSuchAddress(EngineError, builtins.RuntimeError):
    """The address to listen on is invalid."""

    def __init__(self, host: str, cause: OSError, names: SettingNames = USUAL_NAMES) -> None:
        super().__init__(
            f"Could not bind {host}: {cause.strerror or cause}; name an address of this machine "
            f"({names.host}), "
            "or 0.0.0.0 for all"
        )
        self.host = host


class StatusServer:
    """A server that listens from `start` to `stop`. `routes` map a path to its answer, which must not wait."""

    def __init__(
        self,
        routes: Mapping[str, Callable[[], Answer]],
        *,
        name: str = "afl-runner",
        settings: SettingNames = USUAL_NAMES,
    ) -> None:
        """`name` is what it calls itself; `settings` are what its messages name."""
        self._routes = routes
        self._name = name
        self._settings = settings
        self._server: ThreadingHTTPServer | None = None

    @property
    def port(self) -> int | None:
        """The port that it listens on; None while it does not listen."""
        server = self._server
        return None if server is None else int(server.server_address[1])

    def start(self, host: str, first_port: int, attempts: int) -> int:
        """Listen on the first free port of a range, and return it.

        Raises NoPortFree, NoSuchAddress, and ValueError for a number that is not a port.
        """
        if not 0 <= first_port <= LAST_PORT:
            raise ValueError(f"http_port {first_port} is not a port: 0 to {LAST_PORT}")
        last = first_port if first_port == 0 else min(first_port + max(attempts, 1) - 1, LAST_PORT)
        handler = type("Handler", (_Handler,), {"routes": self._routes, "service_name": self._name})
        make = _ServerOnV6 if ":" in host else _Server
        refused: OSError | None = None
        for port in range(first_port, last + 1):
            try:
                self._server = make((host, port), handler)
                break
            except socket.gaierror as error:
                raise NoSuchAddress(host, error, self._settings) from error
            except OSError as error:
                refused = error
        if self._server is None:
            assert refused is not None
            raise NoPortFree(host, first_port, last, refused, self._settings) from refused
        serve = self._server.serve_forever
        threading.Thread(target=serve, args=(0.1,), name="afl-status", daemon=True).start()
        return int(self._server.server_address[1])

    def stop(self) -> None:
        """Stop listening; the port is free when this returns."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()


class _RequestTooLarge(Exception):
    """The client sent more than the largest request."""


class _RequestReader(io.RawIOBase):
    """Reader of a request from its socket, with a deadline and a size limit."""

    def __init__(self, connection: socket.socket, deadline_s: float) -> None:
        self._connection = connection
        self._deadline_s = deadline_s
        self._left = _MOST_REQUEST_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if self._left <= 0:
            raise _RequestTooLarge
        self._connection.settimeout(_left_s(self._deadline_s))
        count = self._connection.recv_into(memoryview(buffer)[: self._left])
        self._left -= count
        return count


def _left_s(deadline_s: float) -> float:
    # Not 0, which would mean a socket that never waits.
    return max(deadline_s - time.monotonic(), 0.001)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    #: A hanging connection is closed by its time-out: no thread waits for it.
    block_on_close = False
    #: A port that another process listens on must fail, so that the next one is tried.
    allow_reuse_port = False
    request_queue_size = 512

    def __init__(self, *args: Any) -> None:
        #: Open connections, the oldest first.
        self._connections: dict[object, socket.socket] = {}
        self._changed = threading.Condition()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            if len(self._connections) >= MAX_CONNECTIONS:
                oldest = next(iter(self._connections.values()))
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
                self._changed.wait_for(lambda: len(self._connections) < MAX_CONNECTIONS, _HANGING_UP_S)
            is_full = len(self._connections) >= MAX_CONNECTIONS
            if not is_full:
                self._connections[request] = request
        if is_full:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._changed:
            if self._connections.pop(request, None) is not None:
                self._changed.notify_all()

    def server_bind(self) -> None:
        # HTTPServer's version would look up the host's name, which may take long without a name service.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, _request: object, _client_address: object) -> None:
        _log.debug("a request to the status server failed", exc_info=True)


class _ServerOnV6(_Server):
    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    routes: ClassVar[Mapping[str, Callable[[], Answer]]] = {}
    service_name: ClassVar[str] = ""

    def setup(self) -> None:
        super().setup()
        self._deadline_s = time.monotonic() + _REQUEST_TIMEOUT_S
        self.rfile.close()
        self.rfile = io.BufferedReader(_RequestReader(self.connection, self._deadline_s))

    def handle(self) -> None:
        try:
            super().handle()
        except _RequestTooLarge:
            self.requestline, self.request_version, self.close_connection = "", "HTTP/1.0", True
            found = {"error": f"a request has {_MOST_REQUEST_BYTES} bytes at most"}
            self._send(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, found)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _refuse(self) -> None:
        self.close_connection = True
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, {"error": "method not allowed"}, allow="GET, HEAD")

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse  # noqa: N815 - the names are the base class's

    def version_string(self) -> str:
        return self.service_name

    def log_message(self, format: str, *args: object) -> None:
        # The base class defines the name. Probes come every few seconds, and are not logged.
        _log.debug("%s %s", self.address_string(), format % args)

    def _answer(self, *, with_body: bool) -> None:
        status, answer = self._found(urlsplit(self.path).path)
        self._send(status, answer, with_body=with_body)

    def _found(self, path: str) -> Answer:
        route = self.routes.get(path)
        if route is None:
            return HTTPStatus.NOT_FOUND, {"error": "not found"}
        try:
            return route()
        except Exception:  # noqa: BLE001 - the one place of this thread
            _log.exception("the answer to %s could not be made", path)
            return HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "internal error"}

    def _send(
        self, status: HTTPStatus, answer: Mapping[str, object] | Page, *, with_body: bool = True, allow: str = ""
    ) -> None:
        if isinstance(answer, Page):
            content_type, body = answer
        else:
            content_type, body = "application/json", write_json(answer, indent=None).encode()
        self.connection.settimeout(_left_s(self._deadline_s))
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        if allow:
            self.send_header("Allow", allow)
        self.end_headers()
        if with_body:
            self.wfile.write(body)
