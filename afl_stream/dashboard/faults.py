"""What a request is told when something is wrong: a status by the kind of error, and its message without secrets."""

from __future__ import annotations

import logging
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from afl.core.text.exception_text import class_name
from afl.engine.errors import StoreMissing, StoreUnavailable
from afl.errors import AFLError
from afl_stream.client.client import RefusedByEvaluator
from afl_stream.dashboard.actions.performing import NotPermitted
from afl_stream.dashboard.context import dashboard_of
from afl_stream.dashboard.deployment import NothingHere
from afl_stream.dashboard.live import TooManySubjects
from afl_stream.dashboard.pages.rendering import page
from afl_stream.dashboard.views.schedules import NoSuchSchedule
from afl_stream.dead_letters import NoSuchLetter
from afl_stream.errors import AlreadyEnded, TopicMissing
from afl_stream.transport import TransportError, UnknownTopic
from afl_stream.visibility.programs import NoSuchProgram
from afl_stream.visibility.waiting.explaining import UnknownRun
from afl_stream.visibility.workflows import NoSuchWorkflow
from afl_stream.web.guard import CLIENT_GONE, MAX_BODY_BYTES, is_api, is_too_long

_log = logging.getLogger(__name__)

#: The status of each kind of error, the special kinds first; any other of ours is a request that cannot be.
_STATUSES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (NotPermitted, 403),
    (NoSuchWorkflow, 404),
    (NoSuchProgram, 404),
    (NoSuchLetter, 404),
    (NoSuchSchedule, 404),
    (UnknownRun, 404),
    (UnknownTopic, 404),
    (NothingHere, 404),
    (TopicMissing, 409),
    (AlreadyEnded, 409),
    (RefusedByEvaluator, 409),
    (TooManySubjects, 503),
    (StoreMissing, 404),
    (StoreUnavailable, 503),
    (TransportError, 503),
)
_TITLES: Final = {403: "Not permitted", 404: "Not found", 409: "Not now", 503: "Not available now", 500: "A mistake"}
STATUSES: Final = (400, 403, 404, 409, 503)


def status_of(error: Exception) -> int:
    """Return the status of an error."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 400)


def on_error(request: Request, error: Exception) -> Response:
    """Answer a request that raised one of our errors."""
    if isinstance(error, NothingHere) and not is_api(request.url.path):
        return page(request, "empty.html", status_code=404, title="Nothing here yet")
    return told(request, status_of(error), dashboard_of(request).deployment.masked(str(error)), class_name(type(error)))


def on_http_error(request: Request, error: Exception) -> Response:
    """Answer a request to no page, or by a method that its page does not take."""
    assert isinstance(error, HTTPException)
    text = {404: "there is no such page", 405: "the page does not take this method"}.get(
        error.status_code, error.detail
    )
    answer = told(request, error.status_code, text, "")
    for name, value in (error.headers or {}).items():
        answer.headers[name] = value
    return answer


def on_cut_body(request: Request, _error: Exception) -> Response:
    """Answer a request whose body is longer than it may be, or whose sender has gone."""
    if not is_too_long(request.scope):
        return Response(status_code=CLIENT_GONE)
    return told(request, 413, f"a request has {MAX_BODY_BYTES:,} bytes at most", "")


def on_mistake(request: Request, error: Exception) -> Response:
    """Answer a request that met a mistake of ours: the log has it."""
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return told(request, 500, "something went wrong in the dashboard; its log says what", "")


def told(request: Request, status: int, text: str, kind: str) -> Response:
    """Return the answer of a fault, as a page or as JSON."""
    if is_api(request.url.path):
        return JSONResponse({"error": text, **({"type": kind} if kind else {})}, status_code=status)
    return page(request, "error.html", status_code=status, title=_TITLES.get(status, "Not understood"), text=text)


FAULTS: Final = {AFLError: on_error, HTTPException: on_http_error, ClientDisconnect: on_cut_body}
