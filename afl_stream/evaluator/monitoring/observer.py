"""What an evaluator observes of its own work where metrics are on: a few notes for each batch, none for a step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.monitoring.histograms import ANSWER_BOUNDS_S, WORK_BOUNDS_S, Histogram
from afl.core.monitoring.metrics import histogram
from afl.engine.model.store import OutboxRecord
from afl_stream.wire.messages import StepContinue, StepFailed

if TYPE_CHECKING:
    from afl_stream.evaluator.unit_of_work import UnitOfWork

#: Published events whose answer is waited for, of which the time is kept. The oldest are forgotten first.
MOST_WAITING: Final = 200_000

ANSWER_TIME: Final = histogram(
    "afl_evaluator_answer_seconds",
    "from the publishing of an event to the arrival of its first answer, of events published by this process",
    "facet",
)
COMMIT_TIME: Final = histogram("afl_evaluator_commit_seconds", "commits of batches to the store")
LATENESS: Final = histogram("afl_evaluator_timer_lateness_seconds", "from when a timer was due until it fired", "kind")


class EvaluatorObserver:
    """Takes notes for histograms, and counts workflows. The loop's thread notes, and any thread reads.

    Events that were published before the process started are not measured: nothing knows when.
    """

    def __init__(self, facets_of: Callable[[str], Sequence[str]], clock_s: MonotonicClock = monotonic_s) -> None:
        """`facets_of` returns the facets whose events a topic carries."""
        self.clock_s = clock_s
        self._facets_of = facets_of
        #: The name that events of a topic are counted under; None: the topic has no events.
        self._names: dict[str, str | None] = {}
        #: When events were published, and under which name they are counted, by the id of their step.
        self._waiting: dict[bytes, tuple[float, str]] = {}
        self.answer_time = Histogram(ANSWER_TIME, ANSWER_BOUNDS_S)
        self.commit_time = Histogram(COMMIT_TIME, WORK_BOUNDS_S)
        self.lateness = Histogram(LATENESS, ANSWER_BOUNDS_S)
        self.events: Counter[str] = Counter()
        self.answers: Counter[tuple[str, str]] = Counter()
        self.started = 0
        self.ended: Counter[str] = Counter()
        #: Workflows that batches have changed: each was in memory, or was read from the store.
        self.touched = 0

    @property
    def waiting(self) -> int:
        """The number of events published by this process whose answer has not come."""
        return len(self._waiting)

    def publishes(self, records: Sequence[OutboxRecord]) -> None:
        """Note the events among records that are published now."""
        now_s, names, waiting, events = self.clock_s(), self._names, self._waiting, self.events
        for _, topic, key, _, _ in records:
            name = names[topic] if topic in names else self._name(topic)
            if name is not None and key is not None:
                waiting[key] = (now_s, name)
                events[name] += 1
        while len(waiting) > MOST_WAITING:
            del waiting[next(iter(waiting))]

    def arrived(self, messages: Iterable[object]) -> None:
        """Note the answers among messages that were read."""
        now_s, waiting = self.clock_s(), self._waiting
        took: list[tuple[float, str]] = []
        for message in messages:
            kind = type(message)
            if kind is StepContinue or kind is StepFailed:
                known = waiting.pop(message.step_id.encode("utf-8", "replace"), None)  # type: ignore[attr-defined]  # as its kind says
                if known is not None:
                    since_s, name = known
                    took.append((now_s - since_s, name))
                    self.answers[name, "failed" if kind is StepFailed else "completed"] += 1
        if took:
            self.answer_time.observe_all(took)

    def committed(self, unit: UnitOfWork, late_ms: Mapping[str, Sequence[int]]) -> None:
        """Count what a unit has done that is committed; `late_ms` is how late its timers were, by kind."""
        if late_ms:
            self.lateness.observe_all((ms / 1_000, kind) for kind, some in late_ms.items() for ms in some)
        self.touched += len(unit.changed)
        for change in unit.batch.changes:
            self.started += change.expected_revision == 0
        for execution in unit.changed.values():
            if execution.is_ended:
                self.ended[execution.status] += 1

    def _name(self, topic: str) -> str | None:
        facets = self._facets_of(topic)
        # A topic that several facets share: their events are told apart by their content only.
        name = None if not facets else facets[0] if len(facets) == 1 else topic
        self._names[topic] = name
        return name
