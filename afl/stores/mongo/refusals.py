"""The reasons to refuse a commit: other writers' revisions and positions, and running tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from afl.engine.errors import ConcurrencyError, PositionLost, WorkflowConflict
from afl.engine.model.entities import TaskState
from afl.engine.model.store import HistoryRow, Position, PositionMove, ScheduleChange
from afl.stores.mongo.connection import Connection
from afl.stores.mongo.documents import HISTORY, POSITIONS, SCHEDULES, TASKS, WORKFLOWS, history_id, position_id
from afl.stores.mongo.writes import Ending, Operation, Put, Removal, Writes
from afl.stores.public.store import RUNNING_TASK_INDEX
from afl.stores.stored_text import key_of


def refuse(connection: Connection, writes: Writes) -> None:
    """Raise the reason to refuse a commit, if any: WorkflowConflict, PositionLost or ConcurrencyError."""
    lost: list[str] = []
    if writes.expected:
        wanted = [key_of(workflow_id) for workflow_id, _ in writes.expected]
        rows = connection.collection(WORKFLOWS).find({"_id": {"$in": wanted}}, {"revision": 1})
        found = {row["_id"]: row["revision"] for row in rows}
        lost += [
            workflow_id for workflow_id, expected in writes.expected if found.get(key_of(workflow_id), 0) != expected
        ]
    lost += _lost_histories(connection, writes.history) + _lost_schedules(connection, writes.schedules)
    if lost:
        raise WorkflowConflict(workflow_ids=tuple(dict.fromkeys(lost)))
    if writes.moves:
        _refuse_moves(connection, writes.moves)
    if writes.running:
        _refuse_running(connection, writes)


def _lost_histories(connection: Connection, rows: Sequence[HistoryRow]) -> list[str]:
    """Return the ids of workflows of which another writer has used a number, or an event id."""
    lost = []
    for row in rows:
        used: list[dict[str, object]] = [{"_id": history_id(row.workflow_id, row.number)}]
        if row.event_id:
            used.append({"workflow_id": key_of(row.workflow_id), "event_id": key_of(row.event_id)})
        if connection.collection(HISTORY).find_one({"$or": used}, {"_id": 1}) is not None:
            lost.append(row.workflow_id)
    return lost


def _lost_schedules(connection: Connection, changes: Sequence[ScheduleChange]) -> list[str]:
    """Return the ids of schedules that are not at the revision which a change expects."""
    if not changes:
        return []
    wanted = [key_of(change.id) for change in changes]
    rows = connection.collection(SCHEDULES).find({"_id": {"$in": wanted}}, {"revision": 1})
    found = {row["_id"]: row["revision"] for row in rows}
    return [change.id for change in changes if found.get(key_of(change.id), 0) != change.expected_revision]


def _refuse_moves(connection: Connection, moves: Sequence[PositionMove]) -> None:
    positions = [position for move in moves for position in (move.position, move.replaces) if position is not None]
    wanted = [position_id(position) for position in positions]
    rows = list(connection.collection(POSITIONS).find({"_id": {"$in": wanted}}))
    stored: dict[Position, int | None] = {
        position: next((row["next_offset"] for row in rows if row["_id"] == position_id(position)), None)
        for position in positions
    }
    moved: dict[Position, int | None] = dict(stored)
    for move in moves:
        found = moved[move.position]
        if move.replaces is not None and found is None:
            found = moved[move.replaces]
        if found != move.expected or (move.replaces is not None and stored[move.position] is not None):
            position = move.position
            raise PositionLost(topic=position.topic, partition=position.partition, expected=move.expected, found=found)
        moved[move.position] = move.next_offset


def _refuse_running(connection: Connection, writes: Writes) -> None:
    written = [*writes.others, *writes.endings]
    finishing = [operation.id for operation in written if _finishes_task(operation)]
    own: dict[str, str] = {}
    for task in writes.running:
        other = own.setdefault(task.step_id, task.uuid)
        if other == task.uuid:
            filter_ = {
                "state": "running",
                "step_id": key_of(task.step_id),
                "_id": {"$nin": [key_of(task.uuid), *finishing]},
            }
            holder = connection.collection(TASKS).find_one(filter_, {"_id": 1})
            if holder is None:
                continue
            other = str(holder["_id"])
        raise second_running(task.step_id, task.uuid, other)


def _finishes_task(operation: Operation) -> TypeGuard[Put | Ending]:
    return (
        not isinstance(operation, Removal)
        and operation.collection == TASKS
        and (operation.values["state"] != TaskState.RUNNING)
    )


def second_running(step_id: str, task_id: str, other_id: str = "another task") -> ConcurrencyError:
    """Return the error for a task that would run beside another one of its step."""
    return ConcurrencyError(
        step_id=step_id, message=f"task {task_id} can't run while {other_id} of the step does ({RUNNING_TASK_INDEX})"
    )
