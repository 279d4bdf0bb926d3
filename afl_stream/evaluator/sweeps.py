"""Regular sweeps of a control loop over what no record wakes.

These are parked answers, early events, unanswered events that are published again, runs left half done, outbox rows of
writers that died, and finished runs to purge.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection

from afl.core.clock import ahead_ms, has_waited
from afl.core.probes import Probe, no_probe
from afl.engine.errors import StoreCorrupt, VersionMismatchError
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.external.early_sweep import EarlySweep
from afl_stream.evaluator.outbox_publisher import OutboxPublisher
from afl_stream.evaluator.parked.parked_answers import ParkedAnswers
from afl_stream.evaluator.retention import Retention
from afl_stream.evaluator.timers.republishing import Republishing
from afl_stream.evaluator.unit_of_work import UnitOfWork
from afl_stream.partitioner import partition_for
from afl_stream.transport import Admin

_log = logging.getLogger(__name__)

#: How often old outbox rows are looked at.
_INTERVAL_S = 1.0
#: How often parked answers are: one that came too early is judged within a second.
_JUDGED_EVERY_S = 0.5
#: More than any store has: they are filtered by partition only here.
_MOST_RUNNABLE = 1 << 62
#: How long after a poller's answer its workflow is continued, where events may be tasks.
_ANSWERED_AFTER_MS = 300
_LANES_LOCK = "outbox-sweep"
#: Events that a pause holds back lie in the outbox, too: so many of them let a second more pass between two sweeps.
_HELD_PER_S = 5_000


class Sweeps:
    """Catches up on work that no record wakes. Belongs to the loop's thread; nothing depends on when it runs."""

    def __init__(
        self,
        context: EvaluatorContext,
        publisher: OutboxPublisher,
        runnable: deque[str],
        commit: Callable[[UnitOfWork], None],
        admin: Admin,
        probe: Probe = no_probe,
    ) -> None:
        """Take the context.

        `runnable` is the loop's queue of workflows with more to do; `commit` persists a unit and publishes it.
        """
        self._context = context
        self._publisher = publisher
        self._runnable = runnable
        self._retention = Retention(context, probe)
        self._parked = ParkedAnswers(context, commit)
        self._republishing = Republishing(context, admin, commit, probe)
        self._early = EarlySweep(context, commit)
        self._swept_s = self._adopted_s = self._judged_s = float("-inf")
        # Where pollers answer tasks this is normal, and the following steps are waited for.
        slow_ms = context.config.evaluator.lane_sweep_after_ms
        self._adopt_after_ms = min(_ANSWERED_AFTER_MS, slow_ms) if context.config.dispatch.has_tasks else slow_ms

    @property
    def republished(self) -> int:
        """The number of events that were published again."""
        return self._republishing.count

    @property
    def is_busy(self) -> bool:
        """Return whether a sweep is under way that continues at once."""
        return self._republishing.is_busy or self._retention.is_busy or self._publisher.has_released

    def patience_s(self, timeout_s: float) -> float:
        """Return how long the loop may wait for records: not beyond the next step of a purge that is under way."""
        return self._retention.patience_s(timeout_s)

    def run_due(self) -> None:
        """Do what is due."""
        now_s, now_ms = self._context.clock.monotonic_s(), self._context.clock.now_ms()
        if (now_s - self._adopted_s) * 1_000 >= self._adopt_after_ms:
            self._adopted_s = now_s
            self._adopt_runnable(now_ms)
        if self._context.lanes.owned and now_s - self._judged_s >= _JUDGED_EVERY_S:
            self._judged_s = now_s
            self._parked.turn(now_ms)
        self._republishing.run_due()
        self._retention.run_due()
        self._publisher.release_held()
        if now_s - self._swept_s < _INTERVAL_S + self._publisher.held / _HELD_PER_S:
            return
        self._swept_s = now_s
        self._publisher.retry_undeliverable()
        self._publish_orphans(now_ms)
        if self._context.lanes.owned:
            self._early.turn(now_ms)

    def queue_runnable(self, partitions: Collection[int]) -> None:
        """Queue the runnable workflows of these control partitions that are not queued yet."""
        self._runnable.extend(self._runnable_of(partitions))

    def _adopt_runnable(self, now_ms: int) -> None:
        """Continue our workflows that another process has changed and left.

        That is a poller of the store, which only stores answers, or another evaluator that had their records and has
        died.
        """
        for workflow_id in self._runnable_of(self._context.lanes.owned):
            try:
                row = self._context.store.load_workflow(workflow_id)
            except (StoreCorrupt, VersionMismatchError) as error:
                text = "workflow %s is runnable and cannot be read: %s"
                self._context.warnings.error("runnable workflows that cannot be read", text, workflow_id, error)
                continue
            if row is None or not has_waited(row.updated_at_ms, now_ms, self._adopt_after_ms):
                continue
            # Runnable, and hot as it is stored: its scripts run here.
            if self._context.workflows.hot_revision(workflow_id) != row.revision:
                self._runnable.append(workflow_id)

    def _runnable_of(self, partitions: Collection[int]) -> list[str]:
        queued, count = set(self._runnable), self._context.config.topics.control_partitions
        pauses = self._context.definitions.pauses
        if pauses.of_all is not None:
            return []
        return [
            workflow_id
            for workflow_id in self._context.store.runnable_workflows(limit=_MOST_RUNNABLE)
            if workflow_id not in queued
            and workflow_id not in pauses.workflows
            and partition_for(workflow_id.encode(), count) in partitions
        ]

    def _publish_orphans(self, now_ms: int) -> None:
        """Publish old rows that are not being sent from here: their writer died after the commit.

        It had a lane of its own, or one that this evaluator took over before the writer knew.
        """
        after_ms = self._context.config.evaluator.lane_sweep_after_ms
        # Those from the future were written before a clock was set back: a copy more does no harm.
        older_than_ms, newer_than_ms = now_ms - after_ms, now_ms + ahead_ms(after_ms)
        after, has_lease = 0, False
        while rows := self._context.store.outbox(older_than_ms=older_than_ms, newer_than_ms=newer_than_ms, after=after):
            after = rows[-1].sequence
            publisher = self._publisher
            orphans = [row for row in rows if not (publisher.holds(row.sequence) or publisher.is_paused(row.record))]
            if not orphans:
                continue
            # A lease, so that not every evaluator publishes them; copies would only cost time.
            has_lease = has_lease or self._context.store.acquire_lock(
                _LANES_LOCK, self._context.config.evaluator.lane_sweep_after_ms
            )
            if not has_lease:
                return
            _log.info("publishing %d outbox records that their writers left behind", len(orphans))
            self._publisher.publish_stored(orphans)
