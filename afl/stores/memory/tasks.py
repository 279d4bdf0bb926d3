"""Tasks in memory: found by id, and claimed oldest first without scanning finished ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from heapq import heappop, heappush
from typing import cast

from afl.engine.errors import ConcurrencyError
from afl.engine.model.entities import TaskDefinition, TaskState
from afl.engine.model.store import TaskEnd
from afl.engine.types import copy_value
from afl.stores.public.leases import claimed_task
from afl.stores.public.tasks import ended_task


class MemoryTasks:
    """The tasks of a memory store. Not safe for threads: the store's lock guards it."""

    def __init__(self) -> None:
        self.by_id: dict[str, TaskDefinition] = {}
        #: Step id to the id of its running task.
        self._running: dict[str, str] = {}
        #: (list, name) to a heap of (created, order of arrival, id): entries of claimed or ended tasks are stale.
        self._queues: dict[tuple[str, str], list[tuple[int, int, str]]] = {}
        #: Ids of the running tasks whose claims expire unless renewed.
        self._leased: set[str] = set()
        self._arrivals: dict[str, int] = {}
        #: Id to its valid queue and entry; other entries of a heap are stale.
        self._entries: dict[str, tuple[tuple[str, str], tuple[int, int, str]]] = {}

    def check(self, tasks: Iterable[TaskDefinition]) -> None:
        """Raise ConcurrencyError when one of the tasks is running and its step has a running one already."""
        running: dict[str, str] = {}
        finishing = set()
        for task in tasks:
            if task.state != TaskState.RUNNING:
                finishing.add(task.uuid)
            elif task.step_id and running.setdefault(task.step_id, task.uuid) != task.uuid:
                raise _second_running(task, running[task.step_id])
        for step_id, task_id in running.items():
            holder = self._running.get(step_id, task_id)
            if holder != task_id and holder not in finishing:
                raise _second_running(self.by_id[holder], task_id)

    def running(self) -> Iterable[str]:
        """Return the ids of the running tasks of steps."""
        return self._running.values()

    def put(self, task: TaskDefinition) -> None:
        """Insert or replace a task; keeps a copy. Call `check` first."""
        before = self.by_id.get(task.uuid)
        if before is not None and self._running.get(before.step_id) == task.uuid:
            del self._running[before.step_id]
        kept = _copy(task)
        self.by_id[task.uuid] = kept
        if kept.state == TaskState.RUNNING and kept.lease_expires:
            self._leased.add(kept.uuid)
        else:
            self._leased.discard(kept.uuid)
        if kept.state == TaskState.RUNNING and kept.step_id:
            self._running[kept.step_id] = kept.uuid
        if kept.state == TaskState.PENDING:
            entry = (kept.created, self._arrivals.setdefault(kept.uuid, len(self._arrivals)), kept.uuid)
            queue = (kept.task_list_name, kept.name)
            if self._entries.get(kept.uuid) != (queue, entry):
                self._entries[kept.uuid] = (queue, entry)
                heappush(self._queues.setdefault(queue, []), entry)
        else:
            self._entries.pop(kept.uuid, None)

    def end(self, ending: TaskEnd, now_ms: int) -> None:
        """Move a task to its end state unless it has ended."""
        task = self.by_id.get(ending.task_id)
        ended = None if task is None else ended_task(task, ending, now_ms)
        if ended is None:
            return
        if self._running.get(ended.step_id) == ended.uuid:
            del self._running[ended.step_id]
        self._leased.discard(ended.uuid)
        self._entries.pop(ended.uuid, None)
        self.by_id[ended.uuid] = ended

    def remove(self, task_ids: Iterable[str]) -> int:
        """Delete tasks; return how many there were."""
        count = 0
        for task_id in task_ids:
            task = self.by_id.pop(task_id, None)
            if task is None:
                continue
            count += 1
            if self._running.get(task.step_id) == task_id:
                del self._running[task.step_id]
            self._leased.discard(task_id)
            self._entries.pop(task_id, None)
            self._arrivals.pop(task_id, None)
        return count

    def remove_ended(self, task_ids: Iterable[str]) -> None:
        """Delete those of these tasks that have ended."""
        open_states = (TaskState.PENDING, TaskState.RUNNING)
        self.remove([task_id for task_id in task_ids if self.by_id[task_id].state not in open_states])

    def expired(self, now_ms: int) -> list[TaskDefinition]:
        """Return copies of the running tasks whose lease has expired."""
        leased = [self.by_id[task_id] for task_id in self._leased]
        return [_copy(task) for task in leased if task.lease_expires <= now_ms]

    def pending_names(self, task_list: str) -> list[str]:
        """Return the names under which tasks of this list wait."""
        queues = [queue for queue in self._queues if queue[0] == task_list]
        return [queue[1] for queue in queues if self._oldest(queue) is not None]

    def claim(
        self, task_names: Sequence[str], task_list: str, now_ms: int, owner: str, lease_expires: int, but: Set[str]
    ) -> TaskDefinition | None:
        """Move the oldest pending task of these names to running; return a copy of it."""
        queues = [(task_list, name) for name in set(task_names)]
        found = [entry for queue in queues if (entry := self._oldest(queue, but)) is not None]
        if not found:
            return None
        claimed = claimed_task(self.by_id[min(found)[2]], owner, now_ms, lease_expires)
        self.put(claimed)
        return _copy(claimed)

    def _oldest(self, name: tuple[str, str], but: Set[str] = frozenset()) -> tuple[int, int, str] | None:
        queue = self._queues.get(name)
        if not queue:
            return None
        blocked = []
        oldest = None
        while queue:
            entry = queue[0]
            if self._entries.get(entry[2]) != (name, entry):
                heappop(queue)
            elif (task := self.by_id[entry[2]]).step_id in self._running or task.step_id.partition(":")[0] in but:
                blocked.append(heappop(queue))
            else:
                oldest = entry
                break
        for entry in blocked:
            heappush(queue, entry)
        return oldest


def _copy(task: TaskDefinition) -> TaskDefinition:
    return replace(
        task,
        error=cast("dict[str, object] | None", copy_value(task.error)),
        data=cast("dict[str, object] | None", copy_value(task.data)),
    )


def _second_running(task: TaskDefinition, other_id: str) -> ConcurrencyError:
    return ConcurrencyError(
        step_id=task.step_id, message=f"tasks {task.uuid} and {other_id} can't run at the same time"
    )
