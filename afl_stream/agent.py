"""The agent: takes the events of facets from their topics, has handlers do the work, and answers."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from threading import Thread
from types import FrameType
from typing import Final

from afl_stream.agent_handlers import Deferred, HandlerContext, HandlerOver, RetryPolicy, Route, RouteTable
from afl_stream.agent_member import BUSY_POLL_S, Duty, GroupMember
from afl_stream.agent_records import AgentRecords
from afl_stream.agent_runtime import (
    AgentConfig,
    AgentCounts,
    AgentHealth,
    Clock,
    Conduct,
    Counters,
    LostRecords,
    Shared,
    monotonic_s,
    no_probe,
)
from afl_stream.codec import Codec, single_object_codec
from afl_stream.errors import ConfigError, StreamError, TopicMissing
from afl_stream.exit_codes import ExitCode
from afl_stream.handler_modules import (
    DEFAULT_ENTRYPOINT,
    Handler,
    HandlerModuleError,
    HandlerRegistration,
    HandlersArgument,
    ModuleLoader,
    register_module,
)
from afl_stream.handler_pool import HandlerPool
from afl_stream.topic_log import TopicLog
from afl_stream.topics import Topology
from afl_stream.transport import Producer, Transport

__all__ = [
    "Agent",
    "AgentConfig",
    "AgentCounts",
    "AgentHealth",
    "Deferred",
    "HandlerContext",
    "HandlerModuleError",
    "HandlerOver",
    "LostRecords",
    "NoHandlers",
    "RetryPolicy",
]

log = logging.getLogger(__name__)

#: How long leaving waits for answers that are on their way, when the grace period is over.
LAST_FLUSH_S: Final = 1.0


class NoHandlers(StreamError):
    """An agent without handlers would take events that it cannot answer."""

    def __init__(self) -> None:
        super().__init__("no handler is registered; call register(), or give --handlers MODULE")


class Agent:
    """
    Does the work of the facets that handlers are registered for.

    What happens to one record, and what a crash does, is numbered in GroupMember. A handler takes the payload, or the
    payload and a HandlerContext; it is a function or a coroutine function, and returns a dict (None: an empty one) or
    Deferred. What it raises fails the step: nothing is tried again unless its registration has a RetryPolicy.

    Each facet has a group of its own, unless the config names one for all. `run` blocks until `stop`; `turn` and
    `run_once` are for whoever has a loop already. An agent is used once.
    """

    def __init__(
        self,
        config: AgentConfig,
        transport: Transport,
        *,
        topology: Topology | None = None,
        codec: Codec | None = None,
        probe: Callable[[str], None] = no_probe,
        clock_s: Clock = monotonic_s,
    ) -> None:
        self.config = config
        self._transport = transport
        self._topology = topology if topology is not None else Topology(config.stream)
        self._codec = codec
        self._probe = probe
        self._clock_s = clock_s
        self._routes = RouteTable()
        self._loader = ModuleLoader()
        self._conduct = Conduct()
        self._counters = Counters()
        self._pool = HandlerPool(config.stream.agent.max_concurrent, on_fatal=self._conduct.die, clock_s=clock_s)
        self._producer: Producer | None = None
        self._schemas: TopicLog | None = None
        self._members: list[GroupMember] = []
        self._work_left = False
        self._ended = False

    # Handlers

    def register(
        self,
        facet_name: str,
        handler: Handler,
        *,
        retry: RetryPolicy | None = None,
        timeout_ms: int | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Handle a facet by its qualified name, or each facet of a short name that has a topic at start.

        `timeout_ms`: how long one try may take; None: as long as it takes.
        """
        self._add(Route(
            name=facet_name, find=lambda: handler, timeout_s=_seconds(timeout_ms), retry=retry, metadata=metadata
        ))  # fmt: skip

    def register_handler(
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
        retry: RetryPolicy | None = None,
    ) -> None:
        """Handle a facet with a function of a module, which is loaded now. Raises HandlerModuleError."""
        registration = HandlerRegistration(
            facet_name=facet_name,
            module_uri=module_uri,
            entrypoint=entrypoint,
            version=version,
            checksum=checksum,
            timeout_ms=timeout_ms,
            requirements=tuple(requirements or ()),
            metadata=dict(metadata or {}),
        )
        self._loader.function(module_uri, entrypoint, checksum)
        self._add(
            Route(
                name=facet_name,
                find=lambda: self._loader.function(
                    registration.module_uri, registration.entrypoint, registration.checksum
                ),
                timeout_s=_seconds(timeout_ms),
                retry=retry,
                metadata=registration.metadata,
            )
        )

    def load_handlers(self, argument: str) -> None:
        """Register what a `--handlers` argument names; see afl_stream.handler_modules. Raises HandlerModuleError."""
        register_module(HandlersArgument.parse(argument), self, self._loader, self.config.facets)

    def registered_names(self) -> list[str]:
        """The names that handlers are registered under."""
        return list(self._routes.routes)

    def _add(self, route: Route) -> None:
        if self._members:
            raise ConfigError("Agent", "register", route.name, "registrations before the agent starts")
        self._routes.routes[route.name] = route

    # Running

    def start(self) -> None:
        """Join the groups.

        Raises NoHandlers, NoSuchFacet, TopicMissing, SchemaUnavailable and what the transport raises.
        """
        if self._members:
            return
        duties = self._duties()
        producer = self._producer = self._transport.producer()
        codec = self._codec
        if codec is None:
            self._schemas = TopicLog(self._transport, self._topology.schemas())
            codec = single_object_codec(self._schemas, max_event_bytes=self.config.stream.max_event_bytes)
        records = AgentRecords(self._topology, codec, self.config.name)
        records.announce()
        shared = Shared(
            config=self.config,
            conduct=self._conduct,
            counters=self._counters,
            pool=self._pool,
            producer=producer,
            records=records,
            probe=self._probe,
            clock_s=self._clock_s,
        )
        for duty in duties:
            consumer = self._transport.consumer(duty.group, client_id=self.config.name)
            self._members.append(GroupMember(shared, consumer, duty, self._routes))
        for member in self._members:
            member.join()

    def turn(self, timeout_s: float) -> int:
        """Let each membership do what it can do now, waiting for no handler; return the number of records read."""
        self.start()
        return self._guarded(lambda: sum(member.turn(timeout_s) for member in self._members))

    def run_once(self, timeout_s: float) -> int:
        """Read once, wait until everything in hand is answered, commit; return the number of records read."""
        count = self.turn(timeout_s)
        self._guarded(self._settle)
        return count

    def run(self) -> int:
        """Work until `stop` is called, then drain, and return the exit code.

        ExitCode.OK: nothing was left running when the grace period ended. WORK_LEFT: handlers still ran; their events
        are uncommitted and will be handled again. Raises what ended the agent if it was not `stop`.
        """
        self.start()
        threads = [
            Thread(target=self._serve, args=(member,), name=f"agent-{member.duty.group}", daemon=True)
            for member in self._members[1:]
        ]
        for thread in threads:
            thread.start()
        self._serve(self._members[0])
        for thread in threads:
            thread.join()
        return self._end()

    def stop(self) -> None:
        """Ask for the end: no new work, finish what runs, answer, commit, leave. Safe in a signal handler."""
        self._conduct.stop()

    def close(self) -> int:
        """Drain and leave, for those who use `turn` and `run_once`; return the exit code as `run` does."""
        self._conduct.stop()
        if not self._ended:
            for member in self._members:
                self._drain(member)
        return self._end()

    def abandon(self, error: BaseException) -> None:
        """End as a killed process does: nothing more is produced, flushed or committed, no group is left."""
        self._conduct.die(error)

    def install_signal_handlers(self) -> None:
        """Drain on SIGTERM and SIGINT; a second signal of the kind does what it did before. Main thread only."""
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.getsignal(number)

            def drain(received: int, frame: FrameType | None, before: object = before) -> None:
                signal.signal(received, before)  # type: ignore[arg-type]  # what getsignal gave, signal takes
                self.stop()

            signal.signal(number, drain)

    @property
    def counts(self) -> AgentCounts:
        """What was done so far."""
        return self._counters.snapshot()

    @property
    def groups(self) -> list[str]:
        """The groups that this agent is a member of."""
        return [member.duty.group for member in self._members]

    @property
    def groups_without_partitions(self) -> list[str]:
        """Those of them that have given this agent nothing to read. For the thread that calls `turn`."""
        return [member.duty.group for member in self._members if not member.has_partitions]

    @property
    def has_work(self) -> bool:
        """Whether a record that was read is unfinished, be it that it waits for its next try."""
        return any(member.has_work for member in self._members)

    def health(self) -> AgentHealth:
        """Whether the agent gets on, judged by what moves. Any thread may ask."""
        found = [member.health() for member in self._members]
        reasons = [reason for reasons, _ in found for reason in reasons]
        if self._conduct.error is not None:
            reasons.append(f"{type(self._conduct.error).__name__}: {self._conduct.error}")
        if self._conduct.is_stopping:
            reasons.append("the agent is stopping")
        if not self._members:
            reasons.append("the agent has not started")
        return AgentHealth(
            ready=not reasons,
            reasons=tuple(reasons),
            lag=sum(lag for _, lag in found),
            in_flight=sum(member.in_flight for member in self._members),
        )

    # The ends of it

    def _duties(self) -> list[Duty]:
        """Which groups to join, for which facets, on which topics; every topic that is needed must be there."""
        if not self._routes.routes:
            raise NoHandlers
        topology = self._topology
        existing = self._transport.admin().topic_names()
        known = [facet for topic in existing for facet in topology.facets_of(topic)]
        facets = self._routes.resolve(known)
        needed = {topology.control(): "answers"}
        for facet in facets:
            topic = topology.facet(facet)
            needed.setdefault(topic, f"facet {facet}")
            needed.setdefault(topology.dlq(topic), f"dead letters of facet {facet}")
        for topic, purpose in needed.items():
            if topic not in existing:
                raise TopicMissing(topic, purpose)
        groups: dict[str, list[str]] = {}
        for facet in facets:
            groups.setdefault(self.config.group or self.config.stream.agent_group(facet), []).append(facet)
        return [
            Duty(
                group=group,
                facets=frozenset(names),
                topics={topology.facet(name): topology.is_shared(topology.facet(name)) for name in names},
            )
            for group, names in groups.items()
        ]

    def _serve(self, member: GroupMember) -> None:
        """Work until the end, drain; one thread for each member. An error of one ends all of them."""
        conduct = self._conduct
        try:
            while not conduct.is_stopping:
                member.turn(self.config.poll_timeout_s)
        except Exception as error:  # noqa: BLE001 - the agent ends in good order, and `run` raises it
            log.error("group %s: %s: %s", member.duty.group, type(error).__name__, error)
            conduct.fail(error)
        except BaseException as error:  # noqa: BLE001 - the same, but in no order at all
            conduct.die(error)
        self._drain(member)

    def _drain(self, member: GroupMember) -> None:
        conduct = self._conduct
        if conduct.is_dead:
            return
        try:
            if not member.drain(self._clock_s() + self.config.stream.agent.grace_s):
                self._work_left = True
        except Exception as error:  # noqa: BLE001 - whatever keeps one member from leaving, the others leave
            conduct.fail(error)
        except BaseException as error:  # noqa: BLE001 - the process is to die of it
            conduct.die(error)

    def _settle(self) -> int:
        while any(member.is_busy for member in self._members):
            for member in self._members:
                member.turn(BUSY_POLL_S, reading=False)
        for member in self._members:
            member.commit()
        return 0

    def _guarded(self, work: Callable[[], int]) -> int:
        """Do it; what is no Exception is the end of the process, and nothing is done after it."""
        try:
            return work()
        except Exception:
            raise
        except BaseException as error:
            self._conduct.die(error)
            raise

    def _end(self) -> int:
        self._ended = True
        self._pool.close()
        producer, self._producer = self._producer, None
        if producer is not None and not self._conduct.is_dead:
            producer.flush(LAST_FLUSH_S)
            producer.close()
            if self._schemas is not None:
                self._schemas.close()
        if self._conduct.error is not None:
            raise self._conduct.error
        return ExitCode.WORK_LEFT if self._work_left else ExitCode.OK


def _seconds(timeout_ms: int | None) -> float | None:
    return None if timeout_ms is None else timeout_ms / 1000
