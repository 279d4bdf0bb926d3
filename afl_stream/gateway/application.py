"""The application: the operations behind the guard, and what a request is told when something is wrong."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from afl.core.clock import monotonic_s
from afl.core.json_objects import write_json
from afl.core.text.exception_text import class_name
from afl.core.text.masking import Secrets, secrets_of_environment
from afl.errors import AFLError
from afl_stream.client.client import NotAnswered, RefusedByEvaluator
from afl_stream.errors import SchemaUnavailable, TopicMissing
from afl_stream.gateway.gateway import Gateway, NotServed
from afl_stream.gateway.leases import LeaseGone
from afl_stream.gateway.openapi import openapi_document
from afl_stream.gateway.operations import OPERATIONS, Operation
from afl_stream.gateway.requested import Requested
from afl_stream.programs.versions import NoSuchVersion
from afl_stream.transport import RecordTooLarge, TransportError
from afl_stream.web.access import Access, Principal, Role
from afl_stream.web.bodies import json_body, json_response
from afl_stream.web.guard import CLIENT_GONE, MAX_BODY_BYTES, Guard, is_too_long
from afl_stream.web.parameters import unknown_parameter
from afl_stream.web.sessions import Sessions

_log = logging.getLogger(__name__)

#: How an evaluator refuses to describe and to move a run that does not exist.
_NO_RUN: Final = ("NothingToDescribe", "NothingToMigrate")
Endpoint = Callable[[Request], Awaitable[Response]]
#: The status of each kind of error, the special kinds first; any other of ours is a request that cannot be.
_STATUSES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (NotServed, 404),
    (NoSuchVersion, 404),
    (LeaseGone, 409),
    (TopicMissing, 409),
    (RefusedByEvaluator, 409),
    (NotAnswered, 503),
    (SchemaUnavailable, 503),
    (RecordTooLarge, 413),
    (TransportError, 503),
)


def make_application(gateway: Gateway, access: Access) -> ASGIApp:
    """Return the ASGI application of a gateway."""
    secrets = secrets_of_environment()
    secrets.add(gateway.config.secrets())
    by_path: dict[str, dict[str, Endpoint]] = defaultdict(dict)
    for operation in OPERATIONS:
        by_path[operation.path][operation.method] = _endpoint(gateway, operation)
    app = Starlette(
        routes=[
            Route("/v1/openapi.json", _document),
            Route("/health", _health(gateway)),
            *(Route(path, _either(found), methods=sorted(found)) for path, found in by_path.items()),
        ],
        exception_handlers={
            AFLError: _on_error(secrets),
            HTTPException: _on_http_error,
            ClientDisconnect: _on_cut_body,
            Exception: _on_mistake,
        },
    )
    return _Counted(Guard(app, access, Sessions(), is_api=lambda _path: True), gateway)


class _Counted:
    """Middleware that counts requests by their operation: "other" for what is none, and for what the guard refuses."""

    def __init__(self, app: ASGIApp, gateway: Gateway) -> None:
        self._app = app
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began_s = monotonic_s()
        status = CLIENT_GONE

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            operation = scope.get("state", {}).get("operation", "other")
            self._gateway.requests.note(operation, status, monotonic_s() - began_s)


def _either(endpoints: dict[str, Endpoint]) -> Endpoint:
    async def answer(request: Request) -> Response:
        return await endpoints["GET" if request.method == "HEAD" else request.method](request)

    return answer


def _endpoint(gateway: Gateway, operation: Operation) -> Endpoint:
    known = operation.members if operation.method == "POST" else operation.query

    async def act(request: Request) -> Response:
        request.state.operation = operation.name
        principal: Principal = request.state.principal
        _require(principal, operation.role)
        values = await json_body(request) if operation.method == "POST" else dict(request.query_params)
        if unknown := sorted(set(values) - set(known)):
            raise unknown_parameter(unknown[0], known)
        requested = Requested(principal.name, dict(request.path_params), values, request.is_disconnected)
        found = await operation.act(gateway, requested)
        return json_response(write_json(found, indent=None), status=operation.status)

    return act


def _require(principal: Principal, role: Role) -> None:
    may = {
        Role.READ: True,
        Role.WORK: principal.may_work,
        Role.OPERATE: principal.may_operate,
        Role.MIGRATE: principal.may_migrate,
    }[role]
    if not may:
        raise HTTPException(403, f"{principal.name} has the role {principal.role}, and this takes {role}")


async def _document(_request: Request) -> Response:
    return json_response(write_json(openapi_document(), indent=None))


def _health(gateway: Gateway) -> Endpoint:
    async def health(_request: Request) -> Response:
        problems = gateway.problems()
        facets = {
            facet: dict(zip(("waiting", "leased"), desk.counts, strict=True)) for facet, desk in gateway.desks.items()
        }
        status = 503 if problems else 200
        return JSONResponse({"ready": not problems, "problems": problems, "facets": facets}, status_code=status)

    return health


def _on_error(secrets: Secrets) -> Callable[[Request, Exception], Response]:
    def on_error(_request: Request, error: Exception) -> Response:
        status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 400)
        if isinstance(error, RefusedByEvaluator) and error.reason.type in _NO_RUN:
            status = 404
        # Who asks wants to know the reason of a refusal, not its sender.
        kind = error.reason.type if isinstance(error, RefusedByEvaluator) else class_name(type(error))
        return _told(status, secrets.masked(str(error)), kind)

    return on_error


def _on_http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = {404: "there is no such path", 405: "the path does not take this method"}.get(
        error.status_code, error.detail
    )
    answer = _told(error.status_code, text, "")
    for name, value in (error.headers or {}).items():
        answer.headers[name] = value
    return answer


def _on_cut_body(request: Request, _error: Exception) -> Response:
    if not is_too_long(request.scope):
        return Response(status_code=CLIENT_GONE)
    return _told(413, f"a request has {MAX_BODY_BYTES:,} bytes at most", "")


def _on_mistake(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _told(500, "something went wrong in the gateway; its log says what", "")


def _told(status: int, text: str, kind: str) -> Response:
    return json_response(write_json({"error": text, **({"type": kind} if kind else {})}, indent=None), status=status)
