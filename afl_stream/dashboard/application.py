"""The application: pages and API behind one guard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from afl_stream.dashboard.api.routes import api_routes
from afl_stream.dashboard.context import Dashboard
from afl_stream.dashboard.deployment import Deployment
from afl_stream.dashboard.faults import FAULTS, on_mistake
from afl_stream.dashboard.live import LiveHub
from afl_stream.dashboard.pages.routes import page_routes
from afl_stream.dashboard.views.run_views import RunViews
from afl_stream.web.access import Access
from afl_stream.web.guard import Guard
from afl_stream.web.rates import RateLimit
from afl_stream.web.sessions import Sessions

Handler = Callable[[Request, Exception], Response | Awaitable[Response]]


def make_dashboard(deployment: Deployment, access: Access) -> Dashboard:
    """Return the parts of a dashboard of a deployment."""
    return Dashboard(
        deployment=deployment,
        access=access,
        sessions=Sessions(),
        runs=RunViews(deployment),
        live=LiveHub(deployment),
        sign_ins=RateLimit(per_s=5 / 60, burst=5),
    )


def make_application(dashboard: Dashboard) -> ASGIApp:
    """Return the ASGI application of a dashboard."""
    handlers: dict[type[Exception], Handler] = {**FAULTS, Exception: on_mistake}
    app = Starlette(
        routes=[*api_routes(), *page_routes()],
        exception_handlers=handlers,
    )
    app.state.dashboard = dashboard
    return Guard(app, dashboard.access, dashboard.sessions)
