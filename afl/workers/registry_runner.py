"""RegistryRunner: an agent whose handlers are registered in the store, and loaded when they are needed."""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any

from afl.core.clock import Clock
from afl.core.handlers.allowed_modules import HERE, AllowedHandlers
from afl.core.handlers.modules import DEFAULT_ENTRYPOINT, ModuleLoader, full_uri, register_module
from afl.core.handlers.registration import DEFAULT_TIMEOUT_MS, allowed_route
from afl.core.handlers.retry import RetryPolicy, RetryRule
from afl.core.handlers.routes import Route
from afl.core.probes import Probe, no_probe
from afl.core.text.exception_text import exception_text
from afl.engine import limits
from afl.engine.errors import RuntimeError as EngineError
from afl.engine.errors import StoreUnavailable
from afl.engine.model.entities import HandlerRegistration
from afl.evaluation.evaluator import Evaluator
from afl.stores.public.persistence import EngineStore
from afl.workers.handler_routes import HandlerRoutes
from afl.workers.polling_server import PollingServer
from afl.workers.task_work import HandlerMissing
from afl.workers.tool_registry import Handler, short_name

_log = logging.getLogger(__name__)


class HandlerNotLoaded(EngineError):
    """A registered handler cannot be loaded; the text says for which facet, and why."""


@dataclass
class RegistryRunnerConfig:
    """The settings of a RegistryRunner. An empty `server_name` becomes the host's name; no `topics` are all facets."""

    service_name: str = "afl-registry-runner"
    server_group: str = "default"
    server_name: str = ""
    task_list: str = "default"
    poll_interval_ms: int = 2000
    max_concurrent: int = 5
    heartbeat_interval_ms: int = 10000
    registry_refresh_interval_ms: int = 30000
    topics: list[str] = field(default_factory=list)
    #: The time after its last heartbeat at which a dead runner's tasks are taken over.
    lease_ms: int = limits.TASK_LEASE_MS
    #: The time that running handlers have after `stop`; then their tasks are given back.
    shutdown_timeout_ms: int = 30_000
    #: The modules, patterns and folders that may be loaded because the store names them. By default the modules below
    #: the folder in which the process was started. Modules that the runner's own process named are allowed too.
    allowed_handlers: Sequence[str] = (HERE,)
    #: The most handlers that may still run after their time was up; one more ends it by HandlersStuck.
    max_stuck_handlers: int = limits.MAX_STUCK_HANDLERS

    def __post_init__(self) -> None:
        self.server_name = self.server_name or socket.gethostname()


