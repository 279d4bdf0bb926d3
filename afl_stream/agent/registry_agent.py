"""An agent whose handlers are registered in a registry: it follows what is added, changed and removed there."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from typing import Final, Protocol

from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.handlers.allowed_modules import AllowedHandlers
from afl.core.handlers.calling import short_name
from afl.core.handlers.modules import HandlerModuleError
from afl.core.handlers.registration import HandlerRegistration, allowed_route
from afl.core.handlers.routes import Route, RouteTable
from afl.core.probes import Probe, no_probe
from afl.core.text.near_names import did_you_mean, names_alike
from afl_stream.agent.agent import Agent
from afl_stream.agent.resources import AgentConfig
from afl_stream.agent.subscriptions import Subscription
from afl_stream.agent.topics import TOPICS_AGE_S
from afl_stream.errors import StreamError
from afl_stream.topics.declared import Topology
from afl_stream.transport import BrokerUnavailable, Transport
from afl_stream.wire.codec import Codec

log = logging.getLogger(__name__)

#: Pairs of names that are compared for typos. Further names are logged without a suggestion.
_MOST_PAIRS: Final = 2_000


class RegistryUnavailable(StreamError):
    """The registry cannot be read now, but may be later."""


class Registry(Protocol):
    """A source of registrations."""

    def registrations(self) -> Sequence[HandlerRegistration]:
        """Return all registrations, one a facet. Raises RegistryUnavailable."""


class RegistryAgent(Agent):
    """Handles the facets that the registry names, as they are registered now.

    The registry is read again every `refresh_interval_s` (0: in each turn). A new facet is subscribed to, and read from
    what its group has committed; a removed facet is left when its running handlers are answered; for a changed facet
    the next event goes to the new handler. A changed checksum reloads the module.

    Only events that can be handled are taken: a facet whose module does not load, or that has no topic yet, waits;
    `refused` and `without_topic` say which and why. `topics` are patterns (`billing.*`) that facets must match, by
    their full name or the one that they are registered under; without patterns all do.

    Handlers registered on the agent itself are used too; a registration in the registry takes precedence. The right to
    write to the registry is not the right to load code: only what `agent.allowed_handlers` names is loaded, the rest is
    `refused`.
    """

    def __init__(  # noqa: PLR0913 - a public signature, settings by name
        self,
        registry: Registry,
        config: AgentConfig,
        transport: Transport,
        *,
        topics: Sequence[str] = (),
        refresh_interval_s: float = 30.0,
        topology: Topology | None = None,
        codec: Codec | None = None,
        probe: Probe = no_probe,
        clock_s: MonotonicClock = monotonic_s,
    ) -> None:
        super().__init__(config, transport, topology=topology, codec=codec, probe=probe, clock_s=clock_s)
        self.topics = tuple(topics)
        self._allowed = AllowedHandlers(config.stream.agent.allowed_handlers.split(","))
        self._registry = registry
        self._refresh_interval_s = refresh_interval_s
        self._registered: dict[str, tuple[HandlerRegistration, Route]] = {}
        self._refused: dict[str, HandlerModuleError] = {}
        self._without_topic: tuple[str, ...] = ()
        self._existing: frozenset[str] = frozenset()
        #: Whether a topic that comes would be subscribed to.
        self._looks_on = True
        self._looked_s = self._refreshed_s = float("-inf")
        #: The state at the last log line, and its text.
        self._reported_state: tuple[object, ...] = ()
        self._reported_text = ""

    @property
    def refused(self) -> Mapping[str, HandlerModuleError]:
        """The registered names whose handler does not load, and why: their events are not taken."""
        return dict(self._refused)

    @property
    def without_topic(self) -> Sequence[str]:
        """The registered names without a topic: facets, and short names that no topic's facet has."""
        return self._without_topic

    def refresh(self) -> None:
        """Read the registry now and follow it; any thread may call this.

        Raises RegistryUnavailable, and what the transport raises.
        """
        with self._changing:
            self._read_registry()
            self._change(self._own)

    # Following

    def _first_subscriptions(self) -> list[Subscription]:
        """Read the registry, which may still be empty."""
        self._read_registry()
        self._change(self._own)
        return self._subscriptions(self._routes)

    def _does_without(self, topic: str) -> bool:
        """Leave a facet whose topic was deleted, or is not yet known to a broker; it waits until the topic exists."""
        log.warning("topic %s does not exist", topic)
        with self._changing:
            self._existing -= {topic}
            self._looked_s = self._clock_s()
            self._change(self._own)
        return True

    def _keep_up(self) -> None:
        super()._keep_up()
        now_s = self._clock_s()
        try:
            if now_s - self._refreshed_s >= self._refresh_interval_s:
                self.refresh()
            elif self._looks_on and now_s - self._looked_s >= TOPICS_AGE_S:
                with self._changing:
                    self._change(self._own)
        except (RegistryUnavailable, BrokerUnavailable) as error:
            # The known registrations stay in use.
            self._refreshed_s = now_s
            log.warning("the registrations cannot be read now: %s", error)

    def _read_registry(self) -> None:
        registrations = self._registry.registrations()
        self._refreshed_s = self._clock_s()
        registered: dict[str, tuple[HandlerRegistration, Route]] = {}
        refused: dict[str, HandlerModuleError] = {}
        for registration in registrations:
            name = registration.facet_name
            if "." in name and not self._matches(name):
                continue
            known = self._registered.get(name)
            try:
                route = allowed_route(registration, self._loader, self._allowed)
            except HandlerModuleError as error:
                refused[name] = error
                continue
            if known is not None and known[0] == registration:
                # It knows how long its handler takes.
                route = known[1]
            registered[name] = (registration, route)
        self._registered, self._refused = registered, refused

    def _with_others(self, own: dict[str, Route]) -> dict[str, Route]:
        return {**own, **{name: route for name, (_, route) in self._registered.items()}}

    def _subscriptions(self, routes: RouteTable) -> list[Subscription]:
        """Return the groups to join: for facets that have a topic and a handler that loads."""
        wanted, waiting = self._facets(routes)
        # More facets of a short name may come at any time.
        self._looks_on = bool(waiting) or any("." not in name for name in routes.routes)
        if not self._existing or (self._looks_on and self._clock_s() - self._looked_s >= TOPICS_AGE_S):
            self._looked_s = self._clock_s()
            existing = self._transport.admin().topic_names()
            self._facet_topics.require(existing, (), self._transport.admin())
            self._existing = existing
            wanted, waiting = self._facets(routes)
        self._without_topic = tuple(waiting)
        self._report_facets(wanted, routes)
        return self._facet_topics.subscriptions(wanted)

    def _facets(self, routes: RouteTable) -> tuple[list[str], list[str]]:
        """Return the facets to handle, and the names that wait for a topic."""
        facets: dict[str, None] = {}
        waiting: list[str] = []
        known = sorted(self._facet_topics.known_facets(self._existing))
        for name in routes.routes:
            meant = [name] if "." in name else [facet for facet in known if short_name(facet) == name]
            if not all(self._topology.carries(facet) for facet in meant):
                # Tasks in this deployment: pollers do them.
                continue
            wanted = [f for f in meant if f not in self._refused and (self._matches(name) or self._matches(f))]
            ready = [facet for facet in wanted if self._has_topics(facet)]
            facets.update(dict.fromkeys(ready))
            if len(ready) < len(wanted) or not meant:
                waiting.append(name)
        return list(facets), waiting

    def _has_topics(self, facet: str) -> bool:
        topic = self._topology.facet(facet)
        return topic in self._existing and self._topology.dlq(topic) in self._existing

    def _matches(self, name: str) -> bool:
        return not self.topics or any(fnmatch(name, pattern) for pattern in self.topics)

    def _shown_without_topic(self, routes: RouteTable) -> Iterator[str]:
        """Return the names that have no topic, each with the facets that it may be a typo of."""
        known = [facet for facet in self._facet_topics.known_facets(self._existing) if facet not in routes.routes]
        known = sorted(known)[:_MOST_PAIRS]
        asked_about = _MOST_PAIRS // max(1, len(known))
        for number, name in enumerate(self._without_topic):
            near = did_you_mean(names_alike(name, known)) if number < asked_about else ""
            yield f"{name} ({near})" if near else name

    def _report_facets(self, facets: Sequence[str], routes: RouteTable) -> None:
        """Log what is handled and what is not, whenever that has changed."""
        refused = [str(error) for error in self._refused.values()]
        state = (tuple(facets), self._without_topic, self._existing, tuple(refused))
        if state == self._reported_state:
            # The names that are alike take long to find.
            return
        self._reported_state = state
        parts = [f"handles {', '.join(facets) or 'nothing'}"]
        if self._without_topic:
            parts.append(f"without a topic: {', '.join(self._shown_without_topic(routes))}")
        parts.extend(refused)
        text = "; ".join(parts)
        if text != self._reported_text:
            self._reported_text = text
            log.log(logging.WARNING if len(parts) > 1 else logging.INFO, "agent %s %s", self.config.name, text)
