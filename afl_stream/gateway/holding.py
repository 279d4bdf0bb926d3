"""The gateway's membership in a facet's group: an agent whose handler holds each event until it is answered."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from afl.core.errors import AFLError
from afl.core.handlers.calling import FACET_NAME_KEY, METADATA_KEY, Deferred
from afl.core.handlers.context import HandlerContext
from afl.core.handlers.outcomes import PutBack
from afl.core.probes import Probe, no_probe
from afl.core.text.exception_text import exception_line
from afl_stream.agent.agent import Agent, AgentConfig
from afl_stream.agent.observer import AgentObserver
from afl_stream.gateway.leases import Ending, LeaseDesk, LeaseRanOut
from afl_stream.settings.config import StreamConfig
from afl_stream.transport import Transport

_log = logging.getLogger(__name__)

#: A record that waits for a worker is not what kills a gateway: it is never given up for that.
_NO_SUSPECTS: Final = 1_000_000_000
_OF_AGENTS: Final = frozenset({FACET_NAME_KEY, METADATA_KEY})


class RunningAgent:
    """An agent on a thread of its own, which notes the error that ended it."""

    def __init__(self, agent: Agent, name: str, *, before_stop: Callable[[], None] = lambda: None) -> None:
        self.agent = agent
        self.error: BaseException | None = None
        self._before_stop = before_stop
        self._name = name
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Join the group, then run. Raises what Agent.start raises."""
        self.agent.start()
        self._thread.start()

    def _run(self) -> None:
        try:
            self.agent.run()
        except AFLError as error:
            self.error = error
            _log.error("%s has ended: %s", self._name, exception_line(error))
        except BaseException as error:
            self.error = error
            raise

    def stop(self) -> None:
        """Begin to drain."""
        self._before_stop()
        self.agent.stop()

    def join(self, timeout_s: float) -> bool:
        """Wait until it has drained; return whether it has."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()


def observer_of(config: StreamConfig) -> AgentObserver | None:
    """Return an observer for an agent, where metrics are on."""
    return AgentObserver() if config.metrics.are_on else None


class _LeaseRetries:
    """Leases that run out are followed by others at once, up to a number of them."""

    def __init__(self, max_tries: int) -> None:
        self._max_tries = max_tries

    def wait_s(self, tries: int, _error: BaseException) -> float | None:
        return None if self._max_tries and tries >= self._max_tries else 0.0


def holding_agent(
    config: StreamConfig, transport: Transport, desk: LeaseDesk, *, name: str, probe: Probe = no_probe
) -> Agent:
    """Return the agent that holds the events of a desk's facet. Its slots bound what is held."""
    settings = config.gateway
    own = replace(config.agent, max_concurrent=settings.max_held, max_crashes=_NO_SUSPECTS)
    agent_config = AgentConfig(stream=replace(config, agent=own), name=name, observer=observer_of(config))
    agent = Agent(agent_config, transport, probe=probe)

    async def hold(payload: Mapping[str, Any], context: HandlerContext) -> Deferred:
        given = {name: value for name, value in payload.items() if name not in _OF_AGENTS}
        ending = await asyncio.wrap_future(desk.offer(given, context))
        if ending is Ending.RAN_OUT:
            raise LeaseRanOut(desk.facet, context.tries)
        if ending is Ending.PUT_BACK:
            raise PutBack
        return Deferred()

    agent.register(desk.facet, hold, retry=_LeaseRetries(settings.max_tries))
    return agent
