"""Leases of tasks: who holds a claim, until when, and what claiming and releasing set of a task.

A running task names its owner and when its lease expires. The lock of a task (`runner:task:<id>`) is a view of that
lease.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from afl.engine.model.entities import LockDefinition, LockMetaData, TaskDefinition, TaskState

#: What the key of a task's lock starts with; the task's id follows.
TASK_LOCK: Final = "runner:task:"


def claim_fields(owner: str, now_ms: int, lease_expires: int) -> dict[str, Any]:
    """Return what a claim sets of a task; `lease_expires` in ms since the epoch, 0: never."""
    return {
        "state": TaskState.RUNNING,
        "owner": owner,
        "lease_expires": lease_expires,
        "updated": now_ms,
        "claimed": now_ms,
    }


def claimed_task(task: TaskDefinition, owner: str, now_ms: int, lease_expires: int) -> TaskDefinition:
    """Return the task as a claim leaves it."""
    return replace(task, **claim_fields(owner, now_ms, lease_expires))


def released_task(task: TaskDefinition, now_ms: int) -> TaskDefinition:
    """Return the task without an owner, so that others may claim it."""
    return replace(task, state=TaskState.PENDING, owner="", lease_expires=0, updated=now_ms)


def is_owned(task: TaskDefinition, owner: str) -> bool:
    """Return whether the task runs for this owner now."""
    return task.state == TaskState.RUNNING and task.owner == owner


def is_leased(task: TaskDefinition) -> bool:
    """Return whether the task runs and its claim ends at some time."""
    return task.state == TaskState.RUNNING and task.lease_expires != 0


def lease_lock(task: TaskDefinition) -> LockDefinition:
    """Return the lease of a running task as a lock."""
    return LockDefinition(
        key=f"{TASK_LOCK}{task.uuid}",
        acquired_at=task.updated,
        expires_at=task.lease_expires,
        meta=LockMetaData(topic=task.name, handler=task.owner, step_id=task.step_id),
    )
