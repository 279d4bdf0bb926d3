"""The metrics of an agent: its counters, as they are when they are asked for, and what its observer has noted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.monitoring.health import ServiceHealth, judge_turn, together
from afl.core.monitoring.metrics import Family, Metric, by_label, counter, gauge, one
from afl_stream.agent.completions import PoisonEvent
from afl_stream.agent.observer import ANSWER_TIME, HANDLER_TIME
from afl_stream.errors import Reason

if TYPE_CHECKING:
    from afl_stream.agent.agent import Agent
    from afl_stream.agent.observer import AgentObserver

READ: Final = counter("afl_agent_records_read_total", "records read")
ANSWERS: Final = counter("afl_agent_answers_total", "events answered: completed, failed", "facet", "result")
ACKNOWLEDGED: Final = counter("afl_agent_answers_acknowledged_total", "answers that the broker has acknowledged")
IN_FLIGHT: Final = gauge("afl_agent_in_flight", "events whose handler runs, or whose answer is being sent")
RETRIES: Final = counter("afl_agent_retries_total", "further runs of handlers that have raised")
TIMEOUTS: Final = counter("afl_agent_timeouts_total", "runs of handlers that were not over in their time")
DEFERRED: Final = counter("afl_agent_deferred_total", "events that are answered later, from elsewhere")
UPDATES: Final = counter("afl_agent_updates_total", "partial results sent")
DUPLICATES: Final = counter("afl_agent_duplicates_total", "records of events that were seen before")
SKIPPED: Final = counter("afl_agent_skipped_total", "events not handled here: done, cancelled, ended", "reason")
#: The reasons that dead letters of agents have.
REASONS: Final = (*(reason.value for reason in Reason), PoisonEvent.__name__)
DEAD_LETTERS: Final = counter("afl_agent_dead_letters_total", "events dead-lettered, by reason", "reason")
CRASHES: Final = counter("afl_agent_crashes_seen_total", "crashes of earlier processes, on events read here")
RESENT: Final = counter("afl_agent_resent_total", "answers sent again because sending failed")
LOST: Final = counter("afl_agent_lost_records_total", "records that were gone before they were read")
COMMITS: Final = counter("afl_agent_commits_total", "commits of offsets")
COMMIT_FAILURES: Final = counter("afl_agent_commit_failures_total", "commits of offsets that failed")
LAG_COMMITTED: Final = gauge(
    "afl_agent_lag_committed_records", "offsets of the assigned partitions behind what is answered", "topic"
)
LAG_READ: Final = gauge("afl_agent_lag_read_records", "offsets of the assigned partitions that are not read", "topic")
ASSIGNED: Final = gauge("afl_agent_partitions_assigned", "partitions assigned", "topic")
TURN_AGE: Final = gauge("afl_agent_turn_age_seconds", "time since the group's reader has turned that waits longest")

AGENT_METRICS: Final[tuple[Metric, ...]] = (
    READ, ANSWERS, ACKNOWLEDGED, ANSWER_TIME, HANDLER_TIME, IN_FLIGHT, RETRIES, TIMEOUTS, DEFERRED, UPDATES, DUPLICATES,
    SKIPPED, DEAD_LETTERS, CRASHES, RESENT, LOST, COMMITS, COMMIT_FAILURES, LAG_COMMITTED, LAG_READ, ASSIGNED, TURN_AGE,
)  # fmt: skip


class AgentMetrics:
    """The metrics and the health of one agent."""

    metrics: Sequence[Metric] = AGENT_METRICS

    def __init__(self, agent: Agent, observer: AgentObserver, clock_s: MonotonicClock = monotonic_s) -> None:
        """Ask this agent, and the observer of its config."""
        self._agent = agent
        self._observer = observer
        self._clock_s = clock_s

    @property
    def turn_age_s(self) -> float:
        """How long ago the member that waits longest has turned."""
        now_s = self._clock_s()
        return max((now_s - member.turned_s for member in self._observer.members()), default=0.0)

    def health(self, stuck_after_s: float) -> ServiceHealth:
        """Return the health of the agent."""
        found = ServiceHealth(reasons=self._agent.health().reasons)
        return together(judge_turn(self.turn_age_s, stuck_after_s, "the reader of a group"), found)

    def collect(self) -> Iterator[Family]:
        """Return the values of now."""
        counts = self._agent.counts
        yield one(READ, counts.read)
        by_facet = self._agent.counts_by_facet()
        answers = dict[tuple[str, ...], float]()
        for facet, count in by_facet.items():
            answers[facet, "completed"], answers[facet, "failed"] = count.handled, count.failed
        yield Family(ANSWERS, answers)
        yield one(ACKNOWLEDGED, counts.answered)
        yield self._observer.answer_time.family()
        yield self._observer.handler_time.family()
        yield one(IN_FLIGHT, self._agent.health().in_flight)
        yield one(RETRIES, counts.retried)
        yield one(TIMEOUTS, counts.timed_out)
        yield one(DEFERRED, counts.deferred)
        yield one(UPDATES, counts.updates)
        yield one(DUPLICATES, counts.duplicates)
        yield by_label(SKIPPED, {"done": counts.skipped, "cancelled": counts.cancelled, "ended": counts.ended})
        yield by_label(DEAD_LETTERS, self._observer.dead_letters(), REASONS)
        yield one(CRASHES, counts.crashes_seen)
        yield one(RESENT, counts.resent)
        yield one(LOST, counts.lost_records)
        yield one(COMMITS, counts.commits)
        yield one(COMMIT_FAILURES, counts.commit_failures)
        yield from self._of_partitions()
        yield one(TURN_AGE, self.turn_age_s)

    def _of_partitions(self) -> Iterator[Family]:
        committed, read, assigned = dict[str, int](), dict[str, int](), dict[str, int]()
        for member in self._observer.members():
            for partition, lag in member.lags.items():
                topic = partition.topic
                committed[topic] = committed.get(topic, 0) + lag.committed
                read[topic] = read.get(topic, 0) + lag.read
                assigned[topic] = assigned.get(topic, 0) + 1
        yield by_label(LAG_COMMITTED, committed)
        yield by_label(LAG_READ, read)
        yield by_label(ASSIGNED, assigned)
