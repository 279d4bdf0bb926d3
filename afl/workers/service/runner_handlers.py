"""The handlers of a RunnerService: those of its tool registry, of its given modules, and its own."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial

from afl.core.handlers.registration import function_route
from afl.core.handlers.routes import Route
from afl.workers.handler_routes import HandlerRoutes
from afl.workers.service.task_names import EXECUTE_TASK_NAME, RESUME_TASK_NAME
from afl.workers.task_work import BUILT_IN_PREFIX, HandlerMissing
from afl.workers.tool_registry import Handler, ToolRegistry, short_name

_OWN = frozenset({EXECUTE_TASK_NAME, RESUME_TASK_NAME})


class RunnerHandlers:
    """Handlers by the names of tasks.

    A facet's own handler, from the registry or a module, takes precedence; then the registry's default follows. Topics
    restrict the served facets. The runner's own tasks are served whatever the topics, and never go to the default.
    """

    def __init__(self, registry: ToolRegistry, routes: HandlerRoutes, topics: Sequence[str], resume: Handler) -> None:
        self._registry = registry
        self._routes = routes
        self._topics = tuple(topics)
        self._resume = resume

    def registered_names(self) -> list[str]:
        """Return the names that have a handler of their own, and match a topic."""
        names = dict.fromkeys([*self._registry.registered_names(), *self._routes.names()])
        # The facets with this short name may match.
        return [name for name in names if name in _OWN or "." not in name or self._matches(name)]

    def serves(self, facet_name: str) -> bool:
        """Say whether tasks of this name are done here."""
        if facet_name in _OWN:
            return True
        if not self._matches(facet_name):
            return False
        if self._registry.find(facet_name) is not None or self._routes.find(facet_name) is not None:
            return True
        return not facet_name.startswith(BUILT_IN_PREFIX) and self._registry.has_handler(facet_name)

    def find(self, facet_name: str) -> Route:
        """Return what does a task of this name. Raises HandlerMissing."""
        function = self._registry.find(facet_name)
        if function is not None:
            return function_route(facet_name, function, names_facet=False)
        if facet_name == RESUME_TASK_NAME:
            return function_route(facet_name, self._resume, names_facet=False)
        route = self._routes.find(facet_name)
        if route is not None:
            return route
        if self._registry.has_handler(facet_name):
            return function_route(facet_name, partial(self._registry.handle, facet_name), names_facet=False)
        raise HandlerMissing(f"No handler for task '{facet_name}'")

    def _matches(self, facet_name: str) -> bool:
        names = (facet_name, short_name(facet_name))
        return not self._topics or any(fnmatchcase(name, topic) for topic in self._topics for name in names)
