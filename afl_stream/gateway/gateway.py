"""The parts of one gateway: its desks with their agents, its webhooks, the answers that it sends, and runs."""

from __future__ import annotations

import logging
import os
import socket
import threading
from typing import Final

from afl.core.clock import Clock, SystemClock, monotonic_s
from afl.core.probes import Probe, no_probe
from afl_stream.errors import ConfigError, StreamError
from afl_stream.gateway.answering import Answers
from afl_stream.gateway.holding import RunningAgent, holding_agent
from afl_stream.gateway.leases import LeaseDesk
from afl_stream.gateway.metrics import RequestCounts
from afl_stream.gateway.runs import ANSWER_S, Runs
from afl_stream.gateway.webhooks import webhook_agent
from afl_stream.settings.config import StreamConfig
from afl_stream.transport import Transport

_log = logging.getLogger(__name__)

#: How often leases are looked through for those that have run out.
_SWEEP_S: Final = 0.1


class NotServed(StreamError):
    """Events of a facet were asked for that this gateway does not serve."""

    def __init__(self, facet: str, served: list[str]) -> None:
        there = f"it serves {', '.join(served)}" if served else "it serves none"
        super().__init__(f"facet {facet} is not among those of this gateway (gateway.facets): {there}")
        self.facet = facet


class Gateway:
    """One gateway. `start` joins the groups; any thread may use the rest."""

    def __init__(
        self,
        config: StreamConfig,
        transport: Transport,
        *,
        clock: Clock | None = None,
        probe: Probe = no_probe,
        answer_s: float = ANSWER_S,
    ) -> None:
        """Make the parts; nothing is joined yet. Evaluators have `answer_s` to answer. Raises ConfigError."""
        self.config = config
        self.clock = clock or SystemClock()
        settings = config.gateway
        urls = settings.webhook_urls()
        both = sorted(set(urls).intersection(settings.polled_facets))
        if both:
            expected = "facets that are not in gateway.facets: events are either polled or posted"
            raise ConfigError("the settings", "gateway.webhooks", both[0], expected)
        name = f"gateway-{socket.gethostname()}-{os.getpid()}"
        self.requests = RequestCounts()
        self.desks = {facet: LeaseDesk(facet, clock=self.clock, probe=probe) for facet in settings.polled_facets}
        self.agents: list[RunningAgent] = []
        for facet, desk in self.desks.items():
            agent = holding_agent(config, transport, desk, name=name, probe=probe)
            self.agents.append(RunningAgent(agent, f"afl-gateway-{facet}", before_stop=desk.close))
        for facet, url in urls.items():
            self.agents.append(
                RunningAgent(webhook_agent(config, transport, facet, url, name=name), f"afl-webhook-{facet}")
            )
        # Behind what a setting may keep from being made: nothing is open before.
        self.answers = Answers(config, transport, name, probe=probe)
        self.runs = Runs(config, transport, answer_s=answer_s)
        self._stopping = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep, name="afl-gateway-leases", daemon=True)

    def start(self) -> None:
        """Join the groups of all facets. Raises what Agent.start raises, and then has left all again."""
        try:
            for agent in self.agents:
                agent.start()
        except BaseException:
            self.stop()
            raise
        self._sweeper.start()

    def desk(self, facet: str) -> LeaseDesk:
        """Return the desk of a facet. Raises NotServed."""
        found = self.desks.get(facet)
        if found is None:
            raise NotServed(facet, sorted(self.desks))
        return found

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def problems(self) -> list[str]:
        """Return why the gateway cannot do its work now; none where it can."""
        found = []
        for agent in self.agents:
            if agent.error is not None:
                found.append(str(agent.error))
            else:
                found += agent.agent.health().reasons
        return found

    def failure(self) -> BaseException | None:
        """Return the error that ended one of the agents."""
        return next((agent.error for agent in self.agents if agent.error is not None), None)

    def remaining(self) -> str:
        """Describe what a drain waits for."""
        return "; ".join(filter(None, (agent.agent.remaining() for agent in self.agents)))

    def _sweep(self) -> None:
        while not self._stopping.wait(_SWEEP_S):
            for desk in self.desks.values():
                desk.sweep()

    def stop(self) -> bool:
        """Drain and close. Returns False where leases were left."""
        try:
            return self.drain()
        finally:
            self.close()

    def drain(self) -> bool:
        """Offer nothing more, take answers for the grace period, and leave. Returns False where leases were left."""
        self.begin_stop()
        until_s = monotonic_s() + self.config.agent.grace_s + 5
        is_done = True
        for agent in self.agents:
            is_done &= agent.join(max(0.1, until_s - monotonic_s()))
        self._stopping.set()
        leased = sum(desk.counts[1] for desk in self.desks.values())
        if leased:
            _log.warning("%d leases are left: their events are offered again by the next member of the group", leased)
        return is_done and not leased

    def close(self) -> None:
        """Close what answers and commands are sent with: no request is served any more."""
        self._stopping.set()
        try:
            self.runs.close()
        finally:
            self.answers.close()

    def begin_stop(self) -> None:
        """Begin to drain."""
        for agent in self.agents:
            agent.stop()
