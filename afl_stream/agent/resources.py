"""Resources that the members of one agent share: settings, counters, slots, the producer, and the shutdown."""

from __future__ import annotations

import dataclasses
import os
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from afl.core.backoff import Backoff
from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.handlers.pool import HandlerPool
from afl.core.handlers.retry import BadRetryPolicy, RetryPolicy
from afl.core.probes import Probe, no_probe
from afl.core.text.exception_text import exception_line
from afl_stream.agent.cancellations import Cancellations
from afl_stream.agent.ended_runs import EndedRuns
from afl_stream.agent.failed_tries import FailedTries
from afl_stream.agent.observer import AgentObserver
from afl_stream.agent.pausing import PausedFacets
from afl_stream.agent.records import AgentRecords
from afl_stream.errors import ConfigError
from afl_stream.reading.group_reader import FIRST_BACKOFF_S, LostRecords
from afl_stream.reading.offset_tracker import MAX_WINDOW
from afl_stream.settings.config import StreamConfig
from afl_stream.transport import Producer, Transport

if TYPE_CHECKING:
    from afl_stream.tracing.agents import AgentTracing


def _default_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """The settings of one agent. `stream.agent` has slots, window, crash limit and grace period.

    `name` says who answered. `group`: one group for all facets; None: a group for each, named by the deployment's
    template. `facets`: names for handler modules that name none (`--facet`). `stall_after_s`: the agent reports itself
    unhealthy when records wait and none has made progress for this long. `observer` takes notes for metrics.
    """

    stream: StreamConfig = field(default_factory=StreamConfig)
    name: str = field(default_factory=_default_name)
    group: str | None = None
    facets: tuple[str, ...] = ()
    lost_records: LostRecords = LostRecords.STOP
    poll_timeout_s: float = 0.1
    commit_interval_s: float = 0.1
    max_backoff_s: float = 5.0
    stall_after_s: float = 60.0
    lag_interval_s: float = 5.0
    observer: AgentObserver | None = None

    def __post_init__(self) -> None:
        if self.stream.agent.window > MAX_WINDOW:
            raise ConfigError("AgentConfig", "agent.window", self.stream.agent.window, f"{MAX_WINDOW} or less")
        _ = self.retry

    @property
    def retry(self) -> RetryPolicy | None:
        """The policy of handlers that are registered without one. Raises ConfigError."""
        text = self.stream.agent.retry
        try:
            return RetryPolicy.parse(text) if text else None
        except BadRetryPolicy as error:
            expected = f"{error.field}: {error.expected}"
            raise ConfigError("AgentConfig", "agent.retry", text, expected) from error

    @property
    def backoff(self) -> Backoff:
        """The waits while a broker or a schema is away."""
        return Backoff(FIRST_BACKOFF_S, self.max_backoff_s)

    @property
    def queue_records(self) -> int:
        """The number of queued records at which reading pauses: enough to refill every slot."""
        return max(8 * self.stream.agent.max_concurrent, 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCounts:
    """Counters of an agent since it started.

    `skipped`: finished by an earlier process, or of another group's facet. `cancelled`: of a cancelled run. `ended`: of
    runs that have ended, where the group has lost its offsets. `duplicates`: another record of an event that was seen
    before. `answered` counts acknowledged answers, `orphaned` those of partitions that were revoked before, and
    `dropped` those that were not sent, because their partitions were lost.
    """

    read: int = 0
    handled: int = 0
    failed: int = 0
    timed_out: int = 0
    retried: int = 0
    deferred: int = 0
    answered: int = 0
    orphaned: int = 0
    dropped: int = 0
    updates: int = 0
    duplicates: int = 0
    skipped: int = 0
    cancelled: int = 0
    dead_lettered: int = 0
    crashes_seen: int = 0
    resent: int = 0
    lost_records: int = 0
    ended: int = 0
    commits: int = 0
    commit_failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetCounts:
    """Counters of one facet: events answered with a result, and with a failure."""

    handled: int = 0
    failed: int = 0


class Counters:
    """Counters that any thread may change; readers get a frozen snapshot."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._handled: dict[str, int] = {}
        self._failed: dict[str, int] = {}
        self._counts = {f.name: 0 for f in dataclasses.fields(AgentCounts)}
        self._dead_letters: Counter[str] = Counter()

    def add(self, name: str, count: int = 1) -> None:
        with self._lock:
            self._counts[name] += count

    def add_answer(self, facet: str, *, handled: bool) -> None:
        """Count an answer to an event of a facet: a result, or a failure."""
        of_facets = self._handled if handled else self._failed
        with self._lock:
            self._counts["handled" if handled else "failed"] += 1
            of_facets[facet] = of_facets.get(facet, 0) + 1

    def add_dead_letter(self, reason: str) -> None:
        """Count an event that becomes a dead letter."""
        with self._lock:
            self._counts["dead_lettered"] += 1
            self._dead_letters[reason] += 1

    def dead_letters(self) -> Mapping[str, int]:
        """Return the number of dead letters by reason."""
        with self._lock:
            return dict(self._dead_letters)

    def snapshot(self) -> AgentCounts:
        with self._lock:
            return AgentCounts(**self._counts)

    def by_facet(self) -> dict[str, FacetCounts]:
        with self._lock:
            return {
                facet: FacetCounts(handled=self._handled.get(facet, 0), failed=self._failed.get(facet, 0))
                for facet in sorted(self._handled.keys() | self._failed.keys())
            }


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHealth:
    """The health of an agent. `reasons` says what is wrong; `lag` is the number of records not yet taken."""

    ready: bool
    reasons: tuple[str, ...]
    lag: int
    in_flight: int


class Shutdown:
    """The shutdown of an agent: the request to stop, and the way it ends.

    `stop` drains. `fail` drains too, and the agent then raises the error. `die` ends as a killed process does: from
    then on nothing is produced, flushed or committed. Only plain attributes are set, so a signal handler may call
    `stop` whatever the interrupted thread holds.
    """

    def __init__(self) -> None:
        self.is_stopping = False
        self.error: BaseException | None = None
        self.is_dead = False

    def stop(self) -> None:
        self.is_stopping = True

    def fail(self, error: BaseException) -> None:
        if self.error is None:
            self.error = error
        self.is_stopping = True

    def die(self, error: BaseException) -> None:
        if not self.is_dead:
            self.error = error
        self.is_stopping = self.is_dead = True

    def reasons(self) -> tuple[str, ...]:
        """Return in words why the agent takes no more work; empty when it does."""
        error = () if self.error is None else (exception_line(self.error),)
        return (*error, "the agent is stopping") if self.is_stopping else error

    def check(self) -> None:
        """Raise the error that ended the agent."""
        if self.is_dead:
            assert self.error is not None
            raise self.error


def guarded(work: Callable[[], int], abandon: Callable[[BaseException], None]) -> int:
    """Run `work`. On an error that is not an Exception (SystemExit, for one), abandon the agent and raise it."""
    try:
        return work()
    except Exception:
        raise
    except BaseException as error:
        abandon(error)
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResources:
    """The resources that the members of one agent share."""

    config: AgentConfig
    shutdown: Shutdown
    counters: Counters
    pool: HandlerPool
    producer: Producer
    records: AgentRecords
    cancellations: Cancellations
    transport: Transport
    ended_runs: EndedRuns
    paused: PausedFacets
    failed_tries: FailedTries
    #: The maker of this agent's spans; None: tracing is off.
    tracing: AgentTracing | None = None
    probe: Probe = no_probe
    clock_s: MonotonicClock = monotonic_s
    #: Called when a topic that is read does not exist; returns whether the agent continues without it.
    does_without: Callable[[str], bool] = lambda _topic: False
