"""The metrics of a gateway: of requests and leases, and those of an agent, summed over its agents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import add
from typing import TYPE_CHECKING, Final

from afl.core.monitoring.health import ServiceHealth, judge_turn, together
from afl.core.monitoring.histograms import WORK_BOUNDS_S, Histogram
from afl.core.monitoring.metrics import Distribution, Family, Metric, Values, counter, gauge, histogram
from afl_stream.agent.metrics import AGENT_METRICS, TURN_AGE, AgentMetrics

if TYPE_CHECKING:
    from afl_stream.gateway.gateway import Gateway

REQUESTS: Final = counter(
    "afl_gateway_requests_total",
    "requests answered, by operation and status; 499: the client had gone",
    "operation",
    "status",
)
REQUEST_TIME: Final = histogram(
    "afl_gateway_request_seconds", "from a request to its answer, long polls and waits included", "operation"
)
WAITING: Final = gauge("afl_gateway_events_waiting", "events that wait for a poll", "facet")
LEASED: Final = gauge("afl_gateway_leases", "leases that hold", "facet")
TAKEN: Final = counter("afl_gateway_leases_total", "leases given", "facet")
ENDED: Final = counter("afl_gateway_leases_ended_total", "leases ended: done, ran_out, put_back", "facet", "ending")

GATEWAY_METRICS: Final[tuple[Metric, ...]] = (REQUESTS, REQUEST_TIME, WAITING, LEASED, TAKEN, ENDED)


class RequestCounts:
    """Counts requests. The event loop notes them; any thread may read."""

    def __init__(self) -> None:
        self.time = Histogram(REQUEST_TIME, WORK_BOUNDS_S)
        self._counts: dict[tuple[str, ...], float] = {}

    def note(self, operation: str, status: int, duration_s: float) -> None:
        """Count a request that was answered."""
        key = (operation, str(status))
        self._counts[key] = self._counts.get(key, 0) + 1
        self.time.observe(duration_s, operation)

    def family(self) -> Family:
        """Return how many there were."""
        return Family(REQUESTS, self._counts.copy())


class GatewayMetrics:
    """The metrics and the health of one gateway."""

    metrics: Sequence[Metric] = (*GATEWAY_METRICS, *AGENT_METRICS)

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._agents = [
            AgentMetrics(running.agent, observer)
            for running in gateway.agents
            if (observer := running.agent.config.observer) is not None
        ]

    def health(self, stuck_after_s: float) -> ServiceHealth:
        """Return the health of the gateway."""
        age_s = max((agent.turn_age_s for agent in self._agents), default=0.0)
        found = ServiceHealth(reasons=tuple(self._gateway.problems()))
        return together(judge_turn(age_s, stuck_after_s, "the reader of a group"), found)

    def collect(self) -> Iterator[Family]:
        """Return the values of now."""
        yield self._gateway.requests.family()
        yield self._gateway.requests.time.family()
        desks = self._gateway.desks
        counts = {facet: desk.counts for facet, desk in desks.items()}
        yield Family(WAITING, {(facet,): waiting for facet, (waiting, _) in counts.items()})
        yield Family(LEASED, {(facet,): leased for facet, (_, leased) in counts.items()})
        yield Family(TAKEN, {(facet,): desk.taken for facet, desk in desks.items()})
        ended: dict[tuple[str, ...], float] = {
            (facet, ending.name.lower()): count for facet, desk in desks.items() for ending, count in desk.ended.items()
        }
        yield Family(ENDED, ended)
        yield from of_several(family for agent in self._agents for family in agent.collect())


def of_several(families: Iterable[Family]) -> Iterator[Family]:
    """Yield one family for each metric of several agents: sums, and of ages the greatest."""
    found: dict[Metric, dict[tuple[str, ...], float | Distribution]] = {}
    for metric, values in families:
        _add(found.setdefault(metric, {}), values, is_age=metric is TURN_AGE)
    yield from (Family(metric, values) for metric, values in found.items())


def _add(into: dict[tuple[str, ...], float | Distribution], values: Values, *, is_age: bool) -> None:
    for labels, value in values.items():
        known = into.get(labels)
        if known is None:
            into[labels] = value
        elif isinstance(known, Distribution) and isinstance(value, Distribution):
            counts = tuple(map(add, known.counts, value.counts))
            into[labels] = Distribution(known.bounds, counts, known.total + value.total)
        elif not isinstance(known, Distribution) and not isinstance(value, Distribution):
            into[labels] = max(known, value) if is_age else known + value
