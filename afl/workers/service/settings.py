"""The settings of a RunnerService."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from afl.engine import limits


@dataclass
class RunnerConfig:
    """How a RunnerService works. An empty `server_name` becomes the host's name; no `topics` are all facets.

    A topic is the name of a facet, qualified or short, or a pattern (`billing.*`).
    """

    server_group: str = "default"
    service_name: str = "afl-runner"
    server_name: str = ""
    topics: list[str] = field(default_factory=list)
    task_list: str = "default"
    poll_interval_ms: int = 2000
    heartbeat_interval_ms: int = 10000
    #: How long a lock of a work item holds, unless it is extended.
    lock_duration_ms: int = 60000
    #: How often it is extended, at least; a claim's lease three times in its length.
    lock_extend_interval_ms: int = 20000
    max_concurrent: int = 5
    #: How long the work under way may take after `stop`; then its tasks are given back.
    shutdown_timeout_ms: int = 30000
    #: The first port that is tried; 0: any that is free.
    http_port: int = 8080
    http_max_port_attempts: int = 20
    #: The address that the status server listens on. It shows names and counts, no payloads, and asks for no password:
    #: by default nobody outside of this machine sees it.
    http_host: str = "127.0.0.1"
    #: How long after its last sign of life a dead runner's tasks are taken over; `lock_duration_ms` when that is less.
    lease_ms: int = limits.TASK_LEASE_MS
    #: Handlers that may still run after their time was up; with one more it ends, by HandlersStuck.
    max_stuck_handlers: int = limits.MAX_STUCK_HANDLERS

    def __post_init__(self) -> None:
        self.server_name = self.server_name or socket.gethostname()

    @property
    def claim_ms(self) -> int:
        """The length of a claim's lease."""
        return min(self.lease_ms, self.lock_duration_ms)
