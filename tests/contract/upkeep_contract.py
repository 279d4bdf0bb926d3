"""The contract of every store with its checks and purges. Inherit, and give the fixtures `store` and `clock`."""

from __future__ import annotations

import pytest

from afl.core.clock import ManualClock
from afl.engine.errors import WorkflowConflict
from afl.engine.model.entities import LogDefinition, TaskState
from afl.engine.model.store import (
    COMPLETED,
    ERROR,
    PAUSED,
    RUNNING,
    Batch,
    HistoryKind,
    HistoryRow,
    OutboxRecord,
    TimerKind,
    TimerRow,
    WorkflowRow,
)
from afl.engine.model.tombstones import PURGED, PURGING, Tombstone, digest_of_inputs
from afl.engine.model.upkeep import Burial, Created, Ended
from afl.stores.maintenance.purge import Purge, tombstone_of
from afl.stores.public.persistence import EventDefinition
from afl_stream.embedded.transport import Crash, Faults
from tests.contract.store_rows import (
    WholeStore,
    change,
    in_threads,
    outbox_record,
    parked_record,
    public_step,
    start,
    step_document,
    task,
    workflow_row,
)

#: The steps of a purge, in order.
PURGE_POINTS = ("purge.chosen", "purge.buried", "purge.slice_deleted", "purge.finished")


def ended(workflow_id: str, *, created_at_ms: int = 10, ended_at_ms: int = 20, status: str = COMPLETED) -> WorkflowRow:
    row = workflow_row(workflow_id, status=status, inputs={"amount": 3}, created_at_ms=created_at_ms)
    return row._replace(ended_at_ms=ended_at_ms)


def a_purged_workflow(store: WholeStore, workflow_id: str = "w", steps: int = 3) -> WorkflowRow:
    """Return a workflow that has ended, with something in every table."""
    row = ended(workflow_id)._replace(steps=steps)
    documents = [step_document(f"{workflow_id}:{number}", number=number) for number in range(steps)]
    batch = Batch(
        changes=[change(row, *documents)],
        tasks=[task(f"{workflow_id}:0#1", step_id=f"{workflow_id}:0", state=TaskState.COMPLETED)],
        logs=[LogDefinition(f"{workflow_id}:0/log", 1, runner_id=workflow_id)],
        timers=[TimerRow(f"{workflow_id}:0", workflow_id, TimerKind.SLEEP, 5)],
        history=[HistoryRow(workflow_id, n, HistoryKind.EXTERNAL_EVENT, 1, 5, is_pending=n > 0) for n in range(3)],
        parked=[parked_record(f"of {workflow_id}", step_id=f"{workflow_id}:0")],
    )
    store.commit_batch(batch)
    store.save_event(EventDefinition(f"event of {workflow_id}", "gone", workflow_id, "event.Created", "shop.Pay"))
    return row


def bury(store: WholeStore, *rows: WorkflowRow) -> list[str]:
    """Bury workflows, and delete none of their other rows."""
    return store.bury([Burial(tombstone_of(row, 99), row.revision, row.steps) for row in rows], limit=0)


def what_is_there(store: WholeStore, workflow_id: str) -> list[object]:
    """All that a store has of a workflow, but for its row and its tombstone."""
    return [
        *store.load_steps(workflow_id),
        *(found for found in [store.get_task(f"{workflow_id}:0#1")] if found is not None),
        *store.get_logs_by_runner(workflow_id),
        *store.timers_of(workflow_id),
        *store.history(workflow_id),
        *store.parked(workflow_id=workflow_id),
        *(found for found in [store.get_event(f"event of {workflow_id}")] if found is not None),
    ]


