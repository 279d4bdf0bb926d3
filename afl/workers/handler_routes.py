"""The handlers that a process registered itself: functions, and functions of modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from afl.core.handlers.modules import DEFAULT_ENTRYPOINT, ModuleLoader, register_module
from afl.core.handlers.registration import HandlerRegistration, function_route, loaded_route
from afl.core.handlers.retry import RetryRule
from afl.core.handlers.routes import Route, RouteTable
from afl.workers.tool_registry import Handler


class HandlerRoutes:
    """Routes by name: a facet uses the one of its qualified name, else that of its short one."""

    def __init__(self, loader: ModuleLoader) -> None:
        self._loader = loader
        self._table = RouteTable()

    def names(self) -> list[str]:
        """Return the registered names."""
        return list(self._table.routes)

    def named(self, name: str) -> Route | None:
        """Return what is registered under this very name."""
        return self._table.routes.get(name)

    def find(self, facet_name: str) -> Route | None:
        """Return the facet's route."""
        return self._table.find(facet_name)

    def register(
        self,
        facet_name: str,
        handler: Handler,
        *,
        timeout_ms: int | None = None,
        retry: RetryRule | None = None,
        metadata: Mapping[str, Any] | None = None,
        names_facet: bool = False,
    ) -> None:
        """Handle a facet with a function, synchronous or asynchronous. The last registration of a name wins.

        Raises TypeError for an object that cannot be called.
        """
        self._table.add(
            function_route(
                facet_name, handler, timeout_ms=timeout_ms, retry=retry, metadata=metadata, names_facet=names_facet
            )
        )

    def register_handler(  # noqa: PLR0913 - a public signature
        self,
        facet_name: str,
        module_uri: str,
        entrypoint: str = DEFAULT_ENTRYPOINT,
        version: str = "1.0.0",
        checksum: str = "",
        timeout_ms: int | None = None,
        requirements: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        retry: RetryRule | None = None,
    ) -> None:
        """Handle a facet with a function of a module, which is loaded now. Raises what the loader raises."""
        registration = HandlerRegistration(
            facet_name=facet_name,
            module_uri=module_uri,
            entrypoint=entrypoint,
            version=version,
            checksum=checksum,
            timeout_ms=timeout_ms,
            requirements=tuple(requirements or ()),
            metadata=dict(metadata or {}),
        )
        self._table.add(loaded_route(registration, self._loader, retry))

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
