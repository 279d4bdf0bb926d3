"""The routes of the API: requests are read, checked, and answered in a thread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from afl.core.json_objects import write_json
from afl_stream.dashboard.actions.operator import Operator, Outcome
from afl_stream.dashboard.actions.performing import logged, perform, require_operator, values_of_document
from afl_stream.dashboard.actions.start_forms import inputs_of_document
from afl_stream.dashboard.actions.table import ACTIONS, Action
from afl_stream.dashboard.api.openapi import openapi_document
from afl_stream.dashboard.api.operations import READINGS, Reading
from afl_stream.dashboard.context import dashboard_of, principal_of
from afl_stream.web.bodies import json_body, json_response
from afl_stream.web.parameters import BadParameter, one_of, unknown_parameter
from afl_stream.wire.headers import IfExists

Endpoint = Callable[[Request], Awaitable[Response]]
#: Members of the body that starts a run.
_START_MEMBERS: Final = frozenset({"workflow", "inputs", "id", "if_exists"})


def api_routes() -> list[Route]:
    """Return the routes of all operations."""
    routes = [Route("/api/openapi.json", _document)]
    by_path: dict[str, dict[str, Endpoint]] = defaultdict(dict)
    for reading in READINGS:
        by_path[reading.path]["GET"] = _reading(reading)
    for action in ACTIONS.values():
        by_path[action.path]["POST"] = _action(action)
    by_path["/runs"]["POST"] = _start
    for path, endpoints in by_path.items():
        routes.append(Route(f"/api{path}", _either(endpoints), methods=sorted(endpoints)))
    routes.append(Route("/api/{rest:path}", _nothing))
    return routes


def _either(endpoints: Mapping[str, Endpoint]) -> Endpoint:
    async def answer(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await endpoints[method](request)

    return answer


def _reading(reading: Reading) -> Endpoint:
    async def answer(request: Request) -> Response:
        dashboard, path = dashboard_of(request), dict(request.path_params)
        found = await run_in_threadpool(
            lambda: write_json(reading.read(dashboard, path, request.query_params), indent=None)
        )
        return json_response(found)

    return answer


def _action(action: Action) -> Endpoint:
    async def answer(request: Request) -> Response:
        dashboard, principal = dashboard_of(request), principal_of(request)
        require_operator(dashboard, principal)
        target = None if action.target is None else request.path_params[action.target]
        values = values_of_document(action, target, await json_body(request))
        outcome = await run_in_threadpool(perform, dashboard, principal, action, values)
        return _outcome(outcome)

    return answer


async def _start(request: Request) -> Response:
    dashboard, principal = dashboard_of(request), principal_of(request)
    require_operator(dashboard, principal)
    body = await json_body(request)
    if unknown := sorted(set(body) - _START_MEMBERS):
        raise unknown_parameter(unknown[0], _START_MEMBERS)
    workflow, workflow_id = body.get("workflow"), body.get("id", "")
    if not isinstance(workflow, str) or not workflow:
        raise BadParameter("workflow", workflow, "the name of a workflow")
    if not isinstance(workflow_id, str):
        raise BadParameter("id", workflow_id, "a text")
    inputs = inputs_of_document(body.get("inputs", {}))
    if_exists = one_of("if_exists", body["if_exists"], IfExists) if "if_exists" in body else None
    operator = Operator(dashboard.deployment)
    outcome = await run_in_threadpool(
        logged,
        principal,
        "start",
        f"{workflow} {workflow_id}",
        lambda: operator.start(principal.name, workflow, inputs, workflow_id, if_exists),
    )
    return _outcome(outcome)


async def _document(_request: Request) -> Response:
    return json_response(write_json(openapi_document(), indent=None))


async def _nothing(_request: Request) -> Response:
    raise HTTPException(404)


def _outcome(outcome: Outcome) -> Response:
    return json_response(write_json(outcome.to_dict(), indent=None), status=202)
