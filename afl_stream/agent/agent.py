"""The agent: it takes the events of facets from their topics, runs the handlers, and answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.handlers.calling import Deferred, Handler, HandlerOver
from afl.core.handlers.context import HandlerContext
from afl.core.handlers.modules import (
    DEFAULT_ENTRYPOINT,
    HandlerModuleError,
    HandlersArgument,
    ModuleLoader,
    register_module,
)
from afl.core.handlers.pool import HandlerPool
from afl.core.handlers.registration import HandlerRegistration, function_route, loaded_route
from afl.core.handlers.retry import RetryPolicy, RetryRule
from afl.core.handlers.routes import Route, RouteTable
from afl.core.handlers.stuck_handlers import HandlersStuck
from afl.core.probes import Probe, no_probe
from afl.core.process.signals import draining
from afl_stream.agent.cancellations import Cancellations
from afl_stream.agent.ended_runs import EndedRuns
from afl_stream.agent.failed_tries import FailedTries
from afl_stream.agent.groups import Memberships
from afl_stream.agent.handlers import NoHandlers as NoHandlers
from afl_stream.agent.handlers import facets_of
from afl_stream.agent.member import GroupMember
from afl_stream.agent.opened_parts import OpenedParts
from afl_stream.agent.pausing import PausedFacets
from afl_stream.agent.records import AgentRecords
from afl_stream.agent.resources import (
    AgentConfig,
    AgentCounts,
    AgentHealth,
    AgentResources,
    Counters,
    FacetCounts,
    Shutdown,
    guarded,
)
from afl_stream.agent.subscriptions import Subscription
from afl_stream.agent.topics import FacetTopics, VanishedTopics
from afl_stream.errors import SchemaUnavailable
from afl_stream.exit_codes import ExitCode
from afl_stream.outage import waited_out
from afl_stream.reading.group_reader import LostRecords
from afl_stream.topics.declared import Topology
from afl_stream.topics.policies import warn_of_unsafe_policies
from afl_stream.transport import BrokerUnavailable, Transport
from afl_stream.wire.codec import Codec

if TYPE_CHECKING:
    from afl_stream.tracing.tracer import Tracer

__all__ = [
    "Agent",
    "AgentConfig",
    "AgentCounts",
    "AgentHealth",
    "Deferred",
    "FacetCounts",
    "HandlerContext",
    "HandlerModuleError",
    "HandlerOver",
    "HandlersStuck",
    "LostRecords",
    "NoHandlers",
    "RetryPolicy",
]

T = TypeVar("T")


class Agent:
    """A process's membership in the groups of the facets that it has handlers for.

    GroupMember numbers the steps of one record and says what a crash does. A handler takes the payload, or the payload
    and a HandlerContext; it is a function or a coroutine function, and returns a dict (None: an empty one) or Deferred.
    An exception of the handler fails the step: a handler is retried only if its registration has a RetryPolicy.

    Each facet has its own group, unless the config names one group for all. `run` blocks until `stop`; `turn` and
    `run_once` serve callers that have their own loop. Handlers may be registered, replaced and removed while the agent
    runs: it joins the new groups at once, and leaves a group when the running handlers are answered. An agent is used
    once.
    """

    def __init__(
        self,
        config: AgentConfig,
        transport: Transport,
        *,
        topology: Topology | None = None,
        codec: Codec | None = None,
        probe: Probe = no_probe,
        clock_s: MonotonicClock = monotonic_s,
        tracer: Tracer | None = None,
    ) -> None:
        """`tracer` takes the spans, and the caller closes it; without it the settings decide."""
        self.config, self._transport = config, transport
        self._topology = topology if topology is not None else Topology(config.stream)
        self._opened = OpenedParts(config.stream, transport, self._topology, codec, tracer)
        self._probe = probe
        self._clock_s = clock_s
        #: The handlers registered on this agent, and the routes that it looks handlers up in.
        self._own: dict[str, Route] = {}
        self._routes = RouteTable()
        self._changing = Lock()
        self._loader = ModuleLoader()
        self._shutdown = Shutdown()
        self._counters = Counters()
        #: What is tried again. Any thread may read it.
        self.failed_tries = FailedTries()
        self._pool = HandlerPool(
            config.stream.agent.max_concurrent,
            on_fatal=self._shutdown.die,
            on_stuck=self._shutdown.fail,
            max_stuck=config.stream.agent.max_stuck_handlers,
            clock_s=clock_s,
        )
        self._records: AgentRecords | None = None
        self._memberships: Memberships | None = None
        self._paused: PausedFacets | None = None
        self._ended = False
        self._facet_topics = FacetTopics(self._topology, config)
        self._vanished = VanishedTopics(self._topology)

    # Handlers

    def register(
        self,
        facet_name: str,
        handler: Handler,
        *,
        retry: RetryRule | None = None,
        timeout_ms: int | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Handle a facet by its qualified name, or every facet of a short name that has a topic now.

        `timeout_ms` limits one run of the handler; None or 0: no limit. While the agent runs, this raises what `start`
        raises, and then changes nothing.
        """
        self._add(function_route(facet_name, handler, timeout_ms=timeout_ms, retry=retry, metadata=metadata))

    def register_handler(  # noqa: PLR0913 - a public signature
        self,
        facet_name: str,
        module_uri: str,
        entrypoint: str = DEFAULT_ENTRYPOINT,
        version: str = "1.0.0",
        checksum: str = "",
        timeout_ms: int | None = None,
        requirements: Sequence[str] | None = None,
        metadata: Mapping[str, object] | None = None,
        *,
        retry: RetryRule | None = None,
    ) -> None:
        """Handle a facet with a function of a module, and load the module now. Raises HandlerModuleError."""
        registration = HandlerRegistration(
            facet_name=facet_name, module_uri=module_uri, entrypoint=entrypoint, version=version, checksum=checksum,
            timeout_ms=timeout_ms, requirements=tuple(requirements or ()), metadata=dict(metadata or {}),
        )  # fmt: skip
        self._add(loaded_route(registration, self._loader, retry))

    def unregister(self, facet_name: str) -> bool:
        """Remove a handler, also while the agent runs; return False when there is no handler of this name.

        Running handlers are still answered. Events that have not started wait for the next agent that handles the
        facet.
        """
        with self._changing:
            if facet_name not in self._own:
                return False
            self._change({name: route for name, route in self._own.items() if name != facet_name})
            return True

    def load_handlers(self, argument: str) -> None:
        """Register what a `--handlers` argument names. Raises HandlerModuleError."""
        named = HandlersArgument.parse(argument)
        register_module(
            self, self._loader, named.module_uri, named.facets,
            entrypoint=named.entrypoint, otherwise=self.config.facets,
        )  # fmt: skip

    def register_module(self, module_uri: str, facets: Sequence[str] = (), *, entrypoint: str | None = None) -> None:
        """Register all handlers of a module: those of `facets`, or those that the module names or registers itself.

        `entrypoint` names the function if it is not `handle`. Raises HandlerModuleError.
        """
        register_module(self, self._loader, module_uri, facets, entrypoint=entrypoint)

    def registered_names(self) -> list[str]:
        """Return the names that handlers are registered under."""
        return list(self._routes.routes)

    def _add(self, route: Route) -> None:
        with self._changing:
            self._change({**self._own, route.name: route})

    def _change(self, own: dict[str, Route]) -> None:
        """Use these handlers from now on, and those from elsewhere.

        Changes nothing if it raises what `_subscriptions` raises.
        """
        routes = self._with_others(own)
        subscriptions = None if self._memberships is None else self._subscriptions(RouteTable(routes))
        self._own, self._routes.routes = own, routes
        if self._memberships is not None and subscriptions is not None:
            self._memberships.follow(subscriptions)

    def _with_others(self, own: dict[str, Route]) -> dict[str, Route]:
        """Return these routes together with those that come from elsewhere."""
        return own

    # Running

    def start(self) -> None:
        """Join the groups.

        Waits up to `kafka.outage_timeout_s` for brokers that do not answer and for schemas that cannot be announced
        now. Raises NoHandlers, NoSuchFacet, TopicMissing, SchemaUnavailable and what the transport raises.
        """
        if self._memberships is not None:
            return
        with self._changing:
            try:
                self._join()
            except Exception:
                # It may be started again.
                self._opened.close(is_dead=False)
                raise

    def _join(self) -> None:
        subscriptions = self._waited_for(self._first_subscriptions)
        codec, sealer = self._opened.codec()
        producer = self._opened.producer()
        records = AgentRecords(self._topology, codec, self.config.name, sealer=sealer)
        self._waited_for(records.announce)
        self._records = records
        needed = {self._topology.schemas(), self._topology.control()}.union(
            *(subscription.topics for subscription in subscriptions)
        )
        admin, bootstrap = self._transport.admin(), self.config.stream.kafka.bootstrap
        self._waited_for(lambda: warn_of_unsafe_policies(self._topology, admin, needed, bootstrap))
        cancellations = self._opened.also(Cancellations(self._transport, codec, self._topology.lifecycle()))
        paused = self._paused = self._opened.also(PausedFacets(self._transport, codec, self._topology))
        self._waited_for(paused.begin)
        resources = AgentResources(
            config=self.config, shutdown=self._shutdown, counters=self._counters, pool=self._pool, producer=producer,
            records=records, cancellations=cancellations, transport=self._transport, paused=paused,
            tracing=self._opened.tracing(), failed_tries=self.failed_tries,
            ended_runs=EndedRuns(self._transport, codec, self._topology.lifecycle()), probe=self._probe,
            clock_s=self._clock_s, does_without=self._does_without,
        )  # fmt: skip
        memberships = Memberships(resources, self._transport, self._routes)
        try:
            memberships.follow(subscriptions)
        except Exception:
            memberships.leave()
            raise
        self._memberships = memberships

    def _waited_for(self, step: Callable[[], T]) -> T:
        timeout_s = self.config.stream.kafka.outage_timeout_s
        return waited_out(step, timeout_s, self._clock_s, lambda: self._shutdown.is_stopping)

    def turn(self, timeout_s: float) -> int:
        """Let each membership do what it can do without waiting for a handler; return the number of records read.

        Raises the error that has ended the agent meanwhile, such as HandlersStuck.
        """
        self.start()
        if self._shutdown.error is not None:
            raise self._shutdown.error
        self._keep_up()
        return guarded(lambda: self._started.turn(timeout_s), self.abandon)

    def run_once(self, timeout_s: float) -> int:
        """Read once, wait until everything that was read is answered, commit; return the number of records read."""
        count = self.turn(timeout_s)
        guarded(self._started.settle, self.abandon)
        return count

    def run(self) -> int:
        """Work until `stop` is called, then drain, and return the exit code.

        ExitCode.OK: no handler was running when the grace period ended. WORK_LEFT: handlers were still running; their
        events are uncommitted and will be handled again. If an error ended the agent, this raises it: HandlersStuck
        when more handlers than allowed still run after their time-out.
        """
        try:
            self.start()
        except (BrokerUnavailable, SchemaUnavailable):
            if not self._shutdown.is_stopping:
                raise
            # It was stopped before there was anything to drain.
            return self._end()
        self._started.run(self._keep_up)
        return self._end()

    def stop(self) -> None:
        """Begin to drain: take no new events, finish running handlers, answer, commit, leave.

        Safe in a signal handler.
        """
        self._shutdown.stop()

    def close(self) -> int:
        """Drain and leave, for callers of `turn` and `run_once`; return the exit code as `run` does."""
        self._shutdown.stop()
        if not self._ended and self._memberships is not None:
            self._memberships.drain()
        return self._end()

    def abandon(self, error: BaseException) -> None:
        """End as a killed process does: produce, flush and commit nothing more, and leave no group."""
        self._shutdown.die(error)
        self._pool.close()

    def install_signal_handlers(self) -> None:
        """Drain on SIGTERM and SIGINT, and print what the drain waits for; a second signal ends the process at once.

        The handlers stay for the rest of the process's life. Call this on the main thread only.
        """
        handled = ExitStack()
        handled.enter_context(draining(self.stop, self.remaining))
        # Never closed: kept from being collected by the process's own end.
        self._signals = handled

    def remaining(self) -> str:
        """Describe the work left before the agent has drained. Takes no lock, because a signal handler calls it."""
        return "" if self._memberships is None else self._memberships.remaining()

    @property
    def _started(self) -> Memberships:
        assert self._memberships is not None
        return self._memberships

    @property
    def _members(self) -> list[GroupMember]:
        return [] if self._memberships is None else self._memberships.members

    @property
    def counts(self) -> AgentCounts:
        """The agent's counters up to now."""
        return self._counters.snapshot()

    def counts_by_facet(self) -> Mapping[str, FacetCounts]:
        """Return the number of events answered so far, by facet."""
        return self._counters.by_facet()

    @property
    def groups(self) -> list[str]:
        """The groups that this agent is a member of."""
        return [member.subscription.group for member in self._members]

    @property
    def groups_without_partitions(self) -> list[str]:
        """The groups that have assigned no partitions to this agent. For the thread that calls `turn`."""
        return [member.subscription.group for member in self._members if not member.has_partitions]

    @property
    def has_read_all(self) -> bool:
        """Return whether the broker says that no record is left to read. For the thread that calls `turn`."""
        return all(member.has_read_all for member in self._members)

    @property
    def has_work(self) -> bool:
        """Return whether a record that was read is unfinished, including one that waits for its next retry."""
        return any(member.has_work for member in self._members)

    def health(self) -> AgentHealth:
        """Return whether the agent makes progress. Any thread may call this."""
        if self._memberships is None:
            reasons = (*self._shutdown.reasons(), "the agent has not started")
            return AgentHealth(ready=False, reasons=reasons, lag=0, in_flight=0)
        return self._memberships.health()

    # The ends of it

    def _keep_up(self) -> None:
        """Resume what has become possible again. The thread that runs the agent calls this repeatedly."""
        now_s = self._clock_s()
        if self._records is not None:
            self._records.keep_announced(now_s)
        if self._paused is not None:
            self._paused.look_when_due(now_s)
        if not self._vanished.is_looked_for(now_s):
            return
        if back := self._vanished.look(now_s, self._transport.admin().topic_names):
            with self._changing:
                self._vanished.mark_found(back)
                self._started.follow(self._facet_topics.subscriptions(self._vanished.facets_here()))

    def _does_without(self, topic: str) -> bool:
        """Note that a topic does not exist any more; return whether other topics are left to read."""
        with self._changing:
            if not self._vanished.mark_missing(topic):
                return False
            self._started.follow(self._facet_topics.subscriptions(self._vanished.facets_here()))
            return True

    def _first_subscriptions(self) -> list[Subscription]:
        if not self._routes.routes:
            raise NoHandlers
        return self._subscriptions(self._routes)

    def _subscriptions(self, routes: RouteTable) -> list[Subscription]:
        """Return the groups to join, with the facets and topics of each. Every topic that is needed must exist."""
        existing = self._transport.admin().topic_names()
        carried = self._facet_topics.carried(facets_of(routes.routes, self._facet_topics.known_facets(existing)))
        facets = self._vanished.facets_here(carried)
        self._facet_topics.require(existing, facets, self._transport.admin())
        self._vanished.wanted_facets = tuple(carried)
        return self._facet_topics.subscriptions(facets)

    def _end(self) -> int:
        self._ended = True
        self._pool.close()
        self._opened.close(is_dead=self._shutdown.is_dead)
        if self._shutdown.error is not None:
            raise self._shutdown.error
        work_left = self._memberships is not None and self._memberships.work_left
        return ExitCode.WORK_LEFT if work_left else ExitCode.OK
