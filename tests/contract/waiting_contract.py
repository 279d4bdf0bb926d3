"""What every store must do with timers, histories of executions, and schedules. Inherit, and give a `store` fixture."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from afl.core.values import ValueRefused
from afl.engine.errors import PositionLost, WorkflowConflict
from afl.engine.model.entities import LogDefinition, NoteType, TaskState
from afl.engine.model.store import (
    Batch,
    EarlyWorkflow,
    ErrorRecord,
    HistoryKind,
    HistoryRow,
    PositionMove,
    RetryRecord,
    ScheduleChange,
    ScheduleRow,
    TaskEnd,
    TimerKind,
    TimerRow,
    WorkflowChange,
    WorkflowRow,
)
from afl.engine.states import EventState
from afl.engine.types import Value
from tests.bad_values import NOT_KEPT, BadValue
from tests.contract.store_rows import (
    CONTROL_0,
    WholeStore,
    change,
    in_threads,
    outbox_record,
    public_step,
    start,
    step_document,
    task,
    workflow_row,
)

T = TypeVar("T")

#: Ids that a file or a database could confuse, or not hold as text.
ODD_IDS = ["w:a", "w:A", "w:ä", "w:\x00", "w:\ud800", "w:'", "w:$x.y"]


def timer(step_id: str, due_at_ms: int, kind: TimerKind = TimerKind.SLEEP) -> TimerRow:
    return TimerRow(step_id, step_id.partition(":")[0], kind, due_at_ms)


def event(
    number: int,
    *,
    workflow_id: str = "w",
    name: str = "signal",
    event_id: str = "",
    value: Value = None,
    execution: int = 1,
    expires_at_ms: int = 0,
) -> HistoryRow:
    """Return the row of an event that no wait has taken."""
    return HistoryRow(
        workflow_id=workflow_id,
        number=number,
        kind=HistoryKind.EXTERNAL_EVENT,
        execution=execution,
        at_ms=1_000 + number,
        name=name,
        event_id=event_id,
        value=value,
        is_pending=True,
        expires_at_ms=expires_at_ms,
    )


def taken(row: HistoryRow, execution: int, step_id: str = "w:a") -> HistoryRow:
    """Return the row of an event that a step of this execution has taken."""
    return row._replace(is_pending=False, until_execution=execution, step_id=step_id)


def subscribed(number: int, execution: int = 1) -> HistoryRow:
    return HistoryRow("w", number, HistoryKind.EXTERNAL_SUBSCRIBED, execution, 1, name="signal", step_id="w:a")


def continued(number: int, execution: int) -> HistoryRow:
    """Return the row of an execution that ended by continuing as new."""
    value: Value = {"inputs": {"n": execution + 1}, "steps": 3, "abandoned": []}
    return HistoryRow("w", number, HistoryKind.CONTINUED_AS_NEW, execution, 1, value=value)


def put(schedule_id: str, revision: int, next_at_ms: int | None, document: dict[str, Value] | None = None) -> Batch:
    """Return a batch that brings a schedule to a revision."""
    row = ScheduleRow(schedule_id, revision, next_at_ms, document or {})
    return Batch(schedules=[ScheduleChange(schedule_id, revision - 1, row)])


def dropped(schedule_id: str, revision: int) -> Batch:
    """Return a batch that deletes a schedule which is at this revision."""
    return Batch(schedules=[ScheduleChange(schedule_id, revision, None)])


def next_execution(row: WorkflowRow, *steps: str) -> WorkflowChange:
    """Return a change by which the workflow begins anew with these steps."""
    made = change(row, *(step_document(step_id, number=n, revision=row.revision) for n, step_id in enumerate(steps)))
    made.replaces = True
    return made


def by_writers(count: int, write: Callable[[int], T]) -> list[T]:
    """Return what each of some writers returns that begin together. Each gets its number."""
    numbers = iter(range(count))
    results: dict[int, T] = {}

    def run() -> None:
        writer = next(numbers)
        results[writer] = write(writer)

    in_threads(run, count)
    return [results[writer] for writer in range(count)]


class TimerContract:
    """Timers: found by their time, at a cost that does not grow with their number."""

    def test_there_is_no_timer_at_first(self, store: WholeStore) -> None:
        assert store.next_timer_ms() is None
        assert store.timers_due(1 << 60) == []
        assert store.timers_of("w") == []

    def test_timers_are_due_in_order_of_time_and_step(self, store: WholeStore) -> None:
        rows = [timer("v:c", 20), timer("w:b", 10), timer("w:a", 20, TimerKind.DEADLINE), timer("u:z", 30)]
        store.commit_batch(Batch(timers=rows))

        assert store.next_timer_ms() == 10
        assert store.timers_due(9) == []
        assert store.timers_due(20) == [rows[1], rows[0], rows[2]]
        assert store.timers_due(20, limit=1) == [rows[1]]
        assert store.timers_of("w") == [rows[1], rows[2]]

    def test_times_of_this_century_are_kept_and_any_number_may_be_asked_for(self, store: WholeStore) -> None:
        now_ms, latest_ms = 1_700_000_000_000, (1 << 63) - 1
        late = timer("w:a", now_ms)
        store.commit_batch(Batch(timers=[late]))

        assert store.timers_due(latest_ms, after=timer("", now_ms - 1)) == [late]
        assert store.timers_due(latest_ms, after=timer("", now_ms + 1), limit=1) == []
        assert store.next_timer_ms() == now_ms

    def test_timers_are_read_in_pages(self, store: WholeStore) -> None:
        rows = [timer(f"w:{number:03}", 100 + number // 7) for number in range(50)]
        store.commit_batch(Batch(timers=rows[::-1]))

        read: list[TimerRow] = []
        while page := store.timers_due(200, after=read[-1] if read else None, limit=8):
            read += page

        assert read == rows

    def test_a_page_begins_behind_a_timer_that_is_gone(self, store: WholeStore) -> None:
        rows = [timer("w:a", 1), timer("w:b", 1), timer("w:c", 1)]
        store.commit_batch(Batch(timers=rows))
        store.commit_batch(Batch(timers_done=["w:a", "w:b"]))

        assert store.timers_due(1, after=rows[1]) == [rows[2]]

    @pytest.mark.parametrize("kind", TimerKind)
    def test_every_kind_comes_back(self, store: WholeStore, kind: TimerKind) -> None:
        store.commit_batch(Batch(timers=[timer("w:a", 5, kind)]))

        (found,) = store.timers_of("w")
        assert found == timer("w:a", 5, kind)
        assert found.kind is kind

    def test_any_id_has_its_timer(self, store: WholeStore) -> None:
        rows = [timer(step_id, number) for number, step_id in enumerate(ODD_IDS)]
        store.commit_batch(Batch(timers=rows))

        assert store.timers_due(100) == rows
        store.commit_batch(Batch(timers_done=ODD_IDS[1:]))
        assert store.timers_due(100) == rows[:1]

    def test_a_step_has_one_timer_the_latest(self, store: WholeStore) -> None:
        store.commit_batch(Batch(timers=[timer("w:a", 5)]))
        store.commit_batch(Batch(timers=[timer("w:a", 9), timer("w:a", 7, TimerKind.RETRY)]))

        assert store.timers_due(100) == [timer("w:a", 7, TimerKind.RETRY)]
        assert store.next_timer_ms() == 7

    def test_a_timer_that_is_done_is_gone(self, store: WholeStore) -> None:
        store.commit_batch(Batch(timers=[timer("w:a", 5), timer("w:b", 6)]))
        store.commit_batch(Batch(timers_done=["w:a", "w:unknown"]))

        assert store.timers_of("w") == [timer("w:b", 6)]
        assert store.next_timer_ms() == 6

    def test_a_step_whose_timer_ends_and_begins_in_one_commit_has_the_new_one(self, store: WholeStore) -> None:
        store.commit_batch(Batch(timers=[timer("w:a", 5)]))
        store.commit_batch(Batch(timers=[timer("w:a", 8)], timers_done=["w:a"]))

        assert store.timers_of("w") == [timer("w:a", 8)]

    def test_a_refused_commit_leaves_timers_as_they_were(self, store: WholeStore) -> None:
        start(store, "w")
        store.commit_batch(Batch(timers=[timer("w:a", 5)]))

        with pytest.raises(WorkflowConflict):
            store.commit_batch(
                Batch(changes=[change(workflow_row("w", 3))], timers=[timer("w:b", 1)], timers_done=["w:a"])
            )

        assert store.timers_due(100) == [timer("w:a", 5)]


class HistoryContract:
    """Histories: numbered rows, each written once, and pending events in the order of their numbers."""

    def test_an_unknown_workflow_has_no_history(self, store: WholeStore) -> None:
        start(store, "w")

        assert store.history("w") == []
        assert store.pending_events(["w", "v"]) == {}
        assert store.history_sizes(["w"]) == {}
        assert store.known_events([("w", "e")]) == set()
        assert store.early_workflows() == []

    def test_every_field_of_every_kind_comes_back(self, store: WholeStore) -> None:
        rows = [
            event(0, event_id="e1", value={"a": [1, 2.5, None]}, expires_at_ms=77),
            event(1)._replace(is_pending=False, until_execution=4, dropped="too old", execution=3),
            subscribed(2, execution=2),
            continued(3, execution=2),
        ]
        store.commit_batch(Batch(history=rows))

        assert store.history("w") == rows
        assert [row.kind for row in store.history("w")] == [row.kind for row in rows]
        assert all(isinstance(row.kind, HistoryKind) for row in store.history("w"))

    @pytest.mark.parametrize(
        "value",
        ["", "x" * 100_000, "ä\x00\n\"'", [], {}, {"deep": [{"er": [None, True, 0.1, -5]}]}, 1 << 80, None, 0, False],
        ids=["empty", "large", "odd", "list", "map", "nested", "big", "null", "zero", "false"],
    )
    def test_the_data_of_an_event_comes_back_exactly(self, store: WholeStore, value: Value) -> None:
        store.commit_batch(Batch(history=[event(0, value=value)]))

        (found,) = store.pending_events(["w"])["w"]
        assert found.value == value
        assert type(found.value) is type(value)

    @pytest.mark.parametrize("bad", NOT_KEPT, ids=lambda bad: bad.name)
    def test_what_is_no_value_is_refused(self, store: WholeStore, bad: BadValue) -> None:
        value: Value = bad.make()
        for batch in (
            Batch(history=[event(0, value=value)]),
            Batch(history_changes=[event(0, value=value)]),
            put("s", 1, 5, {"x": value}),
        ):
            with pytest.raises(ValueRefused):
                store.commit_batch(batch)

        assert store.history("w") == []
        assert store.schedules() == []

    def test_what_was_read_is_the_readers_own(self, store: WholeStore) -> None:
        store.commit_batch(Batch(history=[event(0, value={"a": [1]})]))
        for row in (*store.history("w"), *store.pending_events(["w"])["w"]):
            assert isinstance(row.value, dict)
            row.value["a"] = "changed"

        assert store.history("w")[0].value == {"a": [1]}

    def test_any_workflow_has_its_own_history(self, store: WholeStore) -> None:
        rows = [event(7, workflow_id=odd, event_id=odd, name=odd) for odd in ODD_IDS]
        store.commit_batch(Batch(history=rows))

        assert [store.history(odd) for odd in ODD_IDS] == [[row] for row in rows]
        assert store.pending_events(ODD_IDS) == {row.workflow_id: [row] for row in rows}
        assert store.known_events([(odd, odd) for odd in ODD_IDS]) == {(odd, odd) for odd in ODD_IDS}
        assert store.history_sizes(ODD_IDS) == dict.fromkeys(ODD_IDS, 8)

    def test_pending_events_are_first_in_first_out(self, store: WholeStore) -> None:
        for number in (3, 11, 2, 10):
            store.commit_batch(
                Batch(history=[event(number, name=f"n{number % 2}"), event(5, workflow_id=f"v{number}")])
            )

        assert [row.number for row in store.pending_events(["w"])["w"]] == [2, 3, 10, 11]
        assert [row.number for row in store.history("w")] == [2, 3, 10, 11]

    def test_pending_events_of_many_workflows_are_read_at_once(self, store: WholeStore) -> None:
        rows = [event(n, workflow_id=f"w{number}") for number in range(450) for n in range(2)]
        store.commit_batch(Batch(history=rows))
        wanted = [f"w{number}" for number in range(500)]

        assert store.pending_events(wanted) == {f"w{n}": rows[2 * n : 2 * n + 2] for n in range(450)}
        assert store.history_sizes(wanted) == {f"w{n}": 2 for n in range(450)}

    def test_a_taken_event_is_pending_no_longer_and_stays_in_the_history(self, store: WholeStore) -> None:
        rows = [event(0, event_id="a", value=[1]), event(1, event_id="b")]
        store.commit_batch(Batch(history=rows))
        store.commit_batch(Batch(history_changes=[taken(rows[0], 2)]))

        assert store.pending_events(["w"]) == {"w": [rows[1]]}
        assert store.history("w") == [taken(rows[0], 2), rows[1]]
        assert store.known_events([("w", "a"), ("w", "b"), ("w", "c"), ("v", "a")]) == {("w", "a"), ("w", "b")}

    def test_an_event_that_is_raised_and_taken_in_one_commit_is_taken(self, store: WholeStore) -> None:
        row = event(0, event_id="a")
        store.commit_batch(Batch(history=[row], history_changes=[row, taken(row, 1)]))

        assert store.history("w") == [taken(row, 1)]
        assert store.pending_events(["w"]) == {}

    def test_a_history_is_read_in_pages(self, store: WholeStore) -> None:
        rows = [event(number) for number in range(25)]
        store.commit_batch(Batch(history=rows))

        read: list[HistoryRow] = []
        while page := store.history("w", after=read[-1].number if read else -1, limit=10):
            read += page

        assert read == rows
        assert store.history_sizes(["w"]) == {"w": 25}

    def test_a_used_number_is_a_conflict_that_names_the_workflow(self, store: WholeStore) -> None:
        store.commit_batch(Batch(history=[event(0), event(4)]))

        for row in (event(4, name="other"), subscribed(0)):
            with pytest.raises(WorkflowConflict) as caught:
                store.commit_batch(Batch(history=[event(9), row, event(4, workflow_id="v")], timers=[timer("w:a", 1)]))
            assert caught.value.workflow_ids == ("w",)

        assert store.history("w") == [event(0), event(4)]
        assert store.history("v") == []
        assert store.timers_of("w") == []

    def test_a_used_event_id_is_a_conflict_that_names_the_workflow(self, store: WholeStore) -> None:
        store.commit_batch(Batch(history=[event(0, event_id="e")]))

        with pytest.raises(WorkflowConflict) as caught:
            store.commit_batch(Batch(history=[event(1, event_id="e"), event(1, workflow_id="v", event_id="e")]))

        assert caught.value.workflow_ids == ("w",)
        assert store.history("v") == []
        store.commit_batch(Batch(history=[event(1, workflow_id="v", event_id="e"), event(1), event(2)]))
        assert [row.number for row in store.history("w")] == [0, 1, 2]

    def test_every_loser_of_a_batch_is_named(self, store: WholeStore) -> None:
        start(store, "a")
        store.commit_batch(Batch(history=[event(0, workflow_id="b")]))
        store.commit_batch(put("s", 1, 5))
        batch = Batch(
            changes=[change(workflow_row("a", 3)), change(workflow_row("c"))],
            history=[event(0, workflow_id="b"), event(0, workflow_id="c")],
            schedules=[ScheduleChange("s", 2, None)],
        )

        with pytest.raises(WorkflowConflict) as caught:
            store.commit_batch(batch)

        assert set(caught.value.workflow_ids) == {"a", "b", "s"}
        assert store.load_workflow("c") is None

    def test_a_number_twice_in_one_batch_is_an_error_of_the_caller(self, store: WholeStore) -> None:
        for batch in (
            Batch(history=[event(0), event(0, name="other")]),
            Batch(history=[event(0, event_id="e"), event(1, event_id="e")]),
            Batch(schedules=[ScheduleChange("s", 1, None), ScheduleChange("s", 1, None)]),
            Batch(schedules=[ScheduleChange("s", 1, ScheduleRow("s", 3, 5, {}))]),
            Batch(schedules=[ScheduleChange("s", 1, ScheduleRow("t", 2, 5, {}))]),
        ):
            with pytest.raises(ValueError, match=r"once|can't lead"):
                store.commit_batch(batch)

    def test_a_conflict_comes_before_a_lost_position(self, store: WholeStore) -> None:
        store.commit_batch(Batch(history=[event(0)]))
        lost = PositionMove(position=CONTROL_0, expected=5, next_offset=6)

        with pytest.raises(WorkflowConflict):
            store.commit_batch(Batch(history=[event(0)], positions=[lost]))
        with pytest.raises(PositionLost):
            store.commit_batch(Batch(history=[event(1)], positions=[lost], schedules=put("s", 1, 1).schedules))

        assert store.history("w") == [event(0)]
        assert store.schedules() == []

    def test_a_history_of_an_execution_has_its_rows_and_the_events_carried_into_it(self, store: WholeStore) -> None:
        rows = [
            taken(event(0, event_id="taken at once"), 1),
            taken(event(1, event_id="taken in the third"), 3),
            event(2, event_id="pending"),
            event(3, event_id="dropped")._replace(is_pending=False, until_execution=2, dropped="old"),
            subscribed(4, execution=1),
            continued(5, execution=1),
            event(6, execution=2),
            subscribed(7, execution=2),
            continued(8, execution=2),
            subscribed(9, execution=3),
        ]
        store.commit_batch(Batch(history=rows))

        def numbers(execution: int) -> list[int]:
            return [row.number for row in store.history("w", execution=execution)]

        assert numbers(1) == [0, 1, 2, 3, 4, 5]
        assert numbers(2) == [1, 2, 3, 6, 7, 8]
        assert numbers(3) == [1, 2, 6, 9]
        assert numbers(4) == [2, 6]
        assert [row.number for row in store.history("w", execution=3, after=1, limit=2)] == [2, 6]

    def test_a_trim_keeps_pending_events_and_what_later_executions_have(self, store: WholeStore) -> None:
        rows = [
            taken(event(0, event_id="gone"), 1),
            taken(event(1), 3),
            event(2),
            subscribed(3, execution=1),
            continued(4, execution=1),
            subscribed(5, execution=2),
            taken(event(6), 2),
            subscribed(7, execution=3),
        ]
        store.commit_batch(Batch(history=[*rows, subscribed(0)._replace(workflow_id="v")]))
        store.commit_batch(Batch(history_trims={"w": 2, "unknown": 9}))

        assert [row.number for row in store.history("w")] == [1, 2, 5, 6, 7]
        assert store.known_events([("w", "gone")]) == set()
        assert len(store.history("v")) == 1
        assert store.history_sizes(["w"]) == {"w": 8}

    def test_a_trim_comes_after_the_rows_of_its_batch(self, store: WholeStore) -> None:
        store.commit_batch(Batch(history=[event(0), event(1)]))
        store.commit_batch(
            Batch(history=[continued(2, 1)], history_changes=[taken(event(0), 1)], history_trims={"w": 2})
        )

        assert store.history("w") == [event(1)]

    def test_workflows_that_are_still_to_come_are_found_by_their_early_events(self, store: WholeStore) -> None:
        early = [event(0, workflow_id="b", expires_at_ms=50), event(1, workflow_id="b", expires_at_ms=40)]
        others = [event(0, workflow_id="a", expires_at_ms=70), event(0, workflow_id="c"), event(0, workflow_id="d")]
        store.commit_batch(Batch(history=[*early, *others, taken(event(9, workflow_id="d", expires_at_ms=1), 1)]))

        sizes = {early.workflow_id: early.size_bytes for early in store.early_workflows()}
        assert sizes["b"] == 2 * sizes["a"]
        assert store.early_workflows() == [EarlyWorkflow("a", 1, 70, sizes["a"]), EarlyWorkflow("b", 2, 40, sizes["b"])]
        assert store.early_workflows(limit=1) == [EarlyWorkflow("a", 1, 70, sizes["a"])]
        assert store.early_workflows(after="a") == [EarlyWorkflow("b", 2, 40, sizes["b"])]
        store.commit_batch(Batch(history_changes=[row._replace(expires_at_ms=0) for row in early]))
        assert store.early_workflows() == [EarlyWorkflow("a", 1, 70, sizes["a"])]
        assert store.pending_events(["b"]) == {"b": [row._replace(expires_at_ms=0) for row in early]}

    def test_the_bytes_of_early_events_are_told(self, store: WholeStore) -> None:
        rows = [event(n, workflow_id="w", expires_at_ms=50)._replace(value="x" * 1_000) for n in range(3)]
        store.commit_batch(Batch(history=rows))

        (early,) = store.early_workflows()
        assert 3_000 <= early.size_bytes < 4_000
        store.commit_batch(Batch(history_changes=[rows[0]._replace(is_pending=False)]))
        (early,) = store.early_workflows()
        assert 2_000 <= early.size_bytes < 3_000

    def test_an_event_before_its_workflow_relies_on_there_being_none(self, store: WholeStore) -> None:
        store.commit_batch(Batch(history=[event(0)], confirms={"w": 0}))
        start(store, "w")

        with pytest.raises(WorkflowConflict) as caught:
            store.commit_batch(Batch(history=[event(1)], confirms={"w": 0}))

        assert caught.value.workflow_ids == ("w",)
        assert store.history("w") == [event(0)]

    def test_of_writers_of_one_number_one_wins(self, store: WholeStore) -> None:
        def write(writer: int) -> bool:
            try:
                store.commit_batch(
                    Batch(history=[event(0, event_id=f"e{writer}")], outbox=[outbox_record(str(writer))])
                )
            except WorkflowConflict:
                return False
            return True

        results = by_writers(4, write)

        assert sorted(results) == [False, False, False, True]
        (row,) = store.history("w")
        assert row.event_id == f"e{results.index(True)}"
        assert [stored.record.value for stored in store.outbox()] == [str(results.index(True)).encode()]


class ScheduleContract:
    """Schedules: each change compares the revision, so that of two writers one has fired."""

    def test_a_schedule_comes_back(self, store: WholeStore) -> None:
        assert store.schedule("s") is None
        assert store.next_schedule_ms() is None
        document: dict[str, Value] = {"cron": "0 9 * * *", "inputs": {"n": [1, None]}, "big": "x" * 100_000}
        store.commit_batch(put("s", 1, 500, document))

        assert store.schedule("s") == ScheduleRow("s", 1, 500, document)
        assert store.schedules() == [ScheduleRow("s", 1, 500, document)]
        assert store.next_schedule_ms() == 500

    def test_what_was_read_of_a_schedule_is_the_readers_own(self, store: WholeStore) -> None:
        store.commit_batch(put("s", 1, 5, {"a": [1]}))
        found = store.schedule("s")
        assert found is not None
        assert isinstance(found.document["a"], list)
        found.document["a"].append(2)

        assert store.schedules()[0].document == {"a": [1]}

    def test_schedules_are_due_in_order_of_time_and_id(self, store: WholeStore) -> None:
        for schedule_id, at_ms in (("c", 10), ("b", 20), ("a", 20), ("d", 30), ("paused", None)):
            store.commit_batch(put(schedule_id, 1, at_ms))

        assert [row.id for row in store.schedules_due(20)] == ["c", "a", "b"]
        assert [row.id for row in store.schedules_due(20, limit=2)] == ["c", "a"]
        assert store.schedules_due(9) == []
        assert store.next_schedule_ms() == 10

    def test_schedules_are_read_in_pages_by_their_ids(self, store: WholeStore) -> None:
        for schedule_id in ("b", "#republish/0", "a", "c"):
            store.commit_batch(put(schedule_id, 1, None))

        assert [row.id for row in store.schedules()] == ["#republish/0", "a", "b", "c"]
        assert [row.id for row in store.schedules(after="a", limit=1)] == ["b"]
        assert store.next_schedule_ms() is None

    @pytest.mark.parametrize("odd", ODD_IDS)
    def test_any_id_has_its_schedule(self, store: WholeStore, odd: str) -> None:
        store.commit_batch(put(odd, 1, 5))

        assert store.schedule(odd) == ScheduleRow(odd, 1, 5, {})

    def test_a_stale_change_is_a_conflict_that_names_the_schedule(self, store: WholeStore) -> None:
        store.commit_batch(put("s", 1, 10))
        store.commit_batch(put("s", 2, 20))

        for batch in (put("s", 1, 5), put("s", 2, 5), put("s", 4, 5), dropped("s", 1), put("t", 2, 5), dropped("t", 1)):
            batch.outbox.append(outbox_record("start"))
            with pytest.raises(WorkflowConflict) as caught:
                store.commit_batch(batch)
            assert caught.value.workflow_ids == (batch.schedules[0].id,)

        assert store.schedules() == [ScheduleRow("s", 2, 20, {})]
        assert store.outbox() == []

    def test_a_deleted_schedule_is_gone_and_may_come_again(self, store: WholeStore) -> None:
        store.commit_batch(put("s", 1, 10))
        store.commit_batch(dropped("s", 1))

        assert store.schedules() == []
        assert store.next_schedule_ms() is None
        store.commit_batch(put("s", 1, 30))
        assert store.schedule("s") == ScheduleRow("s", 1, 30, {})

    def test_a_schedule_may_be_deleted_beside_other_changes(self, store: WholeStore) -> None:
        store.commit_batch(put("s", 1, 10))
        start(store, "w")
        batch = dropped("s", 1)
        batch.changes.append(change(workflow_row("w", 2), step_document("w:a", revision=2)))
        batch.confirms["v"] = 0
        store.commit_batch(batch)

        assert store.schedules() == []
        assert store.revisions(["w"]) == {"w": 2}

    def test_of_writers_of_one_firing_one_wins(self, store: WholeStore) -> None:
        store.commit_batch(put("s", 1, 10))

        def fire(writer: int) -> bool:
            batch = put("s", 2, 20, {"by": writer})
            batch.outbox.append(outbox_record(str(writer)))
            try:
                store.commit_batch(batch)
            except WorkflowConflict:
                return False
            return True

        results = by_writers(4, fire)

        assert sorted(results) == [False, False, False, True]
        assert store.schedule("s") == ScheduleRow("s", 2, 20, {"by": results.index(True)})
        assert [stored.record.value for stored in store.outbox()] == [str(results.index(True)).encode()]


class ContinuedContract:
    """Workflows that continue as new: the next execution takes the place of the one before."""

    def test_a_next_execution_replaces_the_rows_of_the_one_before(self, store: WholeStore) -> None:
        entry = LogDefinition("w:a/1", 0, "w", "w:a", note_type=NoteType.INFO, message="old")
        store.commit_batch(
            Batch(
                changes=[change(workflow_row("w"), step_document("w:a"), step_document("w:b", number=1))],
                timers=[timer("w:a", 5), timer("w:b", 6)],
                tasks=[task("w:a#1", step_id="w:a", state=TaskState.COMPLETED), task("w:b#1", step_id="w:b")],
                logs=[entry],
                history=[event(0)],
            )
        )
        start(store, "w1", step_document("w1:a"))
        row = workflow_row("w", 2, inputs={"n": 2}, name="shop.Next", created_at_ms=9)._replace(
            executions_before=1, pending_events=1, steps=1
        )
        later = LogDefinition("w:b/2", 0, "w", "w:b", note_type=NoteType.INFO, message="the end")
        store.commit_batch(
            Batch(
                changes=[next_execution(row, "w:c")],
                timers=[timer("w:c", 7)],
                task_ends=[TaskEnd("w:b#1", TaskState.CANCELED)],
                logs=[later],
                history=[continued(1, 1)],
            )
        )

        assert store.load_workflow("w") == row
        assert [step.id for step in store.load_steps("w")] == ["w:c"]
        assert store.get_step("w:a") is None
        assert store.timers_due(100) == [timer("w:c", 7)]
        assert store.get_task("w:a#1") is None
        ended = store.get_task("w:b#1")
        assert ended is not None
        assert ended.state == TaskState.CANCELED
        assert [log.uuid for log in store.get_logs_by_runner("w")] == ["w:b/2"]
        assert store.history("w") == [event(0), continued(1, 1)]
        assert [step.id for step in store.load_steps("w1")] == ["w1:a"]

    def test_a_next_execution_may_come_alone(self, store: WholeStore) -> None:
        start(store, "w", step_document("w:a"))
        row = workflow_row("w", 2, inputs={"n": 2})
        batch = Batch(changes=[next_execution(row, "w:b")])
        assert batch.has_changes_only
        store.commit_batch(batch)

        assert store.load_workflow("w") == row
        assert [step.id for step in store.load_steps("w", newer_than=1)] == ["w:b"]
        assert store.step_count() == 1

    def test_a_step_of_the_next_execution_may_have_the_id_of_an_earlier_one(self, store: WholeStore) -> None:
        start(store, "w", step_document("w:a", params={"old": 1}), step_document("w:b", number=1))
        store.commit_batch(Batch(changes=[next_execution(workflow_row("w", 2), "w:b", "w:a")]))

        assert [(step.id, step.params) for step in store.load_steps("w")] == [("w:b", {}), ("w:a", {})]

    def test_steps_that_were_saved_by_hand_go_with_their_execution(self, store: WholeStore) -> None:
        start(store, "w", step_document("w:a"))
        step = public_step("w")
        store.save_step(step)
        store.commit_batch(Batch(changes=[next_execution(workflow_row("w", 3), "w:b")]))

        assert [step.id for step in store.load_steps("w")] == ["w:b"]
        assert [step.id for step in store.get_steps_by_workflow("w")] == ["w:b"]
        assert store.get_step(step.id) is None

    def test_a_stale_next_execution_replaces_nothing(self, store: WholeStore) -> None:
        start(store, "w", step_document("w:a"))
        store.commit_batch(Batch(timers=[timer("w:a", 5)]))

        with pytest.raises(WorkflowConflict):
            store.commit_batch(Batch(changes=[next_execution(workflow_row("w", 3), "w:b")]))

        assert [step.id for step in store.load_steps("w")] == ["w:a"]
        assert store.timers_of("w") == [timer("w:a", 5)]

    def test_many_executions_leave_as_much_as_one(self, store: WholeStore) -> None:
        start(store, "w", *(step_document(f"w:0.{n}", number=n) for n in range(3)))
        for number in range(1, 30):
            row = workflow_row("w", number + 1, inputs={"n": number})._replace(executions_before=number)
            store.commit_batch(
                Batch(
                    changes=[next_execution(row, *(f"w:{number}.{n}" for n in range(3)))],
                    timers=[timer(f"w:{number}.0", number)],
                    history=[continued(number, number)],
                    history_trims={"w": number - 1},
                )
            )

        assert store.step_count() == 3
        assert store.timers_due(1_000) == [timer("w:29.0", 29)]
        assert [row.execution for row in store.history("w")] == [28, 29]

    def test_counts_and_retries_of_rows_come_back(self, store: WholeStore) -> None:
        error = ErrorRecord("Timeout", "no answer", "w:a", "shop.Checkout.pay", "shop.Pay", 7)
        row = workflow_row("w")._replace(executions_before=4, pending_events=17)
        step = step_document("w:a")._replace(
            attempt=3, event_state=EventState.RETRYING, deadline_ms=9, retry=RetryRecord(2, error)
        )
        waiting = step_document("w:b", number=1)._replace(
            attempt=1, event_state=EventState.WAITING, retry=RetryRecord(1, error)
        )
        store.commit_batch(Batch(changes=[change(row, step, waiting)]))

        assert store.load_workflow("w") == row
        assert row.execution_number == 5
        assert store.load_steps("w") == [step, waiting]


class TimeContract:
    """Times of today, in milliseconds: larger than what 32 bits hold."""

    NOW_MS = 1_764_000_000_000

    def test_times_come_back_as_plain_integers(self, store: WholeStore) -> None:
        row = event(0, expires_at_ms=self.NOW_MS + 2)._replace(at_ms=self.NOW_MS)
        batch = put("s", 1, self.NOW_MS + 1)
        batch.timers.append(timer("w:a", self.NOW_MS))
        batch.history.append(row)
        store.commit_batch(batch)

        (found,) = store.timers_due(self.NOW_MS)
        (early,) = store.early_workflows()
        (raised,) = store.history("w")
        schedule = store.schedule("s")
        assert schedule is not None
        times = [
            found.due_at_ms, store.next_timer_ms(), early.expires_at_ms, raised.at_ms, raised.expires_at_ms,
            schedule.next_at_ms, store.next_schedule_ms(),
        ]  # fmt: skip
        assert times == [self.NOW_MS + more for more in (0, 0, 2, 0, 2, 1, 1)]
        assert {type(at_ms) for at_ms in times} == {int}
        assert store.timers_due(self.NOW_MS - 1) == []


class WaitingContract(TimeContract, TimerContract, HistoryContract, ScheduleContract, ContinuedContract):
    """All of it."""


class DurableWaitingContract:
    """What stores that outlive their process must do besides. `reopen` opens one more store on the same data."""

    def test_a_restart_keeps_timers_histories_and_schedules(
        self, store: WholeStore, reopen: Callable[[], WholeStore]
    ) -> None:
        rows = [event(0, event_id="e", value="x" * 100_000), taken(event(1), 1), continued(2, 1)]
        batch = put("s", 1, 10, {"cron": "* * * * *"})
        batch.timers.append(timer("w:a", 5))
        batch.history += rows
        store.commit_batch(batch)
        store.close()

        again = reopen()

        assert again.timers_due(5) == [timer("w:a", 5)]
        assert again.next_timer_ms() == 5
        assert again.history("w") == rows
        assert again.pending_events(["w"]) == {"w": rows[:1]}
        assert again.schedule("s") == ScheduleRow("s", 1, 10, {"cron": "* * * * *"})

    def test_two_stores_cannot_write_one_number(self, store: WholeStore, reopen: Callable[[], WholeStore]) -> None:
        other = reopen()
        stores = [store, other] * 2

        def write(writer: int) -> int:
            written = 0
            while written < 10:
                size = stores[writer].history_sizes(["w"]).get("w", 0)
                try:
                    stores[writer].commit_batch(Batch(history=[event(size, event_id=f"{writer}/{written}")]))
                    written += 1
                except WorkflowConflict:
                    continue
            return written

        by_writers(4, write)

        found = store.pending_events(["w"])["w"]
        assert [row.number for row in found] == list(range(40))
        assert {row.event_id for row in found} == {f"{writer}/{n}" for writer in range(4) for n in range(10)}
        for writer in range(4):
            own = [row.event_id for row in found if row.event_id.startswith(f"{writer}/")]
            assert own == [f"{writer}/{n}" for n in range(10)]

    def test_two_stores_fire_a_schedule_once_each_time(
        self, store: WholeStore, reopen: Callable[[], WholeStore]
    ) -> None:
        other = reopen()
        stores = [store, other]
        store.commit_batch(put("s", 1, 0))

        def fire(writer: int) -> None:
            while True:
                row = stores[writer].schedule("s")
                assert row is not None
                if row.revision > 20:
                    return
                batch = put("s", row.revision + 1, row.revision)
                batch.outbox.append(outbox_record(f"s-{row.revision}"))
                try:
                    stores[writer].commit_batch(batch)
                except WorkflowConflict:
                    continue

        by_writers(2, fire)

        values = [stored.record.value for stored in store.outbox()]
        assert values == [f"s-{revision}".encode() for revision in range(1, 21)]
