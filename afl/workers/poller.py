"""AgentPoller: an agent whose handlers are functions of its own process, working on the tasks of a store."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from afl.core.handlers.modules import ModuleLoader
from afl.core.handlers.retry import RetryPolicy
from afl.engine import limits
from afl.engine.clock import Clock
from afl.evaluation.evaluator import Evaluator
from afl.stores.public.persistence import EngineStore
from afl.workers.handler_routes import HandlerRoutes, TakesModules
from afl.workers.polling_server import PollingServer
from afl.workers.task_work import HandlerMissing, TaskHandler
from afl.workers.tool_registry import Handler


@dataclass
class AgentPollerConfig:
    """How an AgentPoller works. An empty `server_name` becomes the host's name."""

    service_name: str = "afl-agent"
    server_group: str = "default"
    server_name: str = ""
    task_list: str = "default"
    poll_interval_ms: int = 2000
    max_concurrent: int = 5
    heartbeat_interval_ms: int = 10000
    #: How long after its last sign of life a dead poller's tasks are taken over.
    lease_ms: int = limits.TASK_LEASE_MS
    #: How long the handlers at work may take after `stop`; then their tasks are given back.
    shutdown_timeout_ms: int = 30_000
    #: Handlers that may still run after their time was up; with one more it ends, by HandlersStuck.
    max_stuck_handlers: int = limits.MAX_STUCK_HANDLERS

    def __post_init__(self) -> None:
        self.server_name = self.server_name or socket.gethostname()


class AgentPoller(TakesModules, PollingServer):
    """Polls tasks and answers them with the functions that were registered.

    A name is a facet's qualified or short one. A function takes the payload as the step has it; one of a module
    (`register_handler`, `register_module`) gets the facet's name in it as `_facet_name`.
    """

    def __init__(
        self,
        persistence: EngineStore,
        evaluator: Evaluator,
        config: AgentPollerConfig | None = None,
        *,
        clock: Clock | None = None,
        probe: Callable[[str], None] = lambda step: None,
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
        retry: RetryPolicy | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Handle a facet with a function, synchronous or asynchronous.

        It takes the payload, and the `TaskContext` if it has a second parameter. `timeout_ms` holds under `start`;
        None: as long as it takes. `retry` says whether one that raised is called again; None: it is not.
        """
        self._routes.register(facet_name, callback, timeout_ms=timeout_ms, retry=retry, metadata=metadata)

    def register_async(self, facet_name: str, callback: Handler) -> None:
        """Handle a facet with a coroutine function; the same as `register`."""
        self.register(facet_name, callback)

    def registered_names(self) -> list[str]:
        """The names that have a handler."""
        return self._routes.names()

    def serves(self, facet_name: str) -> bool:
        """Say whether a facet has a handler, under its qualified or its short name."""
        return self._routes.find(facet_name) is not None

    def find(self, facet_name: str) -> TaskHandler:
        """The facet's handler. Raises HandlerMissing."""
        route = self._routes.find(facet_name)
        if route is None:
            raise HandlerMissing(f"No handler for event task '{facet_name}'")
        return route.handler()