class UpkeepContract:
    """Lists in pages, tombstones, and rows that go."""

    def test_workflows_are_listed_by_id_in_pages(self, store: WholeStore) -> None:
        for workflow_id in ("c", "a", "b", "d"):
            start(store, workflow_id)

        assert store.workflow_ids(limit=3) == ["a", "b", "c"]
        assert store.workflow_ids(after="c", limit=3) == ["d"]
        assert store.workflow_ids(after="d") == []

    def test_orphans_are_the_workflows_that_have_steps_and_no_row(self, store: WholeStore) -> None:
        start(store, "w", step_document("w:a"))
        store.save_step(public_step("by-hand"))

        assert store.orphans() == ["by-hand"]

    def test_timers_and_histories_without_a_row_make_orphans_too_but_events_before_the_start_do_not(
        self, store: WholeStore
    ) -> None:
        early = HistoryRow("early", 0, HistoryKind.EXTERNAL_EVENT, 1, 5, is_pending=True, expires_at_ms=9)
        start(store, "w")
        rows = [early, early._replace(workflow_id="late", expires_at_ms=0), early._replace(workflow_id="w")]
        timers = [TimerRow("timed:a", "timed", TimerKind.SLEEP, 5), TimerRow("w:a", "w", TimerKind.SLEEP, 5)]
        store.commit_batch(Batch(history=rows, timers=timers))
        store.commit_batch(Batch(history=[early._replace(number=1, is_pending=False, workflow_id="dropped")]))

        assert store.orphans() == ["dropped", "late", "timed"]
        assert store.orphans(limit=1) == ["dropped"]

    def test_steps_are_examined_in_order_and_one_by_one(self, store: WholeStore) -> None:
        documents = [step_document("w:b", number=0), step_document("w:a", number=1)]
        start(store, "w", *documents)

        assert [entry.document for entry in store.examine_steps("w")] == documents
        assert all(entry.error is None for entry in store.examine_steps("w"))
        found = store.examine_step("w:a")
        assert found is not None
        assert found.document == documents[1]
        assert store.examine_step("w:c") is None
        assert store.examine_steps("v") == []

    def test_entities_are_examined_by_key_in_pages(self, store: WholeStore) -> None:
        for name in ("b", "c", "a"):
            store.save_task(task(name))
        kind = type(task("a"))

        first = store.examine(kind, limit=2)

        assert [entry.key for entry in first] == ["a", "b"]
        assert first[0].entity == task("a")
        assert [entry.key for entry in store.examine(kind, after="b")] == ["c"]

    def test_ended_workflows_are_listed_by_creation_in_pages(self, store: WholeStore) -> None:
        rows = [
            ended("x", created_at_ms=30),
            ended("b", created_at_ms=20, status=ERROR),
            ended("a", created_at_ms=20),
            workflow_row("running", status=PAUSED, created_at_ms=10),
            ended("late", created_at_ms=50),
        ]
        store.commit_batch(Batch(changes=[change(row) for row in rows]))

        first = store.ended_workflows(created_before_ms=50, limit=2)

        assert first == [Ended(20, "a"), Ended(20, "b")]
        assert store.ended_workflows(created_before_ms=50, after=first[-1]) == [Ended(30, "x")]

    def test_workflows_that_have_not_ended_are_listed_by_creation_in_pages(self, store: WholeStore) -> None:
        rows = [
            ended("x", created_at_ms=30),
            workflow_row("b", status=RUNNING, created_at_ms=20),
            workflow_row("a", status=PAUSED, created_at_ms=20),
            workflow_row("y", status=RUNNING, created_at_ms=40),
            workflow_row("late", status=RUNNING, created_at_ms=50),
        ]
        store.commit_batch(Batch(changes=[change(row) for row in rows]))

        first = store.unfinished_workflows(created_before_ms=50, limit=2)

        assert first == [Created(20, "a"), Created(20, "b")]
        assert store.unfinished_workflows(created_before_ms=50, after=first[0], limit=1) == first[1:]
        assert store.unfinished_workflows(created_before_ms=50, after=first[-1]) == [Created(40, "y")]

    def test_a_buried_workflow_has_a_tombstone_and_no_row(self, store: WholeStore) -> None:
        row = a_purged_workflow(store)
        stone = tombstone_of(row, 99)

        assert store.bury([Burial(stone, row.revision, row.steps)], limit=3) == [PURGING]

        assert store.load_workflow("w") is None
        assert store.revisions(["w"]) == {}
        assert store.list_workflows() == []
        assert store.tombstone("w") == stone
        assert stone == Tombstone(
            workflow_id="w",
            name="shop.Checkout",
            program="fingerprint",
            inputs_digest=digest_of_inputs({"amount": 3}),
            status=COMPLETED,
            created_at_ms=10,
            ended_at_ms=20,
            purged_at_ms=99,
            state=PURGING,
        )

    def test_a_workflow_that_has_changed_since_is_not_buried(self, store: WholeStore) -> None:
        row = a_purged_workflow(store)
        store.commit_batch(Batch(changes=[change(row._replace(revision=2, status=PAUSED))]))

        assert bury(store, row) == [""]

        assert store.tombstone("w") is None
        assert store.revisions(["w"]) == {"w": 2}

    def test_of_a_batch_only_those_that_are_as_they_were_read_are_buried(self, store: WholeStore) -> None:
        rows = [a_purged_workflow(store, name) for name in ("a", "b", "c")]
        store.commit_batch(Batch(changes=[change(rows[1]._replace(revision=2, status=PAUSED))]))

        assert bury(store, *rows) == [PURGING, "", PURGING]

        assert store.workflow_ids() == ["b"]
        assert [stone.workflow_id for stone in store.tombstones(state=PURGING)] == ["a", "c"]
        assert len(what_is_there(store, "b")) == 11

    def test_a_burial_deletes_no_more_rows_than_it_may_and_says_of_which_workflows_some_are_left(
        self, store: WholeStore
    ) -> None:
        rows = [a_purged_workflow(store, name) for name in ("a", "b", "c")]

        states = store.bury([Burial(tombstone_of(row, 99), row.revision, row.steps) for row in rows], limit=15)

        left = {name: len(what_is_there(store, name)) for name in ("a", "b", "c")}
        assert sum(left.values()) >= 33 - 15
        assert all((left[name] == 0) == (state == PURGED) for name, state in zip(left, states, strict=True))
        assert [stone.workflow_id for stone in store.tombstones(state=PURGED)] == [n for n in left if not left[n]]

    def test_rows_of_several_workflows_are_deleted_together(self, store: WholeStore) -> None:
        bury(store, a_purged_workflow(store, "a"), a_purged_workflow(store, "b"))
        others = what_is_there(store, a_purged_workflow(store, "c").id)

        assert [store.delete_rows(["a", "b", "c"], limit=12) for _ in range(3)] == [12, 10, 0]

        assert (what_is_there(store, "a"), what_is_there(store, "b")) == ([], [])
        assert what_is_there(store, "c") == others

    def test_tombstones_are_marked_and_others_stay(self, store: WholeStore) -> None:
        bury(store, a_purged_workflow(store, "a"), a_purged_workflow(store, "b"))

        store.mark_purged(["a", "nobody"])

        assert [stone.workflow_id for stone in store.tombstones(state=PURGED)] == ["a"]
        assert [stone.workflow_id for stone in store.tombstones(state=PURGING)] == ["b"]

    def test_several_workflows_are_loaded_together(self, store: WholeStore) -> None:
        rows = [ended(f"w{number}") for number in range(250)]
        store.commit_batch(Batch(changes=[change(row) for row in rows]))

        found = store.load_workflows([*(row.id for row in rows), "nobody"])

        assert sorted(found) == sorted(rows)
        assert store.load_workflows([]) == []

    def test_keys_of_waiting_records_are_found(self, store: WholeStore) -> None:
        keyless = OutboxRecord("control/0", "afl.lifecycle", None, b"ended")
        store.commit_batch(Batch(outbox=[outbox_record("a"), keyless, outbox_record("b")]))

        assert store.waiting_keys() == {b"key"}

    def test_a_workflow_that_was_never_there_is_not_buried(self, store: WholeStore) -> None:
        assert bury(store, ended("w")) == [""]
        assert store.tombstone("w") is None

    def test_a_commit_on_a_buried_workflow_conflicts(self, store: WholeStore) -> None:
        row = a_purged_workflow(store)
        bury(store, row)

        with pytest.raises(WorkflowConflict):
            store.commit_batch(Batch(changes=[change(row._replace(revision=2))]))
        with pytest.raises(WorkflowConflict):
            store.commit_batch(Batch(confirms={"w": 1}))

        assert store.load_workflow("w") is None

    def test_rows_are_deleted_in_slices_until_nothing_is_left(self, store: WholeStore) -> None:
        row = a_purged_workflow(store, steps=3)
        a_purged_workflow(store, "w1")
        others = what_is_there(store, "w1")
        bury(store, row)

        # Three steps, a timer, three rows of the history, a task, a log entry, a parked answer and an event.
        assert [store.delete_rows(["w"], limit=3) for _ in range(5)] == [3, 3, 3, 2, 0]

        assert what_is_there(store, "w") == []
        assert what_is_there(store, "w1") == others
        assert store.orphans() == []

    def test_rows_of_a_workflow_that_is_there_stay(self, store: WholeStore) -> None:
        a_purged_workflow(store)
        before = what_is_there(store, "w")

        assert store.delete_rows(["w"], limit=10) == 0

        assert what_is_there(store, "w") == before

    def test_steps_with_ids_of_their_own_go_with_their_workflow(self, store: WholeStore) -> None:
        odd = step_document("odd")._replace(workflow_id="w", number=1)
        row = ended("w")
        store.commit_batch(Batch(changes=[change(row, step_document("w:a"), odd)]))
        bury(store, row)

        while store.delete_rows(["w"], limit=1):
            pass

        assert store.step_count() == 0

    def test_tombstones_are_found_by_state_and_age(self, store: WholeStore) -> None:
        for name, state, purged_at_ms in (("c", PURGED, 30), ("a", PURGED, 10), ("b", PURGING, 20), ("d", PURGED, 20)):
            stone = tombstone_of(ended(name), purged_at_ms)
            stone.state = state
            store.save_tombstone(stone)

        def found(state: str, before_ms: int | None = None, limit: int = 10) -> list[str]:
            return [s.workflow_id for s in store.tombstones(state=state, purged_before_ms=before_ms, limit=limit)]

        assert found(PURGED) == ["a", "d", "c"]
        assert found(PURGED, 30) == ["a", "d"]
        assert found(PURGED, limit=1) == ["a"]
        assert found(PURGING) == ["b"]
        assert store.delete_tombstones(["a", "nobody"]) == 1
        assert store.delete_tombstones(["a"]) == 0
        assert found(PURGED) == ["d", "c"]


