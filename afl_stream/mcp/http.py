"""The server over streamable HTTP: on this machine, or elsewhere with a token."""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import socket
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from afl_stream.commands.refusals import CommandRefused

#: The path of the one endpoint.
PATH: Final = "/mcp"
#: A shorter token can be guessed.
_LEAST_TOKEN_CHARS: Final = 16
_LOCAL_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
#: How long open streams may take to close at the end.
_CLOSE_S: Final = 3


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. Port 0: a free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Return `HOST:PORT`, `[IPV6]:PORT`, `:PORT` or `PORT` as an address. Raises CommandRefused."""
        host, _, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
        if not (port.isascii() and port.isdigit() and int(port) <= 65_535):
            raise CommandRefused(
                f"--http {text}: expected HOST:PORT, for instance 127.0.0.1:8765; port 0 is a free one"
            )
        return cls(host, int(port))

    @property
    def is_local(self) -> bool:
        """Return whether only this machine reaches it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_every(self) -> bool:
        """Return whether it stands for every address of the machine."""
        return self.host in ("0.0.0.0", "::")

    def text(self, port: int) -> str:
        """Return the address as it stands in a url."""
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"


def read_token(path: str) -> str:
    """Return the token of a file. Raises CommandRefused."""
    try:
        mode, token = Path(path).stat().st_mode, Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise CommandRefused(f"--token-file {path}: {reason}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise CommandRefused(f"--token-file {path} can be read by others than its owner: chmod 600 {path}")
    if len(token) < _LEAST_TOKEN_CHARS or not token.isascii() or any(char.isspace() for char in token):
        raise CommandRefused(
            f"--token-file {path}: expected one word of {_LEAST_TOKEN_CHARS} or more ASCII characters; make one with: "
            f"python -c 'import secrets; print(secrets.token_hex(32))' > {path}"
        )
    return token


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServing:
    """How to serve. `token` None: anybody on this machine may call. `hosts`: further names that clients use."""

    address: Address
    token: str | None = None
    hosts: Sequence[str] = ()

    def security(self) -> TransportSecuritySettings:
        """Return which Host and Origin headers are taken: a page of another site must not reach the server."""
        own = [] if self.address.is_every or self.address.is_local else [self.address.host, f"[{self.address.host}]"]
        names = [*_LOCAL_NAMES, *own, *self.hosts]
        schemes = ("http", "https")
        return TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=[form for name in names for form in (name, f"{name}:*")],
            allowed_origins=[
                form for name in names for scheme in schemes for form in (f"{scheme}://{name}", f"{scheme}://{name}:*")
            ],
        )

    def app(self, server: Server[Any]) -> ASGIApp:
        """Return the application."""
        served = server.streamable_http_app(streamable_http_path=PATH, transport_security=self.security())
        return served if self.token is None else _TokenNeeded(served, self.token)


class _TokenNeeded:
    """Refuses requests without the token, whatever else they are."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._has_token(Headers(scope=scope)):
            answer = PlainTextResponse(
                "a token is needed: Authorization: Bearer TOKEN, with the token of --token-file\n",
                status_code=401,
                headers={"WWW-Authenticate": "Bearer"},
            )
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token)


class _Server(uvicorn.Server):
    """uvicorn without signal handlers: those of the command end it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    """A server that listens, until `stop`. Use it as a context manager: the socket is open from the beginning."""

    def __init__(self, server: Server[Any], serving: HttpServing) -> None:
        """Listen. Raises CommandRefused where the address cannot be used."""
        address = serving.address
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((address.host, address.port))
        except (OSError, UnicodeError) as error:
            self._socket.close()
            reason = getattr(error, "strerror", None) or str(error)
            raise CommandRefused(f"--http {address.host}:{address.port}: {reason}") from error
        self.url = f"http://{address.text(self._socket.getsockname()[1])}{PATH}"
        config = uvicorn.Config(
            serving.app(server), log_config=None, access_log=False, timeout_graceful_shutdown=_CLOSE_S, lifespan="on"
        )
        self._uvicorn = _Server(config)

    def __enter__(self) -> HttpServer:
        return self

    def __exit__(self, *_error: object) -> None:
        self._socket.close()

    def stop(self) -> None:
        """Ask it to end. Safe in a signal handler."""
        self._uvicorn.should_exit = True

    def serve(self, on_ready: Callable[[], object] = lambda: None) -> None:
        """Serve until `stop`."""
        self._socket.listen(128)
        on_ready()
        anyio.run(self._serve)

    async def _serve(self) -> None:
        await self._uvicorn.serve(sockets=[self._socket])
