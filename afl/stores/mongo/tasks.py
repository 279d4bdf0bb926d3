"""Tasks and heartbeats in MongoDB: claimed, renewed, given back and ended by one command each, in place."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence, Set
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

from pymongo import ASCENDING, ReturnDocument
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from afl.engine.model.entities import LockDefinition, TaskDefinition, TaskState
from afl.stores.damaged_rows import taken
from afl.stores.mongo.connection import Connection
from afl.stores.mongo.documents import SERVERS, TASKS, Document, entity_changes, task_changes
from afl.stores.public.leases import claim_fields
from afl.stores.public.tasks import PublicTasks
from afl.stores.stored_text import key_of, text_of

E = TypeVar("E")

BY_ARRIVAL: Final = [("arrival", ASCENDING)]


class MongoTasks(PublicTasks):
    """The part of the public interface that needs one command instead of the lock: no writer waits for another."""

    _mongo: Connection

    @abstractmethod
    def _reading(self, collection: str) -> AbstractContextManager[Collection[dict[str, Any]]]:
        """Yield a collection; errors of the client inside become the store's."""

    @abstractmethod
    def _entity(self, kind: type[E], found: Document) -> E:
        """Return the entity of a document."""

    def _claim(
        self, task_names: Sequence[str], task_list: str, now_ms: int, owner: str, lease_expires: int, but: Set[str]
    ) -> TaskDefinition | None:
        wanted: dict[str, object] = {
            "state": TaskState.PENDING,
            "task_list_name": key_of(task_list),
            "name": {"$in": [key_of(name) for name in set(task_names)]},
        }
        if but:
            # Ids of steps begin with that of their workflow, and ";" comes after ":".
            wanted["$nor"] = [{"step_id": {"$gte": key_of(f"{run}:"), "$lt": key_of(f"{run};")}} for run in but]
        claim = task_changes(**claim_fields(owner, now_ms, lease_expires))
        oldest = [("created", ASCENDING), *BY_ARRIVAL]
        with self._reading(TASKS) as tasks:
            while True:
                try:
                    found = tasks.find_one_and_update(
                        wanted, {"$set": claim}, sort=oldest, return_document=ReturnDocument.AFTER
                    )
                    return None if found is None else self._entity(TaskDefinition, found)
                except DuplicateKeyError:
                    # Another task of its step is running: skip all such steps.
                    busy = tasks.distinct("step_id", {"state": TaskState.RUNNING, "step_id": {"$gt": ""}})
                    wanted["step_id"] = {"$nin": busy}

    def pending_task_names(self, task_list: str = "default") -> list[str]:
        """Return the names of the unclaimed tasks of a list."""
        with self._reading(TASKS) as tasks:
            names = tasks.distinct("name", {"state": TaskState.PENDING, "task_list_name": key_of(task_list)})
        return taken(self._mongo.name, "task name", names, text_of, str)

    def renew_leases(self, task_ids: Sequence[str], owner: str, lease_ms: int) -> list[str]:
        """Renew these claims for that long from now; return the ids of those that the owner has lost."""
        expires_ms = self._clock.now_ms() + lease_ms if lease_ms else 0
        held = {
            "_id": {"$in": [key_of(task_id) for task_id in task_ids]},
            "state": TaskState.RUNNING,
            "owner": key_of(owner),
        }
        with self._reading(TASKS) as tasks:
            if tasks.update_many(held, {"$set": task_changes(lease_expires=expires_ms)}).matched_count == len(task_ids):
                return []
            found = {text_of(task["_id"]) for task in tasks.find(held, {"_id": 1})}
        return [task_id for task_id in task_ids if task_id not in found]

    def requeue_expired_tasks(self) -> list[str]:
        """Make the tasks whose lease has expired claimable again; return their ids."""
        expired = self._expired_tasks(self._clock.now_ms())
        return [task.uuid for task in expired if self._change_leased(task, **self._unclaimed())]

    def _expired_tasks(self, now_ms: int) -> list[TaskDefinition]:
        wanted = {"state": TaskState.RUNNING, "lease_expires": {"$gt": 0, "$lte": now_ms}}
        with self._reading(TASKS) as tasks:
            return [self._entity(TaskDefinition, found) for found in tasks.find(wanted).sort(BY_ARRIVAL)]

    def give_task_back(self, task_id: str, owner: str) -> bool:
        """Make a task that runs for this owner claimable again; False when it does not run for it, or no longer."""
        running = {"_id": key_of(task_id), "state": TaskState.RUNNING, "owner": key_of(owner)}
        with self._reading(TASKS) as tasks:
            return tasks.update_one(running, {"$set": task_changes(**self._unclaimed())}).matched_count == 1

    def end_task(self, task_id: str, owner: str, state: str, error: dict[str, object] | None = None) -> bool:
        """Move a task that runs for this owner to its end state; False when it does not."""
        running = {"_id": key_of(task_id), "state": TaskState.RUNNING, "owner": key_of(owner)}
        changes = task_changes(state=state, error=error, updated=self._clock.now_ms(), lease_expires=0)
        with self._reading(TASKS) as tasks:
            return tasks.update_one(running, {"$set": changes}).matched_count == 1

    def release_lock(self, key: str) -> bool:
        """Release a lock; False when there is none. Others can then claim a task that it was for."""
        task = self._leased(key)
        if task is None:
            return self._remove(LockDefinition, key)
        return self._change_leased(task, **self._unclaimed())

    def extend_lock(self, key: str, duration_ms: int) -> bool:
        """Extend a lock to that long from now; False when there is none or it has expired."""
        task = self._leased(key)
        if task is None:
            return super().extend_lock(key, duration_ms)
        now_ms = self._clock.now_ms()
        return task.lease_expires > now_ms and self._change_leased(task, lease_expires=now_ms + duration_ms)

    def update_server_ping(self, server_id: str, ping_ms: int) -> None:
        """Note a server's heartbeat; does nothing for an unknown server."""
        with self._reading(SERVERS) as servers:
            servers.update_one({"_id": key_of(server_id)}, {"$set": entity_changes(ping_time=ping_ms)})

    def _take(self, task: TaskDefinition, owner: str, now_ms: int, lease_expires: int) -> bool:
        same = {
            "_id": key_of(task.uuid),
            "state": task.state,
            "owner": key_of(task.owner),
            "lease_expires": task.lease_expires,
        }
        claim = task_changes(**claim_fields(owner, now_ms, lease_expires))
        with self._reading(TASKS) as tasks:
            try:
                return tasks.update_one(same, {"$set": claim}).matched_count == 1
            except DuplicateKeyError:
                return False

    def _unclaimed(self) -> dict[str, object]:
        return {"state": TaskState.PENDING, "owner": "", "lease_expires": 0, "updated": self._clock.now_ms()}

    def _change_leased(self, task: TaskDefinition, **fields: object) -> bool:
        """Change a claimed task, unless its claim has changed since it was read."""
        same = {
            "_id": key_of(task.uuid),
            "state": TaskState.RUNNING,
            "owner": key_of(task.owner),
            "lease_expires": task.lease_expires,
        }
        with self._reading(TASKS) as tasks:
            return tasks.update_one(same, {"$set": task_changes(**fields)}).matched_count == 1