class PurgeContract:
    """A purge on every store, and what a crash in it leaves."""

    def test_a_purge_takes_all_of_a_workflow_and_leaves_a_tombstone(
        self, store: WholeStore, clock: ManualClock
    ) -> None:
        row = a_purged_workflow(store, steps=10)

        assert Purge(store, clock, rows_per_slice=3).purge(row, ())

        stone = store.tombstone("w")
        assert stone is not None
        assert (stone.state, stone.purged_at_ms) == (PURGED, clock.now_ms())
        assert what_is_there(store, "w") == []

    def test_a_batch_is_purged_but_for_those_that_are_kept(self, store: WholeStore, clock: ManualClock) -> None:
        rows = [a_purged_workflow(store, f"w{number}") for number in range(5)]
        rows[1] = rows[1]._replace(revision=7)
        rows.append(workflow_row("open", status=PAUSED))

        purged = Purge(store, clock, rows_per_slice=20).purge_all(rows, waiting={"w3"})

        assert purged == ["w0", "w2", "w4"]
        assert [stone.workflow_id for stone in store.tombstones(state=PURGED)] == purged
        assert store.tombstones(state=PURGING) == []
        assert [len(what_is_there(store, row.id)) for row in rows[:5]] == [0, 11, 0, 11, 0]

    def test_what_has_not_ended_is_kept(self, store: WholeStore, clock: ManualClock) -> None:
        row = workflow_row("w", status=PAUSED)
        store.commit_batch(Batch(changes=[change(row, step_document("w:a"))]))

        assert not Purge(store, clock).purge(row, ())
        assert store.load_workflow("w") == row

    def test_a_workflow_whose_records_wait_in_the_outbox_is_kept(self, store: WholeStore, clock: ManualClock) -> None:
        row = a_purged_workflow(store)
        record = OutboxRecord("control/0", "afl.lifecycle", b"w", b"ended")
        of_step = OutboxRecord("control/0", "afl.events.shop.Pay", b"v:a", b"event")
        store.commit_batch(Batch(outbox=[record, of_step, outbox_record("other")]))
        purge = Purge(store, clock)

        assert purge.waiting() == {"w", "v", "key"}
        assert not purge.purge(row, purge.waiting())
        assert store.load_workflow("w") == row

    def test_only_what_ended_long_enough_ago_is_due(self, store: WholeStore, clock: ManualClock) -> None:
        rows = [
            ended("old", created_at_ms=10, ended_at_ms=20),
            ended("long", created_at_ms=10, ended_at_ms=100),
            ended("new", created_at_ms=100, ended_at_ms=120),
            workflow_row("open", status=PAUSED, created_at_ms=5),
        ]
        store.commit_batch(Batch(changes=[change(row) for row in rows]))

        assert [row.id for row in Purge(store, clock).due(100)] == ["old"]
        assert [row.id for row in Purge(store, clock).due(101)] == ["long", "old"]
        assert [row.id for row in Purge(store, clock).due(101, wanted=lambda found: found == "old")] == ["old"]

    @pytest.mark.parametrize("passes", [0, 1, 2])
    @pytest.mark.parametrize("point", PURGE_POINTS)
    def test_a_purge_that_was_killed_is_finished_by_the_next(
        self, store: WholeStore, clock: ManualClock, point: str, passes: int
    ) -> None:
        row = a_purged_workflow(store, steps=8)
        other = a_purged_workflow(store, "v")
        faults = Faults()
        faults.fail_at(point, passes=passes if point == "purge.slice_deleted" else 0)

        with pytest.raises(Crash):
            Purge(store, clock, rows_per_slice=4, probe=faults.probe).purge(row, ())
        clock.advance(5)
        purge = Purge(store, clock, rows_per_slice=4)
        purge.finish_begun()
        left = [found for found in purge.due(1_000) if found.id == "w"]

        assert (left == [row]) == (point == "purge.chosen")
        assert all(purge.purge(found, ()) for found in left)
        stone = store.tombstone("w")
        assert stone is not None
        assert stone.state == PURGED
        assert what_is_there(store, "w") == []
        assert store.load_workflow("v") == other
        assert len(what_is_there(store, "v")) == 11

    def test_purges_at_the_same_time_do_each_workflow_once(self, store: WholeStore, clock: ManualClock) -> None:
        rows = [a_purged_workflow(store, f"w{number}", steps=5) for number in range(8)]
        done: list[str] = []

        def purge_all() -> None:
            purge = Purge(store, clock, rows_per_slice=2)
            done.extend(row.id for row in rows if purge.purge(row, ()))
            purge.finish_begun()

        in_threads(purge_all, 3)

        assert sorted(done) == [row.id for row in rows]
        assert store.orphans() == []
        assert store.tombstones(state=PURGING) == []

    def test_a_tombstone_is_forgotten_when_its_time_has_come(self, store: WholeStore, clock: ManualClock) -> None:
        purge = Purge(store, clock)
        for name in ("a", "b"):
            purge.purge(a_purged_workflow(store, name), ())
            clock.advance(10)

        assert purge.forget(clock.now_ms() - 10) == 1
        assert (store.tombstone("a"), store.tombstone("b") is None) == (None, False)

    def test_the_id_of_a_forgotten_workflow_is_free(self, store: WholeStore, clock: ManualClock) -> None:
        purge = Purge(store, clock)
        purge.purge(a_purged_workflow(store), ())
        clock.advance(1)
        purge.forget(clock.now_ms())

        start(store, "w", step_document("w:new"))

        assert [step.id for step in store.load_steps("w")] == ["w:new"]
        assert store.revisions(["w"]) == {"w": 1}
