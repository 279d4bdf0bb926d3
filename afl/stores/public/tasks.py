"""Tasks and locks for users and pollers: claims, their durations and their owners.

There is one mechanism for claims: a running task names its owner and the end of its lease. The lock of a task
(`runner:task:<id>`) is a view of that lease; other locks are entries of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final, TypeVar

from afl.core.clock import CLOCK_TOLERANCE_MS, Clock
from afl.engine.errors import ConcurrencyError
from afl.engine.model.entities import LockDefinition, LockMetaData, TaskDefinition, TaskState
from afl.engine.model.store import TaskEnd
from afl.stores.public.leases import TASK_LOCK, claimed_task, is_leased, is_owned, lease_lock, released_task
from afl.stores.public.stored_values import check_entity

E = TypeVar("E")

#: Later than any time that a lease ends at.
_END_OF_TIME_MS: Final = 1 << 62
_OPEN: Final = frozenset({TaskState.PENDING, TaskState.RUNNING})


def ended_task(task: TaskDefinition, ending: TaskEnd, now_ms: int) -> TaskDefinition | None:
    """Return the task after `ending`; None when it has ended already."""
    if task.state not in _OPEN:
        return None
    error: dict[str, object] | None = {"message": ending.message} if ending.state == TaskState.FAILED else None
    return replace(task, state=ending.state, updated=now_ms, error=error, lease_expires=0)


class PublicTasks(ABC):
    """The part of `PersistenceAPI` and `TaskStore` about tasks and locks, over a store's row primitives."""

    _clock: Clock

    @abstractmethod
    def _exclusive(self) -> AbstractContextManager[object]:
        """Exclude all other writers; they see the writes of this context at its end, or never."""

    @abstractmethod
    def _put(self, entity: object) -> None:
        """Insert or replace an entity; a replaced one keeps its place in the order."""

    @abstractmethod
    def _get(self, kind: type[E], key: str) -> E | None: ...

    @abstractmethod
    def _select(self, kind: type[E], **equal: str) -> list[E]:
        """Return the entities whose columns have these values, in order of insertion."""

    @abstractmethod
    def _remove(self, kind: type, key: str) -> bool: ...

    @abstractmethod
    def _claim(
        self, task_names: Sequence[str], task_list: str, now_ms: int, owner: str, lease_expires: int, but: Set[str]
    ) -> TaskDefinition | None:
        """Move the oldest pending task of these names to running, with this owner and lease.

        Those of the workflows `but` wait.
        """

    def _expired_tasks(self, now_ms: int) -> list[TaskDefinition]:
        """Return the running tasks whose lease has expired."""
        running = self._select(TaskDefinition, state=TaskState.RUNNING)
        return [task for task in running if 0 < task.lease_expires <= now_ms]

    # Tasks.

    def get_task(self, task_id: str) -> TaskDefinition | None:
        """Return the task of that id."""
        return self._get(TaskDefinition, task_id)

    def get_pending_tasks(self, task_list: str) -> list[TaskDefinition]:
        """Return the unclaimed tasks of a list, oldest first."""
        pending = self._select(TaskDefinition, state=TaskState.PENDING, task_list_name=task_list)
        return sorted(pending, key=lambda task: task.created)

    def pending_task_names(self, task_list: str = "default") -> list[str]:
        """Return the names of the unclaimed tasks of a list."""
        return list(dict.fromkeys(task.name for task in self.get_pending_tasks(task_list)))

    def save_task(self, task: TaskDefinition) -> None:
        """Insert or replace a task.

        Raises ConcurrencyError when it is running and its step has a running one already, ValueRefused when its data is
        not an AFL value.
        """
        check_entity(task)
        self._put(task)

    def claim_task(
        self,
        task_names: list[str],
        task_list: str = "default",
        *,
        owner: str = "",
        lease_ms: int = 0,
        except_workflows: Set[str] = frozenset(),
    ) -> TaskDefinition | None:
        """Move the oldest pending task of these names to running and return it; None when there is none.

        No two callers get the same one, and a task is not given out while another one of its step is running. With
        `lease_ms`, the owner has the claim for that long; else until the task ends. Tasks of `except_workflows` wait.
        """
        now_ms = self._clock.now_ms()
        expires_ms = now_ms + lease_ms if lease_ms else 0
        return self._claim(task_names, task_list, now_ms, owner, expires_ms, except_workflows)

    def renew_leases(self, task_ids: Sequence[str], owner: str, lease_ms: int) -> list[str]:
        """Renew these claims for that long from now; return the ids of those that the owner has lost.

        `lease_ms` 0: without end.
        """
        lost = []
        with self._exclusive():
            expires_ms = self._clock.now_ms() + lease_ms if lease_ms else 0
            for task_id in task_ids:
                task = self._get(TaskDefinition, task_id)
                if task is None or not is_owned(task, owner):
                    lost.append(task_id)
                else:
                    self._put(replace(task, lease_expires=expires_ms))
        return lost

    def requeue_expired_tasks(self) -> list[str]:
        """Make the tasks whose lease has expired claimable again; return their ids."""
        # Looked for without excluding writers at first: mostly there is none.
        if not self._expired_tasks(self._clock.now_ms()):
            return []
        with self._exclusive():
            now_ms = self._clock.now_ms()
            expired = self._expired_tasks(now_ms)
            for task in expired:
                self._put(released_task(task, now_ms))
        return [task.uuid for task in expired]

    def leased_tasks(self) -> list[TaskDefinition]:
        """Return the running tasks that are claimed for a limited time, expired or not."""
        return self._expired_tasks(_END_OF_TIME_MS)

    def give_task_back(self, task_id: str, owner: str) -> bool:
        """Make a task that runs for this owner claimable again; False when it does not run for it, or no longer."""
        with self._exclusive():
            task = self._get(TaskDefinition, task_id)
            if task is None or not is_owned(task, owner):
                return False
            now_ms = self._clock.now_ms()
            self._put(released_task(task, now_ms))
        return True

    def end_task(self, task_id: str, owner: str, state: str, error: dict[str, object] | None = None) -> bool:
        """Move a task that runs for this owner to its end state; False when it does not."""
        with self._exclusive():
            task = self._get(TaskDefinition, task_id)
            if task is None or not is_owned(task, owner):
                return False
            self._put(replace(task, state=state, error=error, updated=self._clock.now_ms(), lease_expires=0))
        return True

    # Locks.

    def acquire_lock(self, key: str, duration_ms: int, meta: LockMetaData | None = None) -> bool:
        """Take a lock for a time; False when it is held, also by the owner of a task's lease.

        The lock of a waiting task is a claim of it, in the name of `meta.handler`.
        """
        with self._exclusive():
            if self._live_lock(key) is not None:
                return False
            now_ms = self._clock.now_ms()
            task = self._get(TaskDefinition, key.removeprefix(TASK_LOCK)) if key.startswith(TASK_LOCK) else None
            if task is not None and task.state in _OPEN:
                owner = (meta.handler if meta is not None else None) or ""
                is_free = task.state == TaskState.PENDING or bool(task.lease_expires)
                return is_free and self._take(task, owner, now_ms, now_ms + duration_ms)
            self._put(LockDefinition(key=key, acquired_at=now_ms, expires_at=now_ms + duration_ms, meta=meta))
            return True

    def release_lock(self, key: str) -> bool:
        """Release a lock; False when there is none. Others can then claim a task that it was for."""
        with self._exclusive():
            task = self._leased(key)
            if task is None:
                return self._remove(LockDefinition, key)
            now_ms = self._clock.now_ms()
            self._put(released_task(task, now_ms))
            return True

    def check_lock(self, key: str) -> LockDefinition | None:
        """Return the holder of a lock; an expired one is deleted."""
        lock = self._live_lock(key)
        if lock is None and self._get(LockDefinition, key) is not None:
            with self._exclusive():
                # Another owner may have taken it since.
                lock = self._live_lock(key)
                if lock is None:
                    self._remove(LockDefinition, key)
        return lock

    def extend_lock(self, key: str, duration_ms: int) -> bool:
        """Extend a lock to that long from now; False when there is none or it has expired."""
        with self._exclusive():
            lock = self._live_lock(key)
            if lock is None:
                return False
            expires_ms = self._clock.now_ms() + duration_ms
            task = self._leased(key)
            self._put(replace(lock, expires_at=expires_ms) if task is None else replace(task, lease_expires=expires_ms))
            return True

    def get_all_locks(self) -> list[LockDefinition]:
        """Return every lock, those that have expired included."""
        leases = [lease_lock(task) for task in self._select(TaskDefinition, state=TaskState.RUNNING)]
        return self._select(LockDefinition) + [lease for lease in leases if lease.expires_at]

    def _live_lock(self, key: str) -> LockDefinition | None:
        task = self._leased(key)
        now_ms = self._clock.now_ms()
        if task is not None:
            return lease_lock(task) if task.lease_expires > now_ms else None
        lock = self._get(LockDefinition, key)
        # A lock taken in the future was taken before a clock was set back: its true expiry is unknown.
        is_live = lock is not None and lock.acquired_at - CLOCK_TOLERANCE_MS <= now_ms < lock.expires_at
        return lock if is_live else None

    def _take(self, task: TaskDefinition, owner: str, now_ms: int, lease_expires: int) -> bool:
        """Claim a task as it was read, inside `_exclusive`; False when another one of its step is running."""
        try:
            self._put(claimed_task(task, owner, now_ms, lease_expires))
        except ConcurrencyError:
            return False
        return True

    def _leased(self, key: str) -> TaskDefinition | None:
        """Return the running task whose lease this lock shows."""
        if not key.startswith(TASK_LOCK):
            return None
        task = self._get(TaskDefinition, key.removeprefix(TASK_LOCK))
        return task if task is not None and is_leased(task) else None
