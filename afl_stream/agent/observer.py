"""What an agent observes of its own work where metrics are on: how long handlers run, and how long answers take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from afl.core.clock import MonotonicClock, epoch_ms, monotonic_s
from afl.core.handlers.outcomes import Outcome, RunTimeEstimate
from afl.core.handlers.routes import Route
from afl.core.monitoring.histograms import ANSWER_BOUNDS_S, WORK_BOUNDS_S, Histogram
from afl.core.monitoring.metrics import histogram

if TYPE_CHECKING:
    from afl_stream.agent.work import Work
    from afl_stream.reading.lag import Lag
    from afl_stream.transport import TopicPartition

HANDLER_TIME: Final = histogram("afl_agent_handler_seconds", "runs of handlers", "facet")
ANSWER_TIME: Final = histogram(
    "afl_agent_answer_seconds", "from the time of an event's record until the broker has its answer", "facet"
)


class ObservedMember(Protocol):
    """What is asked of a member of a group."""

    @property
    def turned_s(self) -> float:
        """When it has had its last turn."""

    @property
    def lags(self) -> Mapping[TopicPartition, Lag]:
        """The lag of each of its partitions."""


class _ObservedRunTime(RunTimeEstimate):
    """The run times of one handler, each of which is counted too."""

    __slots__ = ("_facet", "_histogram")

    def __init__(self, histogram: Histogram, facet: str) -> None:
        super().__init__()
        self._histogram, self._facet = histogram, facet

    def note(self, duration_s: float) -> None:
        super().note(duration_s)
        self._histogram.observe(duration_s, self._facet)


class AgentObserver:
    """Takes notes for histograms. Any thread may note and read."""

    def __init__(self, clock_s: MonotonicClock = monotonic_s, wall_ms: Callable[[], int] = epoch_ms) -> None:
        self._clock_s = clock_s
        self._wall_ms = wall_ms
        self.handler_time = Histogram(HANDLER_TIME, WORK_BOUNDS_S)
        self.answer_time = Histogram(ANSWER_TIME, ANSWER_BOUNDS_S)
        #: The route of each facet, and what it is replaced by.
        self._routes: dict[str, tuple[Route, Route]] = {}
        #: Returns the members of the agent, once it has any.
        self.members: Callable[[], Sequence[ObservedMember]] = tuple
        #: Returns the number of dead letters by reason.
        self.dead_letters: Callable[[], Mapping[str, int]] = dict

    def observed(self, route: Route, facet: str) -> Route:
        """Return a route whose handler's runs are counted for this facet; the same one for the same route."""
        known = self._routes.get(facet)
        if known is None or known[0] is not route:
            made = replace(route, run_time=_ObservedRunTime(self.handler_time, facet))
            known = self._routes[facet] = (route, made)
        return known[1]

    def timed(self, facet: str, take: Callable[[Outcome], None]) -> Callable[[Outcome], None]:
        """Return what counts the time from now on, and then calls `take`."""
        began_s = self._clock_s()

        def timed(outcome: Outcome) -> None:
            self.handler_time.observe(self._clock_s() - began_s, facet)
            take(outcome)

        return timed

    def answered(self, works: Iterable[Work]) -> None:
        """Count the time of records whose answers the broker has acknowledged."""
        now_ms = self._wall_ms()
        self.answer_time.observe_all(
            (max(0, now_ms - work.record.timestamp_ms) / 1_000, work.event.event_type)
            for work in works
            if work.event is not None and work.record.timestamp_ms > 0
        )
