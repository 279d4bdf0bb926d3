"""Timers, histories and schedules in MongoDB: a commit document that is finished late, or applied again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pymongo import MongoClient

from afl.config import MongoDBConfig
from afl.engine.model.entities import LogDefinition, TaskState
from afl.engine.model.store import Batch, ScheduleChange, ScheduleRow, TaskEnd, TimerKind, TimerRow
from afl.engine.states import EventState, StepState
from afl.stores.memory.store import MemoryStore
from afl.stores.mongo.command_forms import of_commit
from afl.stores.mongo.documents import Arrivals
from afl.stores.mongo.store import MongoStore
from afl.stores.mongo.writes import Removal, Writes
from tests.contract.store_rows import WholeStore, change, start, step_document, task, workflow_row
from tests.contract.waiting_contract import continued, event, next_execution, put, taken, timer
from tests.eventually import eventually


def prepare(store: WholeStore) -> None:
    """Write what the commit below finds."""
    batch = put("kept", 1, 5)
    batch.schedules += put("gone", 1, 6).schedules
    batch.changes.append(change(workflow_row("w"), step_document("w:a"), step_document("w:b", number=1)))
    batch.timers += [timer("w:a", 5), timer("v:a", 6), timer("v:b", 7)]
    batch.history += [event(0, event_id="e"), event(1), event(2)]
    batch.tasks += [task("w:a#1", step_id="w:a", state=TaskState.COMPLETED), task("w:b#1", step_id="w:b")]
    batch.logs.append(LogDefinition("w:a/1", 0, "w", "w:a"))
    store.commit_batch(batch)


def everything() -> Batch:
    """Return a commit with all that a document may have written before, and may have written again."""
    row = workflow_row("w", 2, inputs={"n": 2})._replace(executions_before=1, pending_events=1)
    return Batch(
        changes=[next_execution(row, "w:c", "w:a")],
        timers=[timer("w:c", 9), timer("v:a", 8)],
        timers_done=["v:a", "v:b"],
        history=[continued(3, 1), event(4)],
        history_changes=[taken(event(0, event_id="e"), 1), taken(event(1), 2), taken(event(4), 2)],
        history_trims={"w": 2},
        schedules=[*put("kept", 2, 50).schedules, ScheduleChange("gone", 1, None), *put("new", 1, 70).schedules],
        task_ends=[TaskEnd("w:b#1", TaskState.CANCELED)],
        logs=[LogDefinition("w:b/1", 0, "w", "w:b")],
    )


def all_of(store: WholeStore) -> list[object]:
    tasks = [store.get_task(task_id) for task_id in ("w:a#1", "w:b#1")]
    return [
        store.load_workflow("w"),
        store.load_steps("w"),
        store.timers_due(1_000),
        store.history("w"),
        store.pending_events(["w"]),
        store.schedules(),
        [found and found.state for found in tasks],
        [log.uuid for log in store.get_logs_by_runner("w")],
    ]


def interrupted_at(point: str) -> Callable[[str], None]:
    def interrupt(step: str) -> None:
        if step == f"store.{point}":
            raise KeyboardInterrupt

    return interrupt


@pytest.mark.parametrize("point", ["written", "applied"])
def test_a_commit_that_another_process_finishes_is_what_it_was_to_be(
    standalone_mongodb: MongoDBConfig, point: str
) -> None:
    url, name = standalone_mongodb.connection_string(), standalone_mongodb.database
    reference, prepared = MemoryStore(), MongoStore(url, name)
    for store in (reference, prepared):
        prepare(store)
    reference.commit_batch(everything())
    interrupted = MongoStore(url, name, probe=interrupted_at(point))
    with pytest.raises(KeyboardInterrupt):
        interrupted.commit_batch(everything())

    reader = MongoStore(url, name, commit_lease_ms=0)

    eventually(lambda: all_of(reader) == all_of(reference))
    with MongoClient[dict[str, Any]](url) as client:
        assert client[name]["store"].find_one({"_id": "head"}, {"pending": 1}) == {"_id": "head", "pending": None}
    for opened in (prepared, interrupted, reader):
        opened.close()


def test_a_writer_that_was_thought_dead_brings_nothing_back(standalone_mongodb: MongoDBConfig) -> None:
    url, name = standalone_mongodb.connection_string(), standalone_mongodb.database
    others: list[list[object]] = []

    def let_others_work(step: str) -> None:
        if step == "store.written" and not others:
            others.append([])
            other = MongoStore(url, name, commit_lease_ms=0)
            row = workflow_row("w", 3)._replace(executions_before=2)
            batch = Batch(changes=[next_execution(row, "w:d")], timers_done=["v:a"], history_trims={"w": 9})
            batch.schedules.append(ScheduleChange("new", 1, None))
            other.commit_batch(batch)
            others[0] = all_of(other)
            other.close()

    prepared = MongoStore(url, name)
    prepare(prepared)
    paused = MongoStore(url, name, probe=let_others_work, commit_lease_ms=3)
    paused.commit_batch(everything())

    assert [step.id for step in paused.load_steps("w")] == ["w:d"]
    assert paused.timers_due(1_000) == []
    assert all_of(paused) == others[0]
    prepared.close()
    paused.close()


def test_a_commit_document_deletes_only_what_was_written_before_it() -> None:
    older = {"commit": {"$not": {"$gte": 7}}}

    assert of_commit(Removal("timers", {"_id": "w:a"}), 0, 7)["filter"] == {"_id": "w:a", **older}
    # The place of a record in the log is used once.
    assert of_commit(Removal("parked", {"_id": "p"}), 0, 7)["filter"] == {"_id": "p"}


def test_a_commit_document_shows_events_before_their_workflow_and_timers_last() -> None:
    batch = Batch(
        changes=[change(workflow_row("w"), step_document("w:a"))],
        timers=[timer("w:a", 5)],
        history=[event(0)],
        history_changes=[event(1)],
    )

    operations = Writes.of_batch(batch, Arrivals()).operations(1, compared_last=True)

    assert [operation.collection for operation in operations] == ["steps", "history", "history", "workflows", "timers"]


def test_a_store_of_the_format_before_gets_what_it_lacks_and_keeps_its_rows(
    mongodb_of_either_kind: MongoDBConfig,
) -> None:
    url, name = mongodb_of_either_kind.connection_string(), mongodb_of_either_kind.database
    store = MongoStore(url, name)
    asked = step_document("w:b", number=1)._replace(
        state=StepState.EVENT_TRANSMIT, attempt=1, event_state=EventState.DISPATCHED, deadline_ms=7_000
    )
    start(store, "w", step_document("w:a"), asked)
    row = store.load_workflow("w")
    store.close()
    with MongoClient[dict[str, Any]](url) as client:
        for collection in ("timers", "history", "schedules"):
            client[name].drop_collection(collection)
        client[name]["store"].update_one({"_id": "identity"}, {"$set": {"format": 1}})

    again = MongoStore(url, name, create=False)
    batch = Batch(timers=[timer("w:a", 5)], history=[event(0)])
    batch.schedules.append(ScheduleChange("s", 0, ScheduleRow("s", 1, 5, {})))
    again.commit_batch(batch)

    assert (again.timers_due(5), again.history("w"), len(again.schedules_due(5))) == ([timer("w:a", 5)], [event(0)], 1)
    # The deadline of an unanswered event, which the release before did not watch.
    assert again.timers_due(7_000)[1:] == [TimerRow("w:b", "w", TimerKind.DEADLINE, 7_000)]
    assert again.load_workflow("w") == row
    with MongoClient[dict[str, Any]](url) as client:
        identity = client[name]["store"].find_one({"_id": "identity"})
    assert identity is not None
    assert identity["format"] == 3
    again.close()
