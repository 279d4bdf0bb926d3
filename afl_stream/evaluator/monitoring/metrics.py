"""The metrics of an evaluator: its counters, as they are when they are asked for, and what its observer has noted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from afl.core.monitoring.metrics import Family, Metric, Values, by_label, counter, gauge, one
from afl.engine.model.workflow_rows import ENDED_STATUSES
from afl_stream.evaluator.external.event_counts import Happened
from afl_stream.evaluator.monitoring.dead_letter_reasons import REASONS
from afl_stream.evaluator.monitoring.observer import ANSWER_TIME, COMMIT_TIME, LATENESS
from afl_stream.evaluator.outcomes import Outcome

if TYPE_CHECKING:
    from afl_stream.evaluator.control_stats import ControlStats
    from afl_stream.evaluator.monitoring.observer import EvaluatorObserver
    from afl_stream.evaluator.monitoring.store_watch import StoreWatch
    from afl_stream.evaluator.service import EvaluatorService

RECORDS: Final = counter("afl_evaluator_records_total", "records read, by what became of them", "outcome")
DUPLICATES: Final = counter("afl_evaluator_duplicates_total", "answers and starts that had been applied before")
SUPERSEDED: Final = counter("afl_evaluator_superseded_total", "answers to an attempt that is not the current one")
DEAD_LETTERS: Final = counter("afl_evaluator_dead_letters_total", "records dead-lettered, by reason", "reason")
EVENTS: Final = counter("afl_evaluator_events_total", "events published", "facet")
ANSWERS: Final = counter(
    "afl_evaluator_answers_total", "answers to events published by this process: completed, failed", "facet", "result"
)
IN_FLIGHT: Final = gauge("afl_evaluator_events_in_flight", "events published by this process and not answered")
STARTED: Final = counter("afl_evaluator_workflows_started_total", "runs started")
ENDED: Final = counter("afl_evaluator_workflows_ended_total", "runs that have ended, by status", "status")
BATCHES: Final = counter("afl_evaluator_batches_total", "batches committed")
CONFLICTS: Final = counter("afl_evaluator_conflicts_total", "batches computed again because of another writer")
POSITIONS_LOST: Final = counter("afl_evaluator_positions_lost_total", "times that another owner had the partitions")
PUBLISHED: Final = counter("afl_evaluator_published_total", "outbox records handed to the producer")
UNACKNOWLEDGED: Final = gauge("afl_evaluator_unacknowledged", "outbox records that the broker has not acknowledged")
UNDELIVERABLE: Final = gauge("afl_evaluator_undeliverable", "outbox records that no topic takes now", "topic")
OUTBOX_AGE: Final = gauge("afl_evaluator_outbox_age_seconds", "age of the oldest record in the outbox; 0: it is empty")
TIMERS_DUE: Final = gauge("afl_evaluator_timers_due", "timers that are due and have not fired, 1000 at most")
TIMER_LATE: Final = gauge("afl_evaluator_timers_late_seconds", "how late the first of them is")
TIMERS_FIRED: Final = counter("afl_evaluator_timers_fired_total", "timers fired, deadlines and retries included")
DEADLINES: Final = counter("afl_evaluator_deadlines_total", "events whose deadline has passed unanswered")
RETRIES: Final = counter("afl_evaluator_retries_total", "further attempts at steps, which the program asks for")
REPUBLISHED: Final = counter("afl_evaluator_republished_total", "unanswered events published again")
FIRINGS: Final = counter("afl_evaluator_firings_total", "firings of schedules, by what became of them", "outcome")
EXTERNAL: Final = counter("afl_evaluator_external_events_total", "external events, by what became of them", "happened")
RUNNABLE: Final = gauge("afl_evaluator_runnable_workflows", "runs that have more to do")
SCRIPTS: Final = gauge("afl_evaluator_scripts", "scripts that run, or wait for a worker")
CACHE_HITS: Final = counter("afl_evaluator_cache_hits_total", "runs that a batch has changed and that were in memory")
CACHE_MISSES: Final = counter("afl_evaluator_cache_misses_total", "runs read from the store")
HOT: Final = gauge("afl_evaluator_hot_workflows", "runs kept in memory")
LAG_COMMITTED: Final = gauge(
    "afl_evaluator_lag_committed_records", "offsets of the assigned partitions behind the stored position", "topic"
)
LAG_READ: Final = gauge(
    "afl_evaluator_lag_read_records", "offsets of the assigned partitions that are not read", "topic"
)
ASSIGNED: Final = gauge("afl_evaluator_partitions_assigned", "partitions assigned", "topic")
PAUSED: Final = gauge("afl_evaluator_partitions_paused", "partitions paused at a record that cannot be read yet")
DOUBLED: Final = gauge("afl_evaluator_facets_answered_twice", "facets whose events two groups answer")
TURN_AGE: Final = gauge("afl_evaluator_turn_age_seconds", "time since the loop has turned")

EVALUATOR_METRICS: Final[tuple[Metric, ...]] = (
    RECORDS, DUPLICATES, SUPERSEDED, DEAD_LETTERS, EVENTS, ANSWERS, ANSWER_TIME, IN_FLIGHT, STARTED, ENDED, BATCHES,
    COMMIT_TIME, CONFLICTS, POSITIONS_LOST, PUBLISHED, UNACKNOWLEDGED, UNDELIVERABLE, OUTBOX_AGE, TIMERS_DUE,
    TIMER_LATE, TIMERS_FIRED, LATENESS, DEADLINES, RETRIES, REPUBLISHED, FIRINGS, EXTERNAL, RUNNABLE, SCRIPTS,
    CACHE_HITS, CACHE_MISSES, HOT, LAG_COMMITTED, LAG_READ, ASSIGNED, PAUSED, DOUBLED, TURN_AGE,
)  # fmt: skip


class EvaluatorMetrics:
    """The metrics of one evaluator. Asking costs its loop nothing."""

    metrics: Sequence[Metric] = EVALUATOR_METRICS

    def __init__(self, service: EvaluatorService, observer: EvaluatorObserver, store: StoreWatch) -> None:
        self._service = service
        self._observer = observer
        self._store = store

    def collect(self) -> Iterator[Family]:
        """Return the values of now."""
        stats = self._service.loop.stats()
        yield from _of_stats(stats)
        yield from self._of_observer()
        yield from self._of_partitions(stats)
        look = self._store.found
        if look is not None:
            yield one(OUTBOX_AGE, look.outbox_age_s)
            yield one(TIMERS_DUE, look.timers_due)
            yield one(TIMER_LATE, look.timer_late_s)
        yield one(TURN_AGE, self._service.turns.age_s)

    def _of_observer(self) -> Iterator[Family]:
        seen = self._observer
        events = seen.events.copy()
        yield by_label(EVENTS, events)
        answers: dict[tuple[str, ...], float] = {
            (facet, result): 0.0 for facet in events for result in ("completed", "failed")
        }
        answers.update((labels, float(count)) for labels, count in seen.answers.copy().items())
        yield Family(ANSWERS, answers)
        yield seen.answer_time.family()
        yield one(IN_FLIGHT, seen.waiting)
        yield one(STARTED, seen.started)
        yield by_label(ENDED, seen.ended.copy(), ENDED_STATUSES)
        yield seen.commit_time.family()
        yield seen.lateness.family()
        workflows = self._service.loop.workflows
        yield one(CACHE_HITS, max(0, seen.touched - seen.started - workflows.restored))
        yield one(CACHE_MISSES, workflows.restored)
        yield one(HOT, workflows.hot_count)

    def _of_partitions(self, stats: ControlStats) -> Iterator[Family]:
        lags = self._service.lag.by_topic()
        yield by_label(LAG_COMMITTED, {topic: lag.committed for topic, lag in lags.items()})
        yield by_label(LAG_READ, {topic: lag.read for topic, lag in lags.items()})
        topics = [partition.topic for partition in stats.owned]
        yield by_label(ASSIGNED, {topic: topics.count(topic) for topic in dict.fromkeys(topics)})
        yield one(PAUSED, len(stats.paused))


def _of_stats(stats: ControlStats) -> Iterator[Family]:
    yield by_label(RECORDS, {outcome.value: count for outcome, count in stats.outcomes.items()}, Outcome)
    yield one(DUPLICATES, stats.outcomes.get(Outcome.DUPLICATE, 0))
    yield one(SUPERSEDED, stats.outcomes.get(Outcome.SUPERSEDED, 0))
    yield by_label(DEAD_LETTERS, stats.dead_letters, REASONS)
    yield one(BATCHES, stats.batches)
    yield one(CONFLICTS, stats.conflicts)
    yield one(POSITIONS_LOST, stats.positions_lost)
    yield one(PUBLISHED, stats.published)
    yield one(UNACKNOWLEDGED, stats.unacknowledged)
    undeliverable: Values = {(topic,): count for topic, count in stats.undeliverable.items()}
    yield Family(UNDELIVERABLE, undeliverable)
    yield one(TIMERS_FIRED, stats.timers.fired)
    yield one(DEADLINES, stats.timers.deadlines)
    yield one(RETRIES, stats.timers.retries)
    yield one(REPUBLISHED, stats.republished)
    yield by_label(FIRINGS, stats.firings)
    yield by_label(EXTERNAL, stats.events.happened, Happened)
    yield one(RUNNABLE, stats.runnable)
    yield one(SCRIPTS, stats.scripts)
    yield one(DOUBLED, len(stats.doubled))
