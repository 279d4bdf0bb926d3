"""The settings of a RunnerService."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from afl.engine import limits


@dataclass
class RunnerConfig:
    """The settings of a RunnerService. An empty `server_name` becomes the host's name; no `topics` means all facets.

    A topic is the name of a facet, qualified or short, or a pattern (`billing.*`).
    """

    server_group: str = "default"
    service_name: str = "afl-runner"
    server_name: str = ""
    topics: list[str] = field(default_factory=list)
    task_list: str = "default"
    poll_interval_ms: int = 2000
    heartbeat_interval_ms: int = 10000
    #: The duration of a work item's lock, unless it is extended.
    lock_duration_ms: int = 60000
    #: The interval of extensions, at most; a claim's lease is extended three times in its length.
    lock_extend_interval_ms: int = 20000
    max_concurrent: int = 5
    #: The time that running work has after `stop`; then its tasks are given back.
    shutdown_timeout_ms: int = 30000
    #: The first port that is tried; 0: any free port.
    http_port: int = 8080
    http_max_port_attempts: int = 20
    #: The address that the status server listens on. It shows names and counts, no payloads, and has no password: by
    #: default only this machine can reach it.
    http_host: str = "127.0.0.1"
    #: The time after its last heartbeat at which a dead runner's tasks are taken over; `lock_duration_ms` if that is
    #: less.
    lease_ms: int = limits.TASK_LEASE_MS
    #: The most handlers that may still run after their time was up; one more ends it by HandlersStuck.
    max_stuck_handlers: int = limits.MAX_STUCK_HANDLERS

    def __post_init__(self) -> None:
        self.server_name = self.server_name or socket.gethostname()

    @property
    def claim_ms(self) -> int:
        """Return the length of a claim's lease."""
        return min(self.lease_ms, self.lock_duration_ms)
