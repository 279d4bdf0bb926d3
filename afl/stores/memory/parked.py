"""Parked records of the store in memory."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection
from operator import attrgetter
from typing import TYPE_CHECKING

from afl.engine.model.parked import ParkedHead, ParkedRecord, ParkedUsage, ParkedWorkflow
from afl.engine.model.store import ENDED_STATUSES, RunningChange, StepDocument, WorkflowRow

if TYPE_CHECKING:
    from collections.abc import Mapping


class MemoryParked:
    """The part of `MemoryStore` that keeps parked records."""

    _lock: threading.RLock
    _workflows: dict[str, WorkflowRow | RunningChange]
    _parked: dict[str, ParkedRecord]

    @abstractmethod
    def _by_id(self, workflow_id: str) -> Mapping[str, StepDocument]: ...

    @abstractmethod
    def load_workflow(self, workflow_id: str) -> WorkflowRow | None: ...

    def parked(
        self,
        *,
        ids: Collection[str] | None = None,
        step_id: str | None = None,
        workflow_id: str | None = None,
        limit: int = 1_000,
    ) -> list[ParkedRecord]:
        """Return parked records with their values, in order of parking; see `ParkedStore`."""
        wanted = None if ids is None else set(ids)
        return self._in_order(
            lambda record: (
                (wanted is None or record.id in wanted)
                and (step_id is None or record.step_id == step_id)
                and (workflow_id is None or record.workflow_id == workflow_id)
            )
        )[:limit]

    def parked_heads(self, *, expired_at_ms: int | None = None, limit: int = 1_000) -> list[ParkedHead]:
        """Return parked records without values, in order of parking; see `ParkedStore`."""
        found = self._in_order(lambda record: expired_at_ms is None or record.expires_at_ms <= expired_at_ms)
        return [_head(record) for record in found[:limit]]

    def parked_workflows(self) -> list[ParkedWorkflow]:
        """Return the workflows that are in the store and have parked records."""
        with self._lock:
            counts = Counter(record.workflow_id for record in self._parked.values())
            return [
                ParkedWorkflow(workflow_id, self._workflows[workflow_id].revision, count)
                for workflow_id, count in sorted(counts.items())
                if workflow_id in self._workflows
            ]

    def parked_due(self, workflow_ids: Collection[str]) -> list[ParkedHead]:
        """Return the parked records whose step exists by now or whose workflow has ended; see `ParkedStore`."""
        wanted = set(workflow_ids)
        with self._lock:
            rows = {workflow_id: self.load_workflow(workflow_id) for workflow_id in wanted}
            ended = {workflow_id for workflow_id, row in rows.items() if row and row.status in ENDED_STATUSES}
            steps = {workflow_id: self._by_id(workflow_id) for workflow_id in wanted}
            found: list[ParkedHead] = []
            for record in self._in_order(lambda record: record.workflow_id in wanted):
                step = steps[record.workflow_id].get(record.step_id)
                if step is not None or record.workflow_id in ended:
                    found.append(_head(record, 0 if step is None or record.workflow_id in ended else step.revision))
            return found

    def parked_usage(self, workflow_id: str | None = None) -> ParkedUsage:
        """Return the amount parked for a workflow, or in all."""
        found = self._in_order(lambda record: workflow_id is None or record.workflow_id == workflow_id)
        return ParkedUsage(len(found), sum(record.size_bytes for record in found))

    def _in_order(self, is_wanted: Callable[[ParkedRecord], bool]) -> list[ParkedRecord]:
        with self._lock:
            found = [record for record in self._parked.values() if is_wanted(record)]
        return sorted(found, key=attrgetter("parked_at_ms"))


def _head(record: ParkedRecord, step_revision: int = 0) -> ParkedHead:
    return ParkedHead(
        record.id,
        record.workflow_id,
        record.step_id,
        record.size_bytes,
        record.parked_at_ms,
        record.expires_at_ms,
        step_revision,
    )
