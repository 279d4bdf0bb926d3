"""What a control loop looks at now and then: parked answers, runs left half done, outbox rows of writers that died, and
finished runs that are to be purged."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection

from afl.runtime.errors import StoreCorrupt, VersionMismatchError, WorkflowConflict
from afl.runtime.persistence import ParkedRecord
from afl_stream.deployment import Deployment
from afl_stream.errors import NotEvaluable, NotStorable
from afl_stream.outbox import OutboxPublisher, Probe, no_probe
from afl_stream.partitioner import partition_for
from afl_stream.retention import Retention
from afl_stream.unit_of_work import UnitOfWork

_log = logging.getLogger(__name__)

#: How often parked answers and old outbox rows are looked at.
_INTERVAL_MS = 1_000
#: Parked answers judged in one sweep. Beyond that somebody floods the topic, and the rest waits for the next.
_MOST_PARKED = 10_000
#: More than any store has: they are filtered by partition only here.
_MOST_RUNNABLE = 1 << 62
#: How long after a poller's answer its workflow is gone on with, where events may be tasks.
_ANSWERED_AFTER_MS = 300
_LANES_LOCK = "outbox-sweep"


class Sweeps:
    """Catches up on what no record will wake. Belongs to the loop's thread; nothing depends on when it runs."""

    def __init__(
        self,
        deployment: Deployment,
        publisher: OutboxPublisher,
        runnable: deque[str],
        commit: Callable[[UnitOfWork], None],
        probe: Probe = no_probe,
    ) -> None:
        """`runnable` is the loop's queue of workflows with more to do; `commit` persists a unit and publishes it."""
        self._d = deployment
        self._publisher = publisher
        self._runnable = runnable
        self._commit = commit
        self._retention = Retention(deployment, probe)
        #: The revision at which each workflow's parked answers were last judged.
        self._judged: dict[str, int] = {}
        self._swept_ms = self._adopted_ms = 0
        # Where tasks are answered by pollers that is everyday business, and somebody waits for what follows.
        slow_ms = deployment.config.evaluator.lane_sweep_after_ms
        self._adopt_after_ms = min(_ANSWERED_AFTER_MS, slow_ms) if deployment.config.dispatch.has_tasks else slow_ms

    def run_due(self) -> None:
        """Do what is due."""
        now_ms = self._d.clock.now_ms()
        if now_ms - self._adopted_ms >= self._adopt_after_ms:
            self._adopted_ms = now_ms
            self._adopt_runnable(now_ms)
        if now_ms - self._swept_ms < _INTERVAL_MS:
            return
        self._swept_ms = now_ms
        self._publisher.retry_undeliverable()
        self._settle_parked(now_ms)
        self._publish_orphans(now_ms)
        self._retention.run_due(now_ms)

    def queue_runnable(self, partitions: Collection[int]) -> None:
        """Queue the runnable workflows of these control partitions that are not queued yet."""
        self._runnable.extend(self._runnable_of(partitions))

    def _settle_parked(self, now_ms: int) -> None:
        """Judge parked answers again: of workflows that changed since they were last judged, and expired ones."""
        waiting = self._d.store.parked(known_workflows=True, limit=_MOST_PARKED)
        expired = self._d.store.parked(expired_at_ms=now_ms, limit=_MOST_PARKED)
        if not waiting:
            self._judged.clear()
        revisions = self._d.store.revisions({row.workflow_id for row in waiting})
        due: dict[str, dict[str, ParkedRecord]] = {}
        for row in waiting:
            if self._judged.get(row.workflow_id) != revisions.get(row.workflow_id):
                due.setdefault(row.workflow_id, {})[row.id] = row
        for row in expired:
            due.setdefault(row.workflow_id, {})[row.id] = row
        for workflow_id, rows in due.items():
            # Noted only afterwards: what could not be judged right now (a schema that is away) is due again.
            if self._judge(list(rows.values())) and workflow_id in revisions:
                self._judged[workflow_id] = revisions[workflow_id]

    def _judge(self, rows: list[ParkedRecord]) -> bool:
        """Judge a workflow's parked answers, and say whether that holds. One whose time is up is given up only if it
        still has no step."""
        unit = UnitOfWork(self._d)
        try:
            unit.apply_parked(rows)
            self._commit(unit)
        except WorkflowConflict:
            # Another writer has the workflow: whoever looks next judges again.
            return False
        except (NotEvaluable, NotStorable) as error:
            _log.error("workflow %s is given up for a parked answer: %s", rows[0].workflow_id, error)
            unit = UnitOfWork(self._d)
            unit.give_up(None, rows[0].workflow_id, error)
            self._commit(unit)
            return False
        return True

    def _adopt_runnable(self, now_ms: int) -> None:
        """Go on with workflows of ours that somebody else has moved and left: a poller of the store, which only stores
        answers, or another evaluator that had their records and has died."""
        for workflow_id in self._runnable_of(self._d.lanes.owned):
            try:
                row = self._d.store.load_workflow(workflow_id)
            except (StoreCorrupt, VersionMismatchError) as error:
                _log.error("workflow %s is runnable and cannot be read: %s", workflow_id, error)
                continue
            if row is None or now_ms - row.updated_at_ms < self._adopt_after_ms:
                continue
            # Runnable, and hot as it is stored: its scripts run here.
            if self._d.workflows.hot_revision(workflow_id) != row.revision:
                self._runnable.append(workflow_id)

    def _runnable_of(self, partitions: Collection[int]) -> list[str]:
        queued, count = set(self._runnable), self._d.config.topics.control_partitions
        return [
            workflow_id
            for workflow_id in self._d.store.runnable_workflows(limit=_MOST_RUNNABLE)
            if workflow_id not in queued and partition_for(workflow_id.encode(), count) in partitions
        ]

    def _publish_orphans(self, now_ms: int) -> None:
        """Publish what has waited for long and is not on its way from here: its writer died after the commit, with a
        lane of its own, or with one that it had lost to us before it knew."""
        older_than_ms = now_ms - self._d.config.evaluator.lane_sweep_after_ms
        after, has_lease = 0, False
        while rows := self._d.store.outbox(older_than_ms=older_than_ms, after=after):
            after = rows[-1].sequence
            orphans = [row for row in rows if not self._publisher.holds(row.sequence)]
            if not orphans:
                continue
            # A lease, so that not every evaluator publishes them; copies would only cost time.
            has_lease = has_lease or self._d.store.acquire_lock(
                _LANES_LOCK, self._d.config.evaluator.lane_sweep_after_ms
            )
            if not has_lease:
                return
            _log.info("publishing %d outbox records that their writers left behind", len(orphans))
            self._publisher.publish_stored(orphans)
