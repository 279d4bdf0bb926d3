"""The handlers that a process registered itself: functions, and functions of modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from afl.core.handlers.modules import DEFAULT_ENTRYPOINT, ModuleLoader, register_module
from afl.core.handlers.retry import RetryPolicy
from afl.workers.task_work import TaskHandler
from afl.workers.tool_registry import Handler, short_name


@dataclass(frozen=True, slots=True)
class Route:
    """One registered handler. `find` returns the function, looked up at each call."""

    find: Callable[[], Handler]
    timeout_ms: int | None = None
    retry: RetryPolicy | None = None
    metadata: Mapping[str, Any] | None = None
    names_facet: bool = False

    def handler(self) -> TaskHandler:
        """Return the current handler."""
        return TaskHandler(
            function=self.find(),
            # 0, as in the registry: no time limit.
            timeout_s=self.timeout_ms / 1_000 if self.timeout_ms else None,
            retry=self.retry,
            names_facet=self.names_facet,
            metadata=self.metadata or {},
        )


class HandlerRoutes:
    """Routes by name: a facet uses the one of its qualified name, else that of its short one."""

    def __init__(self, loader: ModuleLoader) -> None:
        self._loader = loader
        self._routes: dict[str, Route] = {}

    def names(self) -> list[str]:
        """Return the registered names."""
        return list(self._routes)

    def named(self, name: str) -> Route | None:
        """Return the route of exactly this name."""
        return self._routes.get(name)

    def find(self, facet_name: str) -> Route | None:
        """Return the facet's route."""
        found = self._routes.get(facet_name)
        return found if found is not None else self._routes.get(short_name(facet_name))

    def register(
        self,
        facet_name: str,
        handler: Handler,
        *,
        timeout_ms: int | None = None,
        retry: RetryPolicy | None = None,
        metadata: Mapping[str, Any] | None = None,
        names_facet: bool = False,
    ) -> None:
        """Handle a facet with a function, synchronous or asynchronous. The last registration of a name wins.

        Raises TypeError for an object that cannot be called.
        """
        if not callable(handler):
            raise TypeError(f"the handler of {facet_name} is a {type(handler).__name__}, not callable")
        self._routes = {**self._routes, facet_name: Route(lambda: handler, timeout_ms, retry, metadata, names_facet)}

    def register_handler(  # noqa: PLR0913 - a public signature
        self,
        facet_name: str,
        module_uri: str,
        entrypoint: str = DEFAULT_ENTRYPOINT,
        version: str = "1.0.0",  # noqa: ARG002 - a public signature
        checksum: str = "",
        timeout_ms: int | None = None,
        requirements: Sequence[str] | None = None,  # noqa: ARG002 - a public signature
        metadata: Mapping[str, Any] | None = None,
        *,
        retry: RetryPolicy | None = None,
    ) -> None:
        """Handle a facet with a function of a module, which is loaded now. Raises the loader's errors."""
        self._loader.function(module_uri, entrypoint, checksum)
        find = lambda: self._loader.function(module_uri, entrypoint, checksum)  # noqa: E731 - one expression
        self._routes = {**self._routes, facet_name: Route(find, timeout_ms, retry, metadata, True)}

    def register_module(self, module_uri: str, facets: Sequence[str] = (), *, entrypoint: str | None = None) -> None:
        """Handle the facets of a module: `facets`, or those that the module names or registers itself."""
        register_module(OfModules(self), self._loader, module_uri, facets, entrypoint=entrypoint)


class TakesModules:
    """A server that routes facets to functions of modules in its own process."""

    _routes: HandlerRoutes

    def register_handler(
        self, facet_name: str, module_uri: str, entrypoint: str = DEFAULT_ENTRYPOINT, **details: Any
    ) -> None:
        """Handle a facet with a function of a module, which is loaded now. `details` as for `RegistryRunner`."""
        self._routes.register_handler(facet_name, module_uri, entrypoint, **details)

    def register_module(self, module_uri: str, facets: Sequence[str] = (), *, entrypoint: str | None = None) -> None:
        """Register all handlers of a module: those of `facets`, or those that the module names or registers itself.

        `entrypoint` is the function, if it is not `handle`. Raises ImportError, AttributeError, TypeError, and
        ValueError when no facet is named.
        """
        self._routes.register_module(module_uri, facets, entrypoint=entrypoint)


class OfModules:
    """Registrar for modules that register themselves: their functions find the facet's name in the payload."""

    def __init__(self, routes: HandlerRoutes) -> None:
        self._routes = routes

    def register(self, facet_name: str, handler: Handler, **details: Any) -> None:
        """Handle a facet with a function of the module."""
        self._routes.register(facet_name, handler, names_facet=True, **details)

    def register_handler(
        self, facet_name: str, module_uri: str, entrypoint: str = DEFAULT_ENTRYPOINT, **details: Any
    ) -> None:
        """Handle a facet with a function of a module, by the module's name."""
        self._routes.register_handler(facet_name, module_uri, entrypoint, **details)
