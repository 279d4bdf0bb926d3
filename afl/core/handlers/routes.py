"""Routes from facets to handlers, by name, of agents and of pollers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from afl.core.handlers.calling import FACET_NAME_KEY, METADATA_KEY, Handler, short_name
from afl.core.handlers.outcomes import RunTimeEstimate
from afl.core.handlers.retry import RetryRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One registered handler. `find` returns the function to call, looked up at each call.

    `timeout_s` None: one try takes as long as it takes. `names_facet`: whether the payload says which facet it is of.
    """

    name: str
    find: Callable[[], Handler]
    timeout_s: float | None = None
    retry: RetryRule | None = None
    metadata: Mapping[str, Any] | None = None
    names_facet: bool = True
    run_time: RunTimeEstimate = field(default_factory=RunTimeEstimate)

    def payload(self, facet: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return the payload for the handler: its own copy, with the facet's name and the registered metadata."""
        own = dict(payload)
        if self.names_facet:
            own[FACET_NAME_KEY] = facet
        if self.metadata:
            own[METADATA_KEY] = dict(self.metadata)
        return own


@dataclass(slots=True)
class RouteTable:
    """The routes by name: a facet finds that of its qualified name, else that of its short name.

    `routes` is replaced, never changed: any thread may look while another one registers.
    """

    routes: Mapping[str, Route] = field(default_factory=dict)

    def find(self, facet: str) -> Route | None:
        """Return the facet's route."""
        found = self.routes.get(facet)
        return found if found is not None else self.routes.get(short_name(facet))

    def add(self, route: Route) -> None:
        """Register a route. The latest of a name counts."""
        self.routes = {**self.routes, route.name: route}


def seconds(timeout_ms: int | None) -> float | None:
    """Return the time of one try; None or 0: as long as it takes."""
    return timeout_ms / 1000 if timeout_ms is not None and timeout_ms > 0 else None
