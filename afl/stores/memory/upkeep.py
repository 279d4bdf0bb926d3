"""Check and purge the store in memory."""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from heapq import nsmallest
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, cast

from afl.engine.model.entities import LogDefinition
from afl.engine.model.store import ENDED_STATUSES, ParkedRecord, RunningChange, StoredOutboxRecord, WorkflowRow
from afl.engine.model.store_identity import StoreIdentity, new_store_id, this_host
from afl.engine.model.tombstones import PURGED, PURGING, Tombstone
from afl.engine.model.upkeep import Burial, Created, Ended, Entry, OwnCheck, StepEntry
from afl.stores.public.persistence import EventDefinition
from afl.stores.public.upkeep import PublicUpkeep
from afl.stores.public.views import StepNotes

if TYPE_CHECKING:
    from afl.stores.memory.history import KeptHistory
    from afl.stores.memory.steps import KeptSteps
    from afl.stores.memory.tasks import MemoryTasks
    from afl.stores.memory.timers import KeptTimers


class MemoryUpkeep(PublicUpkeep):
    """The part of `MemoryStore` that lists and deletes rows, and gives the store's identity."""

    _lock: threading.RLock
    _identity: StoreIdentity
    _workflows: dict[str, WorkflowRow | RunningChange]
    _steps: dict[str, KeptSteps]
    _notes: dict[str, StepNotes]
    _runnable: dict[str, None]
    _parked: dict[str, ParkedRecord]
    _outbox: dict[int, StoredOutboxRecord]
    _entities: dict[type, dict[str, object]]
    _task_queue: MemoryTasks

    _timers: KeptTimers
    _histories: dict[str, KeptHistory]

    @abstractmethod
    def load_workflow(self, workflow_id: str) -> WorkflowRow | None: ...

    @abstractmethod
    def _held(self, kind: type) -> dict[str, object]: ...

    def identity(self) -> StoreIdentity:
        """Return the identity of this store; see `IdentifiedStore`."""
        return self._identity

    def location(self) -> str:
        """Return the location of the store: this process, and no other."""
        return f"{this_host()}: memory of process {os.getpid()}, store {id(self):x}"

    def add_mark(self, mark: str) -> None:
        """Set a mark; see `IdentifiedStore`."""
        with self._lock:
            self._identity = self._identity.with_mark(mark)

    def renew_identity(self) -> StoreIdentity:
        """Give the store a new id; see `IdentifiedStore`."""
        with self._lock:
            self._identity = StoreIdentity(new_store_id())
            return self._identity

    def workflow_ids(self, *, after: str = "", limit: int = 1_000) -> list[str]:
        """Return the ids of workflows that have a row, in order."""
        with self._lock:
            return _page(self._workflows, after, limit)

    def check_itself(self) -> OwnCheck:
        """Return no faults: there is no database to check."""
        return OwnCheck()

    def orphans(self, *, limit: int = 1_000) -> list[str]:
        """Return the ids of workflows that have steps, timers or a history, and no row; see `Upkeep`."""
        with self._lock:
            found = {workflow_id for workflow_id, steps in self._steps.items() if steps}
            found |= self._timers.workflow_ids()
            found |= {workflow_id for workflow_id, history in self._histories.items() if not history.is_early}
            return sorted(found - self._workflows.keys())[:limit]

    def examine_steps(self, workflow_id: str) -> list[StepEntry]:
        """Return all steps of a workflow; see `Upkeep`."""
        with self._lock:
            steps = self._steps.get(workflow_id)
            documents = [] if steps is None else list(steps.by_id().values())
        return [StepEntry(step.id, step) for step in sorted(documents, key=attrgetter("number"))]

    def examine(self, kind: type, *, after: str = "", limit: int = 1_000) -> list[Entry]:
        """Return the entities of a kind by their keys."""
        with self._lock:
            held = self._held(kind)
            return [Entry(key, deepcopy(held[key])) for key in _page(held, after, limit)]

    def ended_workflows(self, *, created_before_ms: int, after: Ended | None = None, limit: int = 1_000) -> list[Ended]:
        """Return workflows that have ended, in order of creation; see `Upkeep`."""
        with self._lock:
            found = [
                Ended(row.created_at_ms, row.id)
                for row in self._workflows.values()
                if not isinstance(row, RunningChange)
                if row.status in ENDED_STATUSES and row.created_at_ms < created_before_ms
            ]
        return nsmallest(limit, (ended for ended in found if after is None or ended > after))

    def unfinished_workflows(
        self, *, created_before_ms: int, after: Created | None = None, limit: int = 1_000
    ) -> list[Created]:
        """Return workflows that have not ended, in order of creation; see `Upkeep`."""
        with self._lock:
            rows = [row.workflow if isinstance(row, RunningChange) else row for row in self._workflows.values()]
        found = (
            Created(row.created_at_ms, row.id)
            for row in rows
            if row.status not in ENDED_STATUSES and row.created_at_ms < created_before_ms
        )
        return nsmallest(limit, (one for one in found if after is None or one > after))

    def load_workflows(self, workflow_ids: Sequence[str]) -> list[WorkflowRow]:
        """Return the rows of these workflows; see `Upkeep`."""
        found = map(self.load_workflow, dict.fromkeys(workflow_ids))
        return [row for row in found if row is not None]

    def waiting_keys(self) -> set[bytes]:
        """Return the keys of the records that wait in the outbox."""
        with self._lock:
            return {stored.record.key for stored in self._outbox.values() if stored.record.key is not None}

    def bury(self, burials: Sequence[Burial], *, limit: int) -> list[str]:
        """Replace workflows by tombstones, and delete their other rows; see `Upkeep`."""
        states, left = [], limit
        with self._lock:
            for tombstone, revision, _ in burials:
                workflow_id = tombstone.workflow_id
                row = self._workflows.get(workflow_id)
                if row is None or row.revision != revision:
                    states.append("")
                    continue
                del self._workflows[workflow_id]
                self._runnable.pop(workflow_id, None)
                left -= self._delete_rows(workflow_id, left)
                kept = replace(tombstone, state=PURGED if left else PURGING)
                self._entities[Tombstone][workflow_id] = kept
                states.append(kept.state)
        return states

    def delete_rows(self, workflow_ids: Sequence[str], *, limit: int) -> int:
        """Delete rows of workflows that have no rows of their own any more; see `Upkeep`."""
        left = limit
        with self._lock:
            for workflow_id in workflow_ids:
                if left and workflow_id not in self._workflows:
                    left -= self._delete_rows(workflow_id, left)
        return limit - left

    def mark_purged(self, workflow_ids: Sequence[str]) -> None:
        """Set tombstones to state `purged`; see `Upkeep`."""
        with self._lock:
            stones = cast(dict[str, Tombstone], self._entities[Tombstone])
            for workflow_id in workflow_ids:
                if workflow_id in stones:
                    stones[workflow_id].state = PURGED

    def delete_tombstones(self, workflow_ids: Sequence[str]) -> int:
        """Delete tombstones; return how many there were."""
        with self._lock:
            stones = self._entities[Tombstone]
            return sum(stones.pop(workflow_id, None) is not None for workflow_id in workflow_ids)

    def give_back(self, *, limit: int) -> bool:  # noqa: ARG002 - the port's signature
        """Return False: memory is freed at once."""
        return False

    def _delete_rows(self, workflow_id: str, limit: int) -> int:
        left = limit
        if (steps := self._steps.get(workflow_id)) is not None:
            documents = steps.by_id()
            for step_id in list(islice(documents, left)):
                del documents[step_id]
                self._notes.pop(step_id, None)
                left -= 1
            if not documents:
                del self._steps[workflow_id]
        left -= self._timers.remove_of(workflow_id, left)
        if (history := self._histories.get(workflow_id)) is not None:
            left -= history.remove_some(left)
            if not history.rows:
                del self._histories[workflow_id]
        left -= self._task_queue.remove(_of_workflow(self._task_queue.by_id, workflow_id, left))
        events = cast(dict[str, EventDefinition], self._entities[EventDefinition])
        named = [key for key, event in events.items() if event.workflow_id == workflow_id]
        parked = [key for key, record in self._parked.items() if record.workflow_id == workflow_id]
        logs = self._entities[LogDefinition]
        for table, keys in (
            (logs, _of_workflow(logs, workflow_id, left)),
            (cast(dict[str, object], events), named),
            (cast(dict[str, object], self._parked), parked),
        ):
            for key in keys[:left]:
                del table[key]
                left -= 1
        return limit - left

    def _drop_execution(self, workflow_id: str) -> None:
        """Delete what a workflow's next execution replaces: steps, timers, and ended tasks and log entries."""
        steps = self._steps.pop(workflow_id, None)
        if self._notes and steps is not None:
            for step_id in steps.by_id():
                self._notes.pop(step_id, None)
        self._timers.remove_of(workflow_id)
        tasks, logs = self._task_queue.by_id, self._entities[LogDefinition]
        self._task_queue.remove_ended(_of_workflow(tasks, workflow_id, len(tasks)))
        for log_id in _of_workflow(logs, workflow_id, len(logs)):
            del logs[log_id]

    def tombstones(self, *, state: str, purged_before_ms: int | None = None, limit: int = 1_000) -> list[Tombstone]:
        """Return tombstones in a state, the oldest first."""
        with self._lock:
            found = [
                deepcopy(stone)
                for stone in cast(dict[str, Tombstone], self._entities[Tombstone]).values()
                if stone.state == state and (purged_before_ms is None or stone.purged_at_ms < purged_before_ms)
            ]
        return sorted(found, key=lambda stone: (stone.purged_at_ms, stone.workflow_id))[:limit]


def _page(ids: Iterable[str], after: str, limit: int) -> list[str]:
    return sorted(found for found in ids if found > after)[:limit]


def _of_workflow(ids: Iterable[str], workflow_id: str, limit: int) -> list[str]:
    """Return ids of what the engine made for a workflow's steps: they begin with the step's id."""
    start = f"{workflow_id}:"
    return list(islice((found for found in ids if found.startswith(start)), limit))
