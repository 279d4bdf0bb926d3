"""The history of a workflow as users see it."""

from __future__ import annotations

import pytest

from afl.engine.model.store import COMPLETED, PAUSED, Batch, HistoryKind, HistoryRow, WorkflowChange, WorkflowRow
from afl.stores.memory.store import MemoryStore
from afl.stores.public.history import (
    CONTINUED_AS_NEW,
    ContinuedAsNew,
    ExternalEvent,
    ExternalSubscribed,
    WorkflowExecution,
    WorkflowHistory,
)

EVENT, SUBSCRIBED, CONTINUED = HistoryKind.EXTERNAL_EVENT, HistoryKind.EXTERNAL_SUBSCRIBED, HistoryKind.CONTINUED_AS_NEW
#: An event that the first execution takes, one that is carried and dropped, one that is pending, and two hand-overs.
ROWS = [
    HistoryRow("w", 0, SUBSCRIBED, 1, 10, "go", step_id="w:a"),
    HistoryRow("w", 1, EVENT, 1, 11, "go", "e1", {"n": 1}, step_id="w:a", until_execution=1),
    HistoryRow("w", 2, EVENT, 1, 12, "stop", "e2", "", until_execution=2, dropped="too old"),
    HistoryRow("w", 3, CONTINUED, 1, 20, value={"inputs": {"n": 2}, "steps": 4, "abandoned": ["w:b"]}),
    HistoryRow("w", 4, CONTINUED, 2, 30, value={"inputs": {"n": 3}, "steps": 5, "abandoned": []}),
    HistoryRow("w", 5, EVENT, 3, 31, "go", "e3", [True], is_pending=True),
]


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    row = WorkflowRow(
        "w", 1, "p", "W", PAUSED, inputs={"n": 3}, executions_before=2, pending_events=1, steps=2, created_at_ms=5
    )
    store.commit_batch(Batch(changes=[WorkflowChange(row, 0)], history=ROWS))
    return store


def test_a_history_tells_events_waits_and_hand_overs_in_order(store: MemoryStore) -> None:
    assert store.get_history("w").events == (
        ExternalSubscribed(name="go", step="w:a", execution=1, at_ms=10),
        ExternalEvent(name="go", data={"n": 1}, id="e1", execution=1, at_ms=11, taken_by="w:a", until_execution=1),
        ExternalEvent(name="stop", data="", id="e2", execution=1, at_ms=12, until_execution=2, dropped="too old"),
        ContinuedAsNew(execution=1, at_ms=20, inputs={"n": 2}, steps=4, abandoned=("w:b",)),
        ContinuedAsNew(execution=2, at_ms=30, inputs={"n": 3}, steps=5),
        ExternalEvent(name="go", data=[True], id="e3", execution=3, at_ms=31, is_pending=True),
    )


def test_a_history_tells_what_is_known_of_each_execution(store: MemoryStore) -> None:
    first = WorkflowExecution(number=1, status=CONTINUED_AS_NEW, started_at_ms=5, ended_at_ms=20, inputs=None, steps=4)
    second = WorkflowExecution(
        number=2, status=CONTINUED_AS_NEW, started_at_ms=20, ended_at_ms=30, inputs={"n": 2}, steps=5
    )
    third = WorkflowExecution(number=3, status=PAUSED, started_at_ms=30, ended_at_ms=None, inputs={"n": 3}, steps=2)

    assert store.get_history("w").executions == (first, second, third)


def test_the_history_of_an_execution_has_the_events_that_were_carried_into_it(store: MemoryStore) -> None:
    second, third = store.get_history("w", 2), store.get_history("w", 3)

    assert [one.number for one in second.executions] == [2]
    assert second.events == (
        ExternalEvent(name="stop", data="", id="e2", execution=1, at_ms=12, until_execution=2, dropped="too old"),
        ContinuedAsNew(execution=2, at_ms=30, inputs={"n": 3}, steps=5),
    )
    assert [one.number for one in third.executions] == [3]
    assert [entry.at_ms for entry in third.events] == [31]


def test_what_was_trimmed_is_not_known(store: MemoryStore) -> None:
    store.commit_batch(Batch(history_trims={"w": 2}))

    executions = store.get_history("w").executions

    assert [(one.number, one.started_at_ms, one.inputs) for one in executions] == [(2, None, None), (3, 30, {"n": 3})]


def test_a_run_without_events_has_one_execution() -> None:
    store = MemoryStore()
    row = WorkflowRow("w", 1, "p", "W", COMPLETED, inputs={"n": 1}, steps=7, created_at_ms=5, ended_at_ms=9)
    store.commit_batch(Batch(changes=[WorkflowChange(row, 0)]))
    whole = WorkflowExecution(number=1, status=COMPLETED, started_at_ms=5, ended_at_ms=9, inputs={"n": 1}, steps=7)

    assert store.get_history("w") == WorkflowHistory(workflow_id="w", executions=(whole,))
    assert store.get_history("w", 2) == WorkflowHistory(workflow_id="w")
    assert store.get_history("nobody") == WorkflowHistory(workflow_id="nobody")


def test_events_before_the_start_are_there_without_an_execution() -> None:
    store = MemoryStore()
    early = HistoryRow("w", 0, EVENT, 1, 10, "go", "e", 1, is_pending=True, expires_at_ms=99)
    store.commit_batch(Batch(history=[early]))

    assert store.get_history("w") == WorkflowHistory(
        workflow_id="w",
        events=(ExternalEvent(name="go", data=1, id="e", execution=1, at_ms=10, is_pending=True),),
    )


def test_a_long_history_is_read_whole() -> None:
    store = MemoryStore()
    store.commit_batch(Batch(history=[HistoryRow("w", n, EVENT, 1, n, value=n) for n in range(2_500)]))

    events = store.get_history("w").events

    assert [entry.at_ms for entry in events] == list(range(2_500))
