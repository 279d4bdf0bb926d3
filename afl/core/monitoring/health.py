"""The health of a service: whether it lives, whether it is ready, and why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.monitoring.status_server import Answer

#: A loop turns several times a second, unless a commit, a rebalance or a store takes its time.
SLOW_TURN_S: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceHealth:
    """What a service says of itself. `reasons` say what keeps it from being ready; `stuck` why it will not recover."""

    reasons: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()

    @property
    def is_live(self) -> bool:
        """Return whether waiting may help: restart a service for which this is false."""
        return not self.stuck

    @property
    def is_ready(self) -> bool:
        """Return whether the service makes progress."""
        return not (self.reasons or self.stuck)


class Turns:
    """When a loop has turned last. Its thread notes each turn; any thread may ask how long that is ago."""

    __slots__ = ("_clock_s", "last_s")

    def __init__(self, clock_s: MonotonicClock = monotonic_s) -> None:
        self._clock_s = clock_s
        self.last_s = clock_s()

    def turned(self) -> None:
        """Note a turn."""
        self.last_s = self._clock_s()

    @property
    def age_s(self) -> float:
        """Return how long the last turn is ago."""
        return self._clock_s() - self.last_s


def judge_turn(age_s: float, stuck_after_s: float, what: str = "the loop") -> ServiceHealth:
    """Return the health of a loop whose last turn is so long ago."""
    if age_s < min(SLOW_TURN_S, stuck_after_s):
        return ServiceHealth()
    told = f"{what} has not turned for {age_s:.0f} s"
    if age_s < stuck_after_s:
        return ServiceHealth(reasons=(told,))
    return ServiceHealth(stuck=(f"{told}, and counts as stuck after {stuck_after_s:g} s",))


def together(*found: ServiceHealth) -> ServiceHealth:
    """Return one health of several parts."""
    return ServiceHealth(
        reasons=tuple(reason for health in found for reason in health.reasons),
        stuck=tuple(reason for health in found for reason in health.stuck),
    )


def health_routes(ask: Callable[[], ServiceHealth]) -> dict[str, Callable[[], Answer]]:
    """Return the routes of the health: 200 where all is well, else 503, with the reasons."""

    def live() -> Answer:
        health = ask()
        return _status(health.is_live), {"live": health.is_live, "reasons": list(health.stuck)}

    def ready() -> Answer:
        health = ask()
        return _status(health.is_ready), {"ready": health.is_ready, "reasons": [*health.stuck, *health.reasons]}

    return {"/health/live": live, "/health/ready": ready}


def _status(is_well: bool) -> HTTPStatus:
    return HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