class RegistryRunner(PollingServer):
    """A runner that claims tasks and answers them with the handlers in the store's registrations.

    Registrations are read again every `registry_refresh_interval_ms`; the one at the time of the claim counts. A
    changed checksum loads its module again.
    """

    def __init__(
        self,
        persistence: EngineStore,
        evaluator: Evaluator,
        config: RegistryRunnerConfig | None = None,
        *,
        clock: Clock | None = None,
        probe: Probe = no_probe,
    ) -> None:
        self._config = config or RegistryRunnerConfig()
        self._loader = ModuleLoader()
        self._allowed = AllowedHandlers(self._config.allowed_handlers, setting="RegistryRunnerConfig.allowed_handlers")
        #: Functions from a module's `register_handlers`, which no registration can name.
        self._routes = HandlerRoutes(self._loader)
        self._retries: dict[str, RetryRule | None] = {}
        self._registered_names: list[str] = []
        #: Registered short names, whether they match a topic or not: the facets with these names may match.
        self._short_names: frozenset[str] = frozenset()
        #: By the monotonic clock.
        self._last_refresh_s = float("-inf")
        super().__init__(persistence, evaluator, self._config, self, clock=clock, probe=probe)

    def register_handler(  # noqa: PLR0913 - a public signature
        self,
        facet_name: str,
        module_uri: str,
        entrypoint: str = DEFAULT_ENTRYPOINT,
        version: str = "1.0.0",
        checksum: str = "",
        timeout_ms: int | None = DEFAULT_TIMEOUT_MS,
        requirements: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        retry: RetryRule | None = None,
    ) -> None:
        """Save the registration of a facet, for this runner and all others. The module is loaded when a task needs it.

        A path is saved in full, because another process has another working folder. `timeout_ms` 0: no time limit.
        A RetryPolicy is saved too; a rule of another class is code, and holds in this process only.
        """
        self._retries[facet_name] = retry
        self._allowed.vouch(full_uri(module_uri))
        now_ms = self._clock.now_ms()
        known = self._persistence.get_handler_registration(facet_name)
        self._persistence.save_handler_registration(
            HandlerRegistration(
                facet_name=facet_name,
                module_uri=full_uri(module_uri),
                entrypoint=entrypoint,
                version=version,
                checksum=checksum,
                timeout_ms=DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms,
                requirements=list(requirements or ()),
                metadata=dict(metadata or {}),
                created=known.created if known is not None else now_ms,
                updated=now_ms,
                retry=str(retry) if isinstance(retry, RetryPolicy) else "",
            )
        )
        self._refresh_registry()

    def register(
        self,
        facet_name: str,
        callback: Handler,
        *,
        timeout_ms: int | None = None,
        retry: RetryRule | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Handle a facet with a function, in this process only: it is not stored. A stored registration wins."""
        self._routes.register(
            facet_name, callback, timeout_ms=timeout_ms, retry=retry, metadata=metadata, names_facet=True
        )
        self._refresh_registry()

    def register_module(self, module_uri: str, facets: Sequence[str] = (), *, entrypoint: str | None = None) -> None:
        """Register all handlers of a module: those of `facets`, or those that the module names or registers itself.

        `entrypoint` is the function, if it is not `handle`. Raises ImportError, AttributeError, TypeError, and
        ValueError when no facet is named.
        """
        register_module(self, self._loader, module_uri, facets, entrypoint=entrypoint)

    def registered_names(self) -> list[str]:
        """Return the names with a handler that match a topic; read again when the refresh interval is over."""
        self._maybe_refresh_registry()
        return list(self._registered_names)

    def serves(self, facet_name: str) -> bool:
        """Say whether a facet has a handler, under its qualified or its short name, and matches a topic."""
        names, short = self._registered_names, short_name(facet_name)
        return facet_name in names or short in names or (short in self._short_names and self._matches(facet_name))

    def find(self, facet_name: str) -> Route:
        """Return the facet's route, by what is registered now. Raises HandlerMissing and HandlerNotLoaded."""
        for name in dict.fromkeys((facet_name, short_name(facet_name))):
            registration = self._persistence.get_handler_registration(name)
            if registration is not None:
                return self._registered(facet_name, registration)
            route = self._routes.named(name)
            if route is not None:
                return route
        # Taken away since it was read: from here on it is not claimed any more.
        self._refresh_registry()
        raise HandlerMissing(f"No handler registration for event task '{facet_name}'")

    def _registered(self, facet_name: str, registration: HandlerRegistration) -> Route:
        try:
            retry = self._retries.get(registration.facet_name)
            return allowed_route(registration, self._loader, self._allowed, retry)
        except Exception as error:
            why = exception_text(error)
            raise HandlerNotLoaded(f"Failed to load handler for '{facet_name}': {why}") from error

    def _matches(self, name: str) -> bool:
        topics = self._config.topics
        return not topics or any(fnmatch(name, topic) for topic in topics)

    def _maybe_refresh_registry(self) -> None:
        since_ms = (self._clock.monotonic_s() - self._last_refresh_s) * 1_000
        if since_ms < self._config.registry_refresh_interval_ms:
            return
        try:
            self._refresh_registry()
        except StoreUnavailable as error:
            _log.warning("the registrations could not be read again: %s", error)

    def _refresh_registry(self) -> None:
        stored = [registration.facet_name for registration in self._persistence.list_handler_registrations()]
        names = list(dict.fromkeys(stored + self._routes.names()))
        self._short_names = frozenset(name for name in names if "." not in name)
        self._registered_names = [name for name in names if self._matches(name)]
        self._last_refresh_s = self._clock.monotonic_s()
