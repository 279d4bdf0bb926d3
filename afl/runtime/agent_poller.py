"""AgentPoller: an agent whose handlers are functions of its own process, working on the tasks of a store."""

from afl.workers.poller import (
    AgentPoller,
    AgentPollerConfig,
)

__all__ = [
    "AgentPoller",
    "AgentPollerConfig",
]
