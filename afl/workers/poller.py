"""AgentPoller: an agent whose handlers are functions of its own process, working on the tasks of a store."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from afl.core.clock import Clock
from afl.core.handlers.modules import ModuleLoader
from afl.core.handlers.retry import RetryRule
from afl.core.handlers.routes import Route
from afl.core.probes import Probe, no_probe
from afl.engine import limits
from afl.evaluation.evaluator import Evaluator
from afl.stores.public.persistence import EngineStore
from afl.workers.handler_routes import HandlerRoutes, TakesModules
from afl.workers.polling_server import PollingServer
from afl.workers.task_work import HandlerMissing
from afl.workers.tool_registry import Handler


@dataclass
class AgentPollerConfig:
    """The settings of an AgentPoller. An empty `server_name` becomes the host's name."""

    service_name: str = "afl-agent"
    server_group: str = "default"
    server_name: str = ""
    task_list: str = "default"
    poll_interval_ms: int = 2000
    max_concurrent: int = 5
    heartbeat_interval_ms: int = 10000
    #: The time after its last heartbeat at which a dead poller's tasks are taken over.
    lease_ms: int = limits.TASK_LEASE_MS
    #: The time that running handlers have after `stop`; then their tasks are given back.
    shutdown_timeout_ms: int = 30_000
    #: The most handlers that may still run after their time was up; one more ends the poller by HandlersStuck.
    max_stuck_handlers: int = limits.MAX_STUCK_HANDLERS

    def __post_init__(self) -> None:
        self.server_name = self.server_name or socket.gethostname()


class AgentPoller(TakesModules, PollingServer):
    """A poller that claims tasks and answers them with registered functions.

    A name is a facet's qualified or short one. A plain function gets the payload exactly as the step has it; a function
    of a module (`register_handler`, `register_module`) also finds the facet's name in it as `_facet_name`.
    """

    def __init__(
        self,
        persistence: EngineStore,
        evaluator: Evaluator,
        config: AgentPollerConfig | None = None,
        *,
        clock: Clock | None = None,
        probe: Probe = no_probe,
    ) -> None:
        self._config = config or AgentPollerConfig()
        self._routes = HandlerRoutes(ModuleLoader())
        super().__init__(persistence, evaluator, self._config, self, clock=clock, probe=probe)

    def register(
        self,
        facet_name: str,
        callback: Handler,
        *,
        timeout_ms: int | None = None,
        retry: RetryRule | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Handle a facet with a function, synchronous or asynchronous.

        It takes the payload, and the `TaskContext` if it has a second parameter. `timeout_ms` holds under `start`; None
        means no time limit. `retry` decides whether a handler that raised is called again; None means never.
        """
        self._routes.register(facet_name, callback, timeout_ms=timeout_ms, retry=retry, metadata=metadata)

    def register_async(self, facet_name: str, callback: Handler) -> None:
        """Handle a facet with a coroutine function; same as `register`."""
        self.register(facet_name, callback)

    def registered_names(self) -> list[str]:
        """Return the names that have a handler."""
        return self._routes.names()

    def serves(self, facet_name: str) -> bool:
        """Say whether a facet has a handler, under its qualified or its short name."""
        return self._routes.find(facet_name) is not None

    def find(self, facet_name: str) -> Route:
        """Return the facet's route. Raises HandlerMissing."""
        route = self._routes.find(facet_name)
        if route is None:
            raise HandlerMissing(f"No handler for event task '{facet_name}'")
        return route
