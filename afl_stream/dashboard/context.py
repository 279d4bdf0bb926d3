"""What every page and operation of one dashboard works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request

from afl_stream.dashboard.deployment import Deployment
from afl_stream.dashboard.views.run_views import RunViews
from afl_stream.web.access import Access, Principal
from afl_stream.web.rates import RateLimit
from afl_stream.web.sessions import Sessions

if TYPE_CHECKING:
    from afl_stream.dashboard.live import LiveHub


@dataclass(frozen=True, slots=True)
class Dashboard:
    """The parts of one dashboard; any thread may use them."""

    deployment: Deployment
    access: Access
    sessions: Sessions
    runs: RunViews
    live: LiveHub
    sign_ins: RateLimit


def dashboard_of(request: Request) -> Dashboard:
    """Return the dashboard that a request is for."""
    found: Dashboard = request.app.state.dashboard
    return found


def principal_of(request: Request) -> Principal:
    """Return who asks; the guard has let no request without one to any page but those for everybody."""
    found: Principal = request.state.principal
    return found
