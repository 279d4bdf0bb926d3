"""The metrics of an audit: its counters, as they are when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from afl.core.monitoring.health import ServiceHealth, judge_turn, together
from afl.core.monitoring.metrics import Family, Metric, by_label, counter, gauge, one

if TYPE_CHECKING:
    from afl_stream.audit.audit import Audit

WRITTEN: Final = counter("afl_audit_records_written_total", "records written")
UNREADABLE: Final = counter("afl_audit_records_unreadable_total", "records written that could not be decoded")
REPEATED: Final = counter("afl_audit_records_repeated_total", "records read that were written before")
COMMITS: Final = counter("afl_audit_commits_total", "commits of offsets")
COMMIT_FAILURES: Final = counter("afl_audit_commit_failures_total", "commits of offsets that failed")
LAG_COMMITTED: Final = gauge("afl_audit_lag_committed_records", "offsets that are not written", "topic")
LAG_READ: Final = gauge("afl_audit_lag_read_records", "offsets that are not read", "topic")
WAITING: Final = gauge("afl_audit_partitions_waiting", "partitions that are not followed now, for a schema for example")
TURN_AGE: Final = gauge("afl_audit_turn_age_seconds", "time since the audit has turned")

AUDIT_METRICS: Final[tuple[Metric, ...]] = (
    WRITTEN, UNREADABLE, REPEATED, COMMITS, COMMIT_FAILURES, LAG_COMMITTED, LAG_READ, WAITING, TURN_AGE,
)  # fmt: skip


class AuditMetrics:
    """The metrics and the health of one audit."""

    metrics: Sequence[Metric] = AUDIT_METRICS

    def __init__(self, audit: Audit) -> None:
        self._audit = audit

    def health(self, stuck_after_s: float) -> ServiceHealth:
        """Return the health of the audit."""
        found = ServiceHealth(reasons=self._audit.health().reasons)
        return together(judge_turn(self._audit.progress.turns.age_s, stuck_after_s, "the audit"), found)

    def collect(self) -> Iterator[Family]:
        """Return the values of now."""
        counts = self._audit.counts
        yield one(WRITTEN, counts.written)
        yield one(UNREADABLE, counts.unreadable)
        yield one(REPEATED, counts.repeated)
        yield one(COMMITS, counts.commits)
        yield one(COMMIT_FAILURES, counts.commit_failures)
        lags = self._audit.progress.lag.by_topic()
        yield by_label(LAG_COMMITTED, {topic: lag.committed for topic, lag in lags.items()})
        yield by_label(LAG_READ, {topic: lag.read for topic, lag in lags.items()})
        yield one(WAITING, len(self._audit.problems))
        yield one(TURN_AGE, self._audit.progress.turns.age_s)
