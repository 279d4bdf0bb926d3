"""The health of an evaluator, for probes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.monitoring.health import ServiceHealth, judge_turn, together

if TYPE_CHECKING:
    from afl_stream.evaluator.monitoring.store_watch import StoreWatch
    from afl_stream.evaluator.service import EvaluatorService

#: How long a member of the group may have no partitions after its start; after it, it stands by.
JOINING_S: Final = 30.0


class EvaluatorHealth:
    """Judges one evaluator. Any thread may ask."""

    def __init__(
        self,
        service: EvaluatorService,
        store: StoreWatch,
        stuck_after_s: float,
        clock_s: MonotonicClock = monotonic_s,
    ) -> None:
        self._service = service
        self._store = store
        self._stuck_after_s = stuck_after_s
        self._clock_s = clock_s
        self._joining_until_s = clock_s() + JOINING_S

    def __call__(self) -> ServiceHealth:
        """Return the health of now."""
        return together(
            judge_turn(self._service.turns.age_s, self._stuck_after_s),
            ServiceHealth(reasons=self._service.health().reasons),
            self._store.health(),
            self._joining(),
        )

    def _joining(self) -> ServiceHealth:
        if self._service.loop.stats().owned or self._clock_s() > self._joining_until_s:
            return ServiceHealth()
        return ServiceHealth(reasons=("the group has assigned no partitions yet",))
