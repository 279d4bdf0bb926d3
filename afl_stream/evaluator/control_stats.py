"""The counters of a control loop since it started, for logs, health and people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from afl_stream.evaluator.external.event_counts import EventStats
from afl_stream.evaluator.outcomes import Outcome
from afl_stream.transport import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerStats:
    """Counters of the timers that a control loop has fired."""

    fired: int = 0
    #: The longest time that one of them was late.
    late_ms: int = 0
    #: Deadlines among them: events that were not answered in time.
    deadlines: int = 0
    #: Further attempts among them, which the program asks for.
    retries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlStats:
    """Counters of a control loop since it started."""

    outcomes: Mapping[Outcome, int]
    batches: int
    conflicts: int
    positions_lost: int
    published: int
    unacknowledged: int
    runnable: int
    #: Scripts that run, wait for a worker, or have ended and are not applied.
    scripts: int
    #: Outbox rows that wait because their topic is missing or too small for them, by topic.
    undeliverable: Mapping[str, int]
    #: Events that wait in the outbox because their facets are paused.
    held: int = 0
    #: Facets that two groups of agents answer, so that all of their work is done twice: facet, first group, other.
    doubled: frozenset[tuple[str, str, str]]
    owned: tuple[TopicPartition, ...]
    paused: Mapping[TopicPartition, str]
    #: External events, and executions that continued as new.
    events: EventStats = field(default_factory=EventStats)
    timers: TimerStats = field(default_factory=TimerStats)
    #: Firings of schedules: how many have started a run, were skipped, were missed.
    firings: Mapping[str, int] = field(default_factory=dict)
    #: Unanswered events that were published again.
    republished: int = 0
    #: Records that became dead letters, by reason.
    dead_letters: Mapping[str, int] = field(default_factory=dict)
