"""The guard before every page and every operation: rates, hosts, origins, who asks, and the headers of answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from math import ceil
from typing import Final
from urllib.parse import quote, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from afl_stream.web.access import Access, Principal
from afl_stream.web.rates import RateLimit
from afl_stream.web.sessions import COOKIE, LIFETIME_S, Sessions

_log = logging.getLogger(__name__)

#: Methods that change nothing.
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: Pages that are shown before anybody has signed in.
_PUBLIC: Final = ("/login", "/static/", "/health")
#: The most bytes of a request's body: a form with inputs, or a pasted program.
MAX_BODY_BYTES: Final = 4_000_000
#: The status of a request whose client has gone before its answer, as Nginx counts it; nobody receives it.
CLIENT_GONE: Final = 499
#: The name, in a request's state, of the fact that its body was longer than it may be.
_TOO_LONG: Final = "body_is_too_long"
_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def is_api(path: str) -> bool:
    """Return whether a path is one of the JSON API."""
    return path == "/api" or path.startswith("/api/")


class Guard:
    """Middleware that lets a request through with `scope["state"]`: its `principal`, and its browser's `session_id`."""

    def __init__(
        self, app: ASGIApp, access: Access, sessions: Sessions, *, is_api: Callable[[str], bool] = is_api
    ) -> None:
        """`is_api`: which paths are for programs, which are refused in JSON and get no cookie."""
        self._app, self._is_api = app, is_api
        self._access, self._sessions = access, sessions
        self._requests = RateLimit(access.requests_per_s, access.requests_per_s * 4)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        session_id = _cookie(headers)
        is_new = not session_id
        if is_new:
            session_id = self._sessions.new_id()

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    given.setdefault(name, value)
                given.setdefault("cache-control", "no-store")
                if is_new and "set-cookie" not in given and not self._is_api(scope["path"]):
                    given.append("set-cookie", cookie_text(session_id, is_secure=_is_https(scope, headers)))
            await send(message)

        refusal = self._refusal(scope, headers)
        if refusal is None:
            principal = self._principal(scope, headers, session_id)
            if principal is None and not _is_public(scope["path"]):
                refusal = self._unknown(scope)
            else:
                scope.setdefault("state", {}).update(principal=principal, session_id=session_id)
        await (self._app if refusal is None else refusal)(scope, _bounded(scope, receive), send_guarded)

    def _refusal(self, scope: Scope, headers: Mapping[str, str]) -> Response | None:
        wait_s = self._requests.wait_s(_address(scope))
        if wait_s:
            seconds = {"Retry-After": str(max(1, ceil(wait_s)))}
            return self._answer(scope, 429, "too many requests: try again later", seconds)
        host, section = headers.get("host", ""), self._access.section
        if not self._access.takes_host(host):
            text = f"host {host[:100]!r} is not one of this {section}; name it in {section}.allowed_hosts"
            return self._answer(scope, 400, text)
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MAX_BODY_BYTES:
            return self._answer(scope, 413, f"a request has {MAX_BODY_BYTES:,} bytes at most")
        if scope["method"] not in _SAFE and not _is_same_origin(headers):
            return self._answer(scope, 403, "the request comes from another site")
        return None

    def _principal(self, scope: Scope, headers: Mapping[str, str], session_id: str) -> Principal | None:
        access = self._access
        scheme, _, token = headers.get("authorization", "").partition(" ")
        found: Principal | None
        if scheme.lower() == "bearer":
            found = access.of_token(token.strip())
        else:
            found = self._sessions.principal_of(session_id) or access.of_proxy(_address(scope), headers)
            if found is None and access.is_open:
                found = access.local
        return None if found is None else access.limited(found)

    def _unknown(self, scope: Scope) -> Response:
        if self._is_api(scope["path"]) or scope["method"] not in _SAFE or not self._access.tokens:
            how = "send Authorization: Bearer TOKEN" if self._access.tokens else "come through the proxy that signs in"
            return self._answer(scope, 401, f"who asks is not known: {how}", {"WWW-Authenticate": "Bearer"})
        query = scope.get("query_string", b"").decode("latin-1")
        there = scope["path"] + (f"?{query}" if query else "")
        return RedirectResponse(f"/login?to={quote(there, safe='')}", status_code=303)

    def _answer(self, scope: Scope, status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
        if status != 429:
            told = (scope["method"], scope["path"][:200], _address(scope), text)
            _log.warning("%s %s from %s was refused: %s", *told)
        if self._is_api(scope["path"]):
            return JSONResponse({"error": text}, status_code=status, headers=headers)
        return PlainTextResponse(f"{text}\n", status_code=status, headers=headers)


def cookie_text(session_id: str, *, is_secure: bool, max_age_s: int = LIFETIME_S) -> str:
    """Return the header that gives a browser its session."""
    secure = "; Secure" if is_secure else ""
    return f"{COOKIE}={session_id}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Strict{secure}"


def is_too_long(scope: Scope) -> bool:
    """Return whether a request ended because it was longer than it may be; else its sender has gone."""
    return bool(scope.get("state", {}).get(_TOO_LONG))


def _bounded(scope: Scope, receive: Receive) -> Receive:
    """Return what reads a request, up to the most bytes that it may have: a longer one ends there."""
    got = 0

    async def receive_bounded() -> Message:
        nonlocal got
        message = await receive()
        if message["type"] == "http.request":
            got += len(message.get("body", b""))
            if got > MAX_BODY_BYTES:
                scope.setdefault("state", {})[_TOO_LONG] = True
                return {"type": "http.disconnect"}
        return message

    return receive_bounded


def _cookie(headers: Mapping[str, str]) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value[:200]


def _is_same_origin(headers: Mapping[str, str]) -> bool:
    """Return whether a request that may change something is from a page of this dashboard, or from no page at all."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    found = urlsplit(origin)
    if found.scheme not in ("http", "https"):
        return False
    return found.netloc.lower() == headers.get("host", "").strip().lower()


def _is_https(scope: Scope, headers: Mapping[str, str]) -> bool:
    return scope.get("scheme") == "https" or headers.get("x-forwarded-proto") == "https"


def _is_public(path: str) -> bool:
    return path.startswith(_PUBLIC)


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


__all__ = ["CLIENT_GONE", "COOKIE", "MAX_BODY_BYTES", "Guard", "cookie_text", "is_api", "is_too_long"]
