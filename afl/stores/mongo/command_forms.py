"""Operations of a commit as commands of MongoDB: in a transaction, and in a commit document."""

from __future__ import annotations

from typing import Final

from afl.stores.mongo.documents import HISTORY, LOGS, SCHEDULES, STEPS, TASKS, TIMERS, Values
from afl.stores.mongo.writes import OPEN, Command, Ending, Operation, Put, Removal

#: Collections in which a later commit may write a document again that an earlier one deletes: a commit document that is
#: applied once more leaves what later ones, and it itself, have written.
_WRITTEN_AGAIN: Final = frozenset({STEPS, TASKS, LOGS, TIMERS, HISTORY, SCHEDULES})


def in_transaction(operation: Operation, namespace: int) -> Command:
    """Return an operation for a transaction, which is aborted when one of them finds an unexpected state."""
    if not isinstance(operation, Put):
        return _plain(operation, namespace)
    filter_: Values = {"_id": operation.id}
    if operation.expects is not None:
        filter_[operation.expects[0]] = operation.expects[1]
    changes: Values = {}
    if operation.values:
        changes["$set"] = operation.values
    if operation.first:
        changes["$setOnInsert"] = operation.first
    return {
        "update": namespace,
        "filter": filter_,
        "updateMods": changes,
        "multi": False,
        "upsert": operation.creates,
    }


def of_commit(operation: Operation, namespace: int, number: int) -> Command:
    """Return an operation of a commit document: applied twice, it has the same effect as once.

    Each document has the number of the last commit that wrote it; an earlier commit leaves it alone. Documents that
    were compared are not compared again: no other writer can have written since.
    """
    if not isinstance(operation, Put):
        if isinstance(operation, Removal) and operation.collection in _WRITTEN_AGAIN:
            older: Values = {"commit": {"$not": {"$gte": number}}}
            operation = operation._replace(filter={**operation.filter, **older})
        return _plain(operation, namespace)
    written = {"$mergeObjects": [
        {"$literal": operation.first or {}}, "$$ROOT", {"$literal": {**operation.values, "commit": number}},
    ]}  # fmt: skip
    guarded = {"$cond": [{"$gte": ["$commit", number]}, "$$ROOT", written]}
    return {
        "update": namespace,
        "filter": {"_id": operation.id},
        "updateMods": [{"$replaceWith": guarded}],
        "multi": False,
        "upsert": True,
    }


def _plain(operation: Removal | Ending, namespace: int) -> Command:
    if isinstance(operation, Removal):
        return {"delete": namespace, "filter": operation.filter, "multi": True}
    return {
        "update": namespace,
        "filter": {"_id": operation.id, "state": {"$in": list(OPEN)}},
        "updateMods": {"$set": operation.values},
        "multi": False,
        "upsert": False,
    }
