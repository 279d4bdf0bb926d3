"""What every store does. Inherit `StoreContract` and give a `store` fixture; durable ones inherit `DurableContract` too."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import pytest

from afl.runtime.clock import ManualClock
from afl.runtime.entities import (
    HandledCount,
    HandlerRegistration,
    LockMetaData,
    LogDefinition,
    Parameter,
    RunnerDefinition,
    RunnerState,
    ServerDefinition,
    ServerState,
    TaskDefinition,
    TaskState,
    UserDefinition,
    WorkflowDefinition,
    WorkflowMetaData,
)
from afl.runtime.errors import ConcurrencyError, PositionLost, WorkflowConflict
from afl.runtime.persistence import (
    COMPLETED,
    PAUSED,
    RUNNING,
    Batch,
    ErrorRecord,
    EventDefinition,
    IterationChanges,
    OutboxRecord,
    ParkedRecord,
    PersistenceAPI,
    Position,
    PositionMove,
    StepDocument,
    Store,
    WorkflowChange,
    WorkflowRow,
)
from afl.runtime.states import EventState, StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import AttributeValue, ObjectType, StatementId, StepId, Value, WorkflowId

CONTROL_0 = Position("cluster", "afl.control", 0)


class WholeStore(Store, PersistenceAPI, Protocol):
    """Both faces of a store, and the methods that pollers, runners and tests use besides."""

    def get_all_steps(self) -> list[StepDefinition]: ...
    def step_count(self) -> int: ...
    def get_all_events(self) -> list[EventDefinition]: ...
    def event_count(self) -> int: ...
    def get_task(self, task_id: str) -> TaskDefinition | None: ...
    def get_server(self, server_id: str) -> ServerDefinition | None: ...
    def save_server(self, server: ServerDefinition) -> None: ...
    def update_server_ping(self, server_id: str, ping_ms: int) -> None: ...
    def get_all_servers(self) -> list[ServerDefinition]: ...


def step_document(
    step_id: str,
    *,
    number: int = 0,
    revision: int = 1,
    state: str = StepState.CREATED,
    params: dict[str, Value] | None = None,
    block_id: str | None = None,
    container_id: str | None = None,
    root_id: str | None = None,
) -> StepDocument:
    """A step's document; its workflow is what stands before the colon of its id."""
    return StepDocument(
        id=step_id,
        workflow_id=step_id.partition(":")[0],
        number=number,
        revision=revision,
        object_type=ObjectType.VARIABLE_ASSIGNMENT,
        state=state,
        statement_id="statement",
        facet_name="shop.Pay",
        container_id=container_id,
        container_type=None,
        block_id=block_id,
        root_id=root_id,
        params={} if params is None else params,
        returns={},
    )


def workflow_row(
    workflow_id: str,
    revision: int = 1,
    *,
    status: str = PAUSED,
    runnable: bool = False,
    name: str = "shop.Checkout",
    inputs: dict[str, Value] | None = None,
    lane: str = "",
    created_at_ms: int = 1_000,
) -> WorkflowRow:
    return WorkflowRow(
        id=workflow_id,
        revision=revision,
        program="fingerprint",
        name=name,
        status=status,
        runnable=runnable,
        inputs={} if inputs is None else inputs,
        lane=lane,
        created_at_ms=created_at_ms,
    )


def change(row: WorkflowRow, *steps: StepDocument) -> WorkflowChange:
    return WorkflowChange(workflow=row, expected_revision=row.revision - 1, steps=steps)


def start(store: Store, workflow_id: str, *steps: StepDocument) -> None:
    store.commit_batch(Batch(changes=[change(workflow_row(workflow_id), *steps)]))


def outbox_record(value: str, lane: str = "control/0") -> OutboxRecord:
    return OutboxRecord(lane, "afl.events.shop.Pay", b"key", value.encode())


def parked_record(parked_id: str, *, step_id: str = "w:s", expires_at_ms: int = 5_000, at_ms: int = 1) -> ParkedRecord:
    return ParkedRecord(
        id=parked_id,
        workflow_id=step_id.partition(":")[0],
        step_id=step_id,
        topic="afl.control",
        partition=3,
        offset=42,
        key=b"w",
        value=None,
        headers=(("ce_id", b"\xff\x00"), ("ce_id", b"")),
        parked_at_ms=at_ms,
        expires_at_ms=expires_at_ms,
    )


def task(
    task_id: str, *, name: str = "shop.Pay", step_id: str = "", created: int = 0, state: str = TaskState.PENDING
) -> TaskDefinition:
    return TaskDefinition(
        uuid=task_id,
        name=name,
        runner_id="runner",
        workflow_id="w",
        flow_id="flow",
        step_id=step_id,
        created=created,
        state=state,
        data={"amount": 3},
    )


def public_step(workflow_id: str = "by-hand", **fields: str) -> StepDefinition:
    step = StepDefinition.create(
        WorkflowId(workflow_id), ObjectType.VARIABLE_ASSIGNMENT, facet_name="shop.Pay", **fields  # type: ignore[arg-type]  # ids by keyword
    )
    step.set_attribute("order", {"lines": [1, 2]})
    return step


def runner(runner_id: str, state: str = RunnerState.RUNNING) -> RunnerDefinition:
    return RunnerDefinition(
        uuid=runner_id,
        workflow_id="w",
        workflow=WorkflowDefinition(
            "u", "Checkout", "ns", "facet", "flow", "step", "1", metadata=WorkflowMetaData(tags=["a"])
        ),
        parameters=[Parameter("amount", 3)],
        user=UserDefinition("ann@example.org"),
        state=state,
    )


class StoreContract:
    """What every store must do: the engine's face."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock(1_000_000)

    def test_a_commit_is_seen_by_the_next_read(self, store: WholeStore) -> None:
        steps = (step_document("w:a", number=0, params={"x": [1, {"y": None}]}), step_document("w:b", number=1))
        row = workflow_row("w", inputs={"amount": 3})

        store.commit_batch(Batch(changes=[change(row, *steps)]))

        assert store.load_workflow("w") == row
        assert store.load_steps("w") == list(steps)

    def test_every_field_of_a_workflow_and_a_step_comes_back(self, store: WholeStore) -> None:
        error = ErrorRecord("Declined", "no funds", "w:a", "shop.Checkout.pay", "shop.Pay", 7)
        row = WorkflowRow(
            id="w",
            revision=1,
            program="p",
            name="n",
            status=COMPLETED,
            runnable=True,
            inputs={"i": 1},
            outputs={"o": None},
            error=error,
            execution=2,
            runner_id="r",
            lane="control/3",
            steps=5,
            iterations=6,
            created_at_ms=7,
            updated_at_ms=8,
            ended_at_ms=9,
        )
        step = StepDocument(
            "w:a", "w", 4, 1, "VariableAssignment", "s", "st", "f", "w:c", "AndThen", "w:b", "w:r", {"p": 1},
            {"r": 2.5}, 3, EventState.CREATED, error, 5, "item", {"k": "v"}, 6, 7,
        )  # fmt: skip

        store.commit_batch(Batch(changes=[change(row, step)]))

        assert store.load_workflow("w") == row
        assert store.load_steps("w") == [step]

    def test_what_is_not_there_is_none_or_empty(self, store: WholeStore) -> None:
        assert store.load_workflow("w") is None
        assert store.load_steps("w") == []
        assert store.load_program("fingerprint") is None
        assert store.revisions(["w"]) == {}
        assert store.list_workflows() == []
        assert store.runnable_workflows() == []
        assert store.outbox() == []
        assert store.lanes() == []
        assert store.positions() == {}
        assert store.parked() == []

    def test_a_workflow_has_its_own_steps_only(self, store: WholeStore) -> None:
        for workflow_id in ("w", "w1", "w~", "v"):
            start(store, workflow_id, step_document(f"{workflow_id}:a"))

        assert [step.id for step in store.load_steps("w")] == ["w:a"]

    def test_steps_come_in_order_of_creation(self, store: WholeStore) -> None:
        start(store, "w", step_document("w:z", number=0), step_document("w:b", number=1), step_document("w:y", number=2))
        store.commit_batch(
            Batch(
                changes=[
                    change(
                        workflow_row("w", 2),
                        step_document("w:a", number=3, revision=2),
                        step_document("w:b", number=1, revision=2),
                    )
                ]
            )
        )

        assert [step.id for step in store.load_steps("w")] == ["w:z", "w:b", "w:y", "w:a"]

    def test_newer_than_leaves_out_what_the_reader_knows(self, store: WholeStore) -> None:
        start(store, "w", step_document("w:a", number=0), step_document("w:b", number=1))
        store.commit_batch(
            Batch(changes=[change(workflow_row("w", 2), step_document("w:b", number=1, revision=2, state="done"))])
        )

        assert [(step.id, step.state) for step in store.load_steps("w", newer_than=1)] == [("w:b", "done")]
        assert store.load_steps("w", newer_than=2) == []

    def test_steps_whose_ids_do_not_name_their_workflow_are_found_by_it(self, store: WholeStore) -> None:
        odd = step_document("odd")._replace(workflow_id="w", number=1)
        start(store, "w", step_document("w:a"), odd)
        changed = odd._replace(revision=2, state="done")
        store.commit_batch(Batch(changes=[change(workflow_row("w", 2), changed)]))

        assert store.load_steps("w") == [step_document("w:a"), changed]
        assert store.load_steps("w", newer_than=1) == [changed]

    def test_a_stale_revision_conflicts_and_names_all_who_lost(self, store: WholeStore) -> None:
        for workflow_id in ("w1", "w2", "w3"):
            start(store, workflow_id)
        store.commit_batch(Batch(changes=[change(workflow_row("w1", 2)), change(workflow_row("w3", 2))]))

        with pytest.raises(WorkflowConflict) as caught:
            store.commit_batch(
                Batch(
                    changes=[
                        change(workflow_row("w1", 2)),
                        change(workflow_row("w2", 2)),
                        change(workflow_row("w3", 2)),
                        change(workflow_row("w4", 2)),
                    ]
                )
            )

        assert list(caught.value.workflow_ids) == ["w1", "w3", "w4"]
        assert store.revisions(["w1", "w2", "w3", "w4"]) == {"w1": 2, "w2": 1, "w3": 2}

    def test_a_workflow_is_new_once(self, store: WholeStore) -> None:
        start(store, "w", step_document("w:a"))

        with pytest.raises(WorkflowConflict) as caught:
            start(store, "w", step_document("w:b"))

        assert list(caught.value.workflow_ids) == ["w"]
        assert [step.id for step in store.load_steps("w")] == ["w:a"]

    def test_a_confirm_holds_while_the_revision_does(self, store: WholeStore) -> None:
        start(store, "w")

        store.commit_batch(Batch(confirms={"w": 1, "unknown": 0}, outbox=[outbox_record("sent")]))

        assert len(store.outbox()) == 1

    @pytest.mark.parametrize("confirms", [{"w": 0}, {"w": 2}, {"unknown": 1}])
    def test_a_confirm_of_another_revision_refuses_the_batch(
        self, store: WholeStore, confirms: dict[str, int]
    ) -> None:
        start(store, "w")

        with pytest.raises(WorkflowConflict) as caught:
            store.commit_batch(Batch(changes=[change(workflow_row("v"))], confirms=confirms))

        assert list(caught.value.workflow_ids) == list(confirms)
        assert store.load_workflow("v") is None

    def test_a_workflow_can_be_changed_and_confirmed_at_once(self, store: WholeStore) -> None:
        start(store, "w")

        store.commit_batch(Batch(changes=[change(workflow_row("w", 2))], confirms={"w": 1}))

        assert store.revisions(["w"]) == {"w": 2}

    def test_changes_that_can_not_be_meant_are_refused(self, store: WholeStore) -> None:
        with pytest.raises(ValueError, match="once"):
            store.commit_batch(Batch(changes=[change(workflow_row("w")), change(workflow_row("w"))]))
        with pytest.raises(ValueError, match="revision 5 can't lead to 3"):
            store.commit_batch(Batch(changes=[WorkflowChange(workflow=workflow_row("w", 3), expected_revision=5)]))

        assert store.load_workflow("w") is None

    @pytest.mark.parametrize("refused_by", ["revision", "confirm", "position", "task"])
    def test_a_refused_batch_leaves_nothing_at_all(self, store: WholeStore, refused_by: str) -> None:
        start(store, "stale")
        store.save_task(task("running", step_id="busy", state=TaskState.RUNNING))
        store.commit_batch(
            Batch(
                outbox=[outbox_record("kept")],
                positions=[PositionMove(position=CONTROL_0, expected=None, next_offset=5)],
                parked=[parked_record("kept")],
            )
        )
        batch = Batch(
            changes=[change(workflow_row("w"), step_document("w:a"), step_document("odd"))],
            outbox=[outbox_record("new")],
            published=[(1, 100)],
            positions=[PositionMove(position=CONTROL_0, expected=5, next_offset=9)],
            parked=[parked_record("new")],
            unparked=["kept"],
            tasks=[task("new")],
            programs={"fingerprint": b"program"},
        )
        refused: type[Exception] = WorkflowConflict
        if refused_by == "revision":
            batch.changes.append(change(workflow_row("stale")))
        elif refused_by == "confirm":
            batch.confirms["stale"] = 7
        elif refused_by == "position":
            refused = PositionLost
            batch.positions.append(PositionMove(position=CONTROL_0, expected=5, next_offset=10))
        else:
            refused = ConcurrencyError
            batch.tasks.append(task("second", step_id="busy", state=TaskState.RUNNING))

        with pytest.raises(refused):
            store.commit_batch(batch)

        assert store.load_workflow("w") is None
        assert store.step_count() == 0
        assert store.revisions(["stale"]) == {"stale": 1}
        assert [stored.record.value for stored in store.outbox()] == [b"kept"]
        assert store.positions() == {CONTROL_0: 5}
        assert [record.id for record in store.parked()] == ["kept"]
        assert store.get_pending_tasks("default") == []
        assert store.load_program("fingerprint") is None

    def test_what_is_read_is_the_readers_own(self, store: WholeStore) -> None:
        store.commit_batch(
            Batch(
                changes=[
                    change(workflow_row("w", inputs={"list": [1]}), step_document("w:a", params={"list": [1]})),
                ]
            )
        )

        row = store.load_workflow("w")
        assert row is not None
        row.inputs["list"].append(2)  # type: ignore[union-attr]  # a list, as written
        step = store.get_step("w:a")
        assert step is not None
        step.attributes.params["list"].value.append(2)  # type: ignore[attr-defined]  # a list, as written
        step.attributes.params.clear()

        assert store.load_workflow("w") == workflow_row("w", inputs={"list": [1]})
        again = store.get_step("w:a")
        assert again is not None
        assert again.attributes.params == {"list": AttributeValue("list", [1])}

    def test_values_come_back_exactly(self, store: WholeStore) -> None:
        values: dict[str, Value] = {
            "big": 2**70,
            "small": -(2**63),
            "float": 1.0,
            "tiny": 5e-324,
            "infinite": float("inf"),
            "text": "日本語 \x00 \u2028 😀",
            "lone": "a\ud800b",
            "nested": [{"k": [None, True, ""]}],
        }
        start(store, "w", step_document("w:a", params=values))

        stored = store.load_steps("w")[0].params

        assert stored == values
        assert type(stored["float"]) is float

    def test_odd_identifiers_are_looked_for_without_a_crash(self, store: WholeStore) -> None:
        odd = "\ud800\x00'\""
        start(store, "w")

        assert store.load_workflow(odd) is None
        assert store.get_step(odd) is None
        assert store.revisions([odd, "w", "a\x00b"]) == {"w": 1}
        store.commit_batch(Batch(confirms={odd: 0}, parked=[parked_record(odd, step_id=odd)]))
        assert store.parked(step_id=odd) == [parked_record(odd, step_id=odd)]

    def test_outbox_records_are_appended_and_read_in_order(self, store: WholeStore) -> None:
        first = store.commit_batch(Batch(outbox=[outbox_record("a"), outbox_record("b")], now_ms=10))
        second = store.commit_batch(Batch(outbox=[outbox_record("c")], now_ms=20))

        assert second > first + 1
        assert [(stored.sequence, stored.created_at_ms, stored.record.value) for stored in store.outbox()] == [
            (first, 10, b"a"),
            (first + 1, 10, b"b"),
            (second, 20, b"c"),
        ]

    def test_an_outbox_record_comes_back_as_it_was(self, store: WholeStore) -> None:
        records = [
            OutboxRecord("lane", "topic", None, None),
            OutboxRecord("lane", "topic", b"", b"\x00\xff", (("h", b"\x80"), ("h", b""), ("ü", b"2"))),
        ]
        store.commit_batch(Batch(outbox=records))

        assert [stored.record for stored in store.outbox()] == records

    def test_a_batch_without_outbox_records_has_no_sequence(self, store: WholeStore) -> None:
        assert store.commit_batch(Batch()) == 0

    def test_the_outbox_is_read_by_lane_age_and_place(self, store: WholeStore) -> None:
        first = store.commit_batch(Batch(outbox=[outbox_record("a", "x"), outbox_record("b", "y")], now_ms=10))
        store.commit_batch(Batch(outbox=[outbox_record("c", "x")], now_ms=20))

        def values(**filters: object) -> list[bytes | None]:
            return [stored.record.value for stored in store.outbox(**filters)]  # type: ignore[arg-type]  # by name

        assert values(lane="x") == [b"a", b"c"]
        assert values(older_than_ms=20) == [b"a", b"b"]
        assert values(after=first) == [b"b", b"c"]
        assert values(limit=2) == [b"a", b"b"]
        assert values(lane="x", after=first, older_than_ms=20) == []
        assert store.lanes() == ["x", "y"]

    def test_published_ranges_go_and_their_numbers_never_come_again(self, store: WholeStore) -> None:
        first = store.commit_batch(Batch(outbox=[outbox_record(value) for value in "abcd"]))

        store.commit_batch(Batch(published=[(first, first), (first + 2, first + 3)]))
        assert [stored.record.value for stored in store.outbox()] == [b"b"]
        store.commit_batch(Batch(published=[(first, first + 3)]))
        assert store.outbox() == []

        assert store.commit_batch(Batch(outbox=[outbox_record("e")])) == first + 4

    def test_positions_move_from_where_they_are_expected(self, store: WholeStore) -> None:
        other = Position("cluster", "afl.control", 1)
        store.commit_batch(
            Batch(
                positions=[
                    PositionMove(position=CONTROL_0, expected=None, next_offset=5),
                    PositionMove(position=other, expected=None, next_offset=0),
                ]
            )
        )
        store.commit_batch(Batch(positions=[PositionMove(position=CONTROL_0, expected=5, next_offset=7)]))

        assert store.positions() == {CONTROL_0: 7, other: 0}

    @pytest.mark.parametrize("expected", [None, 4, 6])
    def test_a_position_that_was_moved_by_another_is_lost(self, store: WholeStore, expected: int | None) -> None:
        store.commit_batch(Batch(positions=[PositionMove(position=CONTROL_0, expected=None, next_offset=5)]))

        with pytest.raises(PositionLost) as caught:
            store.commit_batch(Batch(positions=[PositionMove(position=CONTROL_0, expected=expected, next_offset=9)]))

        assert (caught.value.expected, caught.value.found) == (expected, 5)
        assert store.positions() == {CONTROL_0: 5}

    def test_a_position_that_nobody_has_set_is_lost_to_who_expects_one(self, store: WholeStore) -> None:
        with pytest.raises(PositionLost) as caught:
            store.commit_batch(Batch(positions=[PositionMove(position=CONTROL_0, expected=3, next_offset=9)]))

        assert caught.value.found is None

    def test_parked_records_are_found_by_step_workflow_and_expiry(self, store: WholeStore) -> None:
        first = parked_record("t/0/1", step_id="w:a", expires_at_ms=100, at_ms=2)
        second = parked_record("t/0/2", step_id="w:b", expires_at_ms=200, at_ms=1)
        other = parked_record("t/0/3", step_id="v:a", expires_at_ms=300, at_ms=3)
        store.commit_batch(Batch(parked=[first, second, other]))

        assert store.parked() == [second, first, other]
        assert store.parked(step_id="w:a") == [first]
        assert store.parked(workflow_id="w") == [second, first]
        assert store.parked(expired_at_ms=200) == [second, first]
        assert store.parked(expired_at_ms=99) == []
        assert store.parked(limit=1) == [second]

    def test_a_record_parked_twice_stands_once_and_goes_once_unparked(self, store: WholeStore) -> None:
        store.commit_batch(Batch(parked=[parked_record("a"), parked_record("b")]))
        again = parked_record("a", expires_at_ms=9_000)

        store.commit_batch(Batch(parked=[again]))
        assert store.parked() == [again, parked_record("b")]
        store.commit_batch(Batch(unparked=["a", "unknown"]))

        assert store.parked() == [parked_record("b")]

    def test_programs_are_kept_once(self, store: WholeStore) -> None:
        store.commit_batch(Batch(programs={"f": b"first", "g": b""}))
        store.commit_batch(Batch(programs={"f": b"second"}))

        assert store.load_program("f") == b"first"
        assert store.load_program("g") == b""

    def test_workflows_are_listed_newest_first(self, store: WholeStore) -> None:
        rows = [
            workflow_row("a", created_at_ms=2, status=RUNNING),
            workflow_row("b", created_at_ms=3, name="other"),
            workflow_row("c", created_at_ms=1, status=RUNNING),
        ]
        store.commit_batch(Batch(changes=[change(row) for row in rows]))

        assert [row.id for row in store.list_workflows()] == ["b", "a", "c"]
        assert [row.id for row in store.list_workflows(limit=1)] == ["b"]
        assert [row.id for row in store.list_workflows(status=RUNNING)] == ["a", "c"]
        assert store.list_workflows(name="other") == [rows[1]]
        assert store.list_workflows(name="other", status=RUNNING) == []

    def test_runnable_workflows_are_listed_oldest_first_while_they_are(self, store: WholeStore) -> None:
        store.commit_batch(
            Batch(
                changes=[
                    change(workflow_row("a", runnable=True, created_at_ms=2)),
                    change(workflow_row("b", runnable=True, created_at_ms=1)),
                    change(workflow_row("c")),
                ]
            )
        )
        assert store.runnable_workflows() == ["b", "a"]
        assert store.runnable_workflows(limit=1) == ["b"]

        store.commit_batch(Batch(changes=[change(workflow_row("b", 2)), change(workflow_row("c", 2, runnable=True))]))

        assert store.runnable_workflows() == ["a", "c"]

    def test_a_new_execution_brings_its_own_inputs(self, store: WholeStore) -> None:
        store.commit_batch(Batch(changes=[change(workflow_row("w", inputs={"x": 1}))]))
        again = replace(workflow_row("w", 2, inputs={"x": 2}), execution=2)
        store.commit_batch(Batch(changes=[change(again)]))

        assert store.load_workflow("w") == again

    def test_a_batch_writes_its_tasks(self, store: WholeStore) -> None:
        store.commit_batch(Batch(tasks=[task("t", step_id="w:a")]))
        assert store.get_pending_tasks("default") == [task("t", step_id="w:a")]

        store.commit_batch(Batch(tasks=[task("t", step_id="w:a", state=TaskState.COMPLETED)]))

        assert store.get_task("t") == task("t", step_id="w:a", state=TaskState.COMPLETED)
        assert store.get_pending_tasks("default") == []

    def test_threads_that_race_for_one_revision_have_one_winner(self, store: WholeStore) -> None:
        start(store, "w")
        outcomes: list[str] = []

        def commit() -> None:
            try:
                store.commit_batch(Batch(changes=[change(workflow_row("w", 2))]))
                outcomes.append("won")
            except WorkflowConflict:
                outcomes.append("lost")

        in_threads(commit, 4)

        assert sorted(outcomes) == ["lost", "lost", "lost", "won"]
        assert store.revisions(["w"]) == {"w": 2}

    def test_the_prefix_is_told(self, store: WholeStore) -> None:
        assert store.prefix() == "afl."


class PublicFaceContract:
    """What every store must do: the users' face."""

    def test_it_is_a_persistence_api(self, store: WholeStore) -> None:
        assert isinstance(store, PersistenceAPI)
        assert not hasattr(store, "get_workflow")
        assert not hasattr(store, "get_flow")

    def test_a_saved_step_comes_back_equal_and_independent(self, store: WholeStore) -> None:
        step = public_step(statement_id="st", container_id="c", block_id="b", root_id="r")
        step.attributes.params["amount"] = AttributeValue("amount", 3, "Money")
        step.set_attribute("result", None, is_return=True)
        step.foreach_var, step.foreach_value, step.timestamp = "item", [1], 12
        step.change_state(StepState.EVENT_TRANSMIT)
        step.transition.set_push_me(True)
        expected = step.clone()

        store.save_step(step)
        step.attributes.params["order"].value["lines"].append(3)  # type: ignore[index]  # a map, as set

        assert store.get_step(step.id) == expected

    def test_attributes_given_as_documents_are_read_as_attributes(self, store: WholeStore) -> None:
        step = public_step()
        step.attributes.returns["x"] = {"name": "x", "value": 5, "type_hint": "Long"}  # type: ignore[assignment]  # the form of a document

        store.save_step(step)

        kept = store.get_step(step.id)
        assert kept is not None
        assert kept.attributes.returns["x"] == AttributeValue("x", 5, "Long")

    def test_a_failed_step_keeps_its_error(self, store: WholeStore) -> None:
        step = public_step()
        step.mark_error(ValueError("no funds"))
        store.save_step(step)

        kept = store.get_step(step.id)

        assert kept is not None
        assert kept.state == StepState.STATEMENT_ERROR
        assert isinstance(kept.transition.error, ValueError)
        assert str(kept.transition.error) == "no funds"

    def test_an_engine_steps_error_is_told_with_its_text(self, store: WholeStore) -> None:
        failed = step_document("w:a")._replace(error=ErrorRecord("Declined", "no funds", path="shop.Checkout.pay"))
        start(store, "w", failed)

        step = store.get_step("w:a")
        assert step is not None
        assert str(step.transition.error) == "no funds"
        store.save_step(step)

        assert store.load_steps("w")[0].error == failed.error

    def test_an_unknown_step_is_none(self, store: WholeStore) -> None:
        assert store.get_step("nobody") is None
        assert store.get_step("no:body") is None

    def test_steps_are_found_by_what_they_belong_to(self, store: WholeStore) -> None:
        root = public_step()
        call = public_step(container_id=root.id, root_id=root.id, block_id="block", statement_id="st")
        block = StepDefinition.create(
            WorkflowId("by-hand"), ObjectType.AND_THEN, container_id=StepId(root.id), root_id=StepId(root.id)
        )
        other = public_step("other", block_id="block")
        block.change_state(StepState.BLOCK_EXECUTION_BEGIN)
        for step in (root, call, block, other):
            store.save_step(step)

        assert ids(store.get_steps_by_workflow("by-hand")) == [root.id, call.id, block.id]
        assert sorted(ids(store.get_steps_by_block("block"))) == sorted([call.id, other.id])
        assert ids(store.get_steps_by_container(root.id)) == [call.id, block.id]
        assert ids(store.get_blocks_by_step(root.id)) == [block.id]
        assert ids(store.get_steps_by_state(StepState.BLOCK_EXECUTION_BEGIN)) == [block.id]
        assert store.get_workflow_root("by-hand") == root
        assert store.get_workflow_root("unknown") is None
        assert store.step_count() == 4
        assert sorted(ids(store.get_all_steps())) == sorted([root.id, call.id, block.id, other.id])
        assert store.step_exists("st", "block")
        assert not store.step_exists("st", "elsewhere")
        assert not store.step_exists("st", None)

    def test_the_engines_steps_are_found_by_what_they_belong_to(self, store: WholeStore) -> None:
        start(
            store,
            "w",
            step_document("w:root", number=0),
            step_document("w:block", number=1, container_id="w:root", root_id="w:root")._replace(
                object_type=ObjectType.AND_THEN
            ),
            step_document("w:a", number=2, block_id="w:block", container_id="w:root", root_id="w:root"),
        )
        by_hand = public_step("elsewhere", block_id="w:block")
        store.save_step(by_hand)

        assert sorted(ids(store.get_steps_by_block("w:block"))) == sorted(["w:a", by_hand.id])
        assert ids(store.get_steps_by_container("w:root")) == ["w:block", "w:a"]
        assert ids(store.get_blocks_by_step("w:root")) == ["w:block"]
        assert store.step_exists("statement", "w:block")
        root = store.get_workflow_root("w")
        assert root is not None
        assert root.id == "w:root"

    def test_saving_a_step_of_the_engines_bumps_its_workflow(self, store: WholeStore) -> None:
        waiting = step_document("w:a", number=3)._replace(
            event_state=EventState.CREATED, attempt=2, foreach_index=1, deadline_ms=9
        )
        start(store, "w", waiting)
        step = store.get_step("w:a")
        assert step is not None
        step.set_attribute("x", 1, is_return=True)

        store.save_step(step)

        assert store.revisions(["w"]) == {"w": 2}
        assert store.load_steps("w", newer_than=1) == [waiting._replace(revision=2, returns={"x": 1})]
        with pytest.raises(WorkflowConflict):
            store.commit_batch(Batch(changes=[change(workflow_row("w", 2))]))

    def test_a_step_added_to_an_engines_workflow_is_counted(self, store: WholeStore) -> None:
        store.commit_batch(Batch(changes=[change(replace(workflow_row("w"), steps=1), step_document("w:a"))]))
        added = public_step("w")

        store.save_step(added)

        row = store.load_workflow("w")
        assert row is not None
        assert (row.revision, row.steps) == (2, 2)
        assert [(step.id, step.number, step.revision) for step in store.load_steps("w")] == [
            ("w:a", 0, 1),
            (added.id, 1, 2),
        ]

    def test_what_was_only_true_of_a_saved_step_ends_with_the_engines_next_write(self, store: WholeStore) -> None:
        start(store, "w", step_document("w:a"))
        step = store.get_step("w:a")
        assert step is not None
        step.request_state_change()
        store.save_step(step)
        store.commit_batch(Batch(changes=[change(workflow_row("w", 3), step_document("w:a", revision=3))]))

        kept = store.get_step("w:a")

        assert kept is not None
        assert not kept.is_requesting_state_change

    def test_a_step_does_not_move_to_another_workflow(self, store: WholeStore) -> None:
        step = public_step()
        store.save_step(step)
        step.workflow_id = WorkflowId("other")

        with pytest.raises(ValueError, match="belongs to workflow by-hand"):
            store.save_step(step)

        assert ids(store.get_steps_by_workflow("by-hand")) == [step.id]
        assert store.get_steps_by_workflow("other") == []

    def test_changes_are_committed_together(self, store: WholeStore) -> None:
        start(store, "w", step_document("w:a"))
        known = store.get_step("w:a")
        assert known is not None
        known.change_state(StepState.EVENT_TRANSMIT)
        new = public_step("w")
        changes = IterationChanges()
        changes.add_created_step(new)
        changes.add_updated_step(known)
        changes.add_created_event(EventDefinition("e", new.id, "w", EventState.CREATED, "shop.Pay", {"x": [1]}))
        changes.add_created_task(task("t", step_id="w:a"))

        store.commit(changes)

        assert store.revisions(["w"]) == {"w": 2}
        assert ids(store.get_steps_by_workflow("w")) == ["w:a", new.id]
        assert ids(store.get_steps_by_state(StepState.EVENT_TRANSMIT)) == ["w:a"]
        assert store.get_event("e") == EventDefinition("e", new.id, "w", EventState.CREATED, "shop.Pay", {"x": [1]})
        assert store.get_task("t") == task("t", step_id="w:a")

    def test_changes_that_are_refused_leave_nothing(self, store: WholeStore) -> None:
        start(store, "w", step_document("w:a"))
        store.save_task(task("running", step_id="w:a", state=TaskState.RUNNING))
        step = public_step("w")
        changes = IterationChanges(
            created_steps=[step],
            created_events=[EventDefinition("e", step.id, "w", EventState.CREATED, "shop.Pay")],
            created_tasks=[task("t"), task("second", step_id="w:a", state=TaskState.RUNNING)],
        )

        with pytest.raises(ConcurrencyError):
            store.commit(changes)

        assert store.revisions(["w"]) == {"w": 1}
        assert store.step_count() == 1
        assert store.get_event("e") is None
        assert store.get_task("t") is None

    def test_an_engine_event_is_a_view_of_its_step(self, store: WholeStore) -> None:
        start(
            store,
            "w",
            step_document("w:a", params={"amount": 3})._replace(event_state=EventState.CREATED, attempt=2),
            step_document("w:b", number=1),
        )
        expected = EventDefinition("w:a#2", "w:a", "w", EventState.CREATED, "shop.Pay", {"amount": 3})

        assert store.get_event("w:a#2") == expected
        assert store.get_event("w:a#1") is None
        assert store.get_event("w:b#0") is None
        assert store.get_event("w:a") is None
        assert store.get_all_events() == [expected]
        assert store.event_count() == 1

    def test_an_engine_event_is_dispatched_once_its_record_left_the_outbox(self, store: WholeStore) -> None:
        waiting = step_document("w:a")._replace(event_state=EventState.CREATED, attempt=1)
        record = OutboxRecord("control/0", "afl.events.shop.Pay", b"w:a", b"event")
        row = workflow_row("w", lane="control/0")
        sequence = store.commit_batch(Batch(changes=[change(row, waiting)], outbox=[record]))
        assert event_state(store, "w:a#1") == EventState.CREATED
        assert [event.state for event in store.get_all_events()] == [EventState.CREATED]

        store.commit_batch(Batch(published=[(sequence, sequence)]))
        assert event_state(store, "w:a#1") == EventState.DISPATCHED
        assert [event.state for event in store.get_all_events()] == [EventState.DISPATCHED]

        answered = waiting._replace(event_state=EventState.COMPLETED, revision=2)
        store.commit_batch(Batch(changes=[change(replace(row, revision=2), answered)]))
        assert event_state(store, "w:a#1") == EventState.COMPLETED

    def test_saving_an_engine_event_changes_its_steps_event_state(self, store: WholeStore) -> None:
        waiting = step_document("w:a")._replace(event_state=EventState.CREATED, attempt=1)
        start(store, "w", waiting)
        event = store.get_event("w:a#1")
        assert event is not None
        event.state = EventState.PROCESSING

        store.save_event(event)

        assert event_state(store, "w:a#1") == EventState.PROCESSING
        assert store.load_steps("w", newer_than=1) == [waiting._replace(revision=2, event_state=EventState.PROCESSING)]
        assert store.event_count() == 1

    def test_saved_events_are_the_readers_own(self, store: WholeStore) -> None:
        event = EventDefinition("e", "s", "w", EventState.CREATED, "shop.Pay", {"list": [1]})
        store.save_event(event)
        event.payload["list"] = 2
        read = store.get_event("e")
        assert read is not None
        read.payload["list"].append(3)  # type: ignore[union-attr]  # a list, as saved

        kept = store.get_event("e")

        assert kept is not None
        assert kept.payload == {"list": [1]}
        assert store.get_event("unknown") is None

    def test_runners_are_kept_whole_and_found_by_state(self, store: WholeStore) -> None:
        store.save_runner(runner("r1"))
        store.save_runner(runner("r2", RunnerState.COMPLETED))
        store.save_runner(runner("r3"))

        assert store.get_runner("r1") == runner("r1")
        assert store.get_runner("r9") is None
        assert store.get_runners_by_state(RunnerState.RUNNING) == [runner("r1"), runner("r3")]
        store.save_runner(runner("r1", RunnerState.COMPLETED))
        assert store.get_runners_by_state(RunnerState.RUNNING) == [runner("r3")]

    def test_logs_come_by_runner_in_their_order(self, store: WholeStore) -> None:
        for log_id, order, runner_id in (("b", 2, "r"), ("a", 1, "r"), ("c", 0, "other")):
            store.save_log(LogDefinition(log_id, order, runner_id, message="日本語", details={"k": [1]}))

        assert [log.uuid for log in store.get_logs_by_runner("r")] == ["a", "b"]
        assert store.get_logs_by_runner("other")[0].details == {"k": [1]}

    def test_servers_are_kept_and_their_ping_is_updated(self, store: WholeStore) -> None:
        server = ServerDefinition("s", "group", "service", "name", handled=[HandledCount("shop.Pay", 3, 1)])
        store.save_server(server)

        store.update_server_ping("s", 77)
        store.update_server_ping("unknown", 77)

        assert store.get_server("s") == replace(server, ping_time=77)
        assert store.get_server("unknown") is None
        assert [found.uuid for found in store.get_all_servers()] == ["s"]
        store.save_server(replace(server, state=ServerState.SHUTDOWN))
        assert [found.state for found in store.get_all_servers()] == [ServerState.SHUTDOWN]

    def test_handler_registrations_are_kept_by_facet(self, store: WholeStore) -> None:
        first = HandlerRegistration("shop.Pay", "handlers.pay", requirements=["requests"], metadata={"k": {"v": 1}})
        store.save_handler_registration(first)
        store.save_handler_registration(HandlerRegistration("shop.Ship", "handlers.ship"))
        second = replace(first, version="2.0.0")
        store.save_handler_registration(second)

        assert store.get_handler_registration("shop.Pay") == second
        assert [found.facet_name for found in store.list_handler_registrations()] == ["shop.Pay", "shop.Ship"]
        assert store.delete_handler_registration("shop.Pay")
        assert not store.delete_handler_registration("shop.Pay")
        assert store.get_handler_registration("shop.Pay") is None

    def test_the_oldest_matching_task_is_claimed(self, store: WholeStore, clock: ManualClock) -> None:
        store.save_task(task("late", created=3))
        store.save_task(task("early", created=1))
        store.save_task(task("other", name="shop.Ship", created=0))
        store.save_task(replace(task("elsewhere", created=0), task_list_name="special"))

        claimed = store.claim_task(["shop.Pay", "shop.Refund"])

        assert claimed == replace(task("early", created=1), state=TaskState.RUNNING, updated=clock.now_ms())
        assert store.get_task("early") == claimed
        assert [pending.uuid for pending in store.get_pending_tasks("default")] == ["other", "late"]
        assert store.claim_task(["shop.Pay"], "special") is not None
        assert store.claim_task(["shop.Pay"], "special") is None
        assert store.claim_task([]) is None

    def test_tasks_of_one_age_are_claimed_in_order_of_arrival(self, store: WholeStore) -> None:
        for task_id in ("c", "a", "b"):
            store.save_task(task(task_id))
        store.save_task(task("c"))

        claimed = [store.claim_task(["shop.Pay"]) for _ in range(3)]

        assert [found.uuid for found in claimed if found is not None] == ["c", "a", "b"]

    def test_a_step_has_one_running_task(self, store: WholeStore) -> None:
        store.save_task(task("first", step_id="w:a", created=1))
        store.save_task(task("second", step_id="w:a", created=2))
        store.save_task(task("free", step_id="w:b", created=3))
        claimed = store.claim_task(["shop.Pay"])
        assert claimed is not None

        next_claimed = store.claim_task(["shop.Pay"])
        assert next_claimed is not None
        assert next_claimed.uuid == "free"
        assert store.claim_task(["shop.Pay"]) is None
        with pytest.raises(ConcurrencyError):
            store.save_task(task("second", step_id="w:a", state=TaskState.RUNNING))

        store.save_task(replace(claimed, state=TaskState.COMPLETED))
        third = store.claim_task(["shop.Pay"])
        assert third is not None
        assert third.uuid == "second"

    def test_tasks_without_a_step_run_side_by_side(self, store: WholeStore) -> None:
        store.save_task(task("a"))
        store.save_task(task("b"))

        assert store.claim_task(["shop.Pay"]) is not None
        assert store.claim_task(["shop.Pay"]) is not None

    def test_a_task_that_went_back_to_pending_is_claimed_again(self, store: WholeStore) -> None:
        store.save_task(task("a", step_id="w:a"))
        claimed = store.claim_task(["shop.Pay"])
        assert claimed is not None
        store.save_task(replace(claimed, state=TaskState.PENDING, name="shop.Refund"))

        assert store.claim_task(["shop.Pay"]) is None
        assert store.claim_task(["shop.Refund"]) is not None

    def test_a_batch_can_hand_a_steps_turn_from_one_task_to_the_next(self, store: WholeStore) -> None:
        store.save_task(task("first", step_id="w:a", state=TaskState.RUNNING))

        store.commit_batch(
            Batch(
                tasks=[
                    task("second", step_id="w:a", state=TaskState.RUNNING),
                    task("first", step_id="w:a", state=TaskState.COMPLETED),
                ]
            )
        )

        assert store.get_task("second") == task("second", step_id="w:a", state=TaskState.RUNNING)

    def test_threads_never_claim_the_same_task(self, store: WholeStore) -> None:
        for number in range(40):
            store.save_task(task(f"t{number}"))
        claimed: list[str] = []

        def claim_all() -> None:
            while (found := store.claim_task(["shop.Pay"])) is not None:
                claimed.append(found.uuid)

        in_threads(claim_all, 4)

        assert sorted(claimed) == sorted(f"t{number}" for number in range(40))

    def test_a_lock_is_held_until_it_expires(self, store: WholeStore, clock: ManualClock) -> None:
        meta = LockMetaData(topic="shop.Pay", step_id="w:a")
        assert store.acquire_lock("k", 100, meta)
        assert not store.acquire_lock("k", 100)
        assert store.acquire_lock("other", 100)
        lock = store.check_lock("k")
        assert lock is not None
        assert (lock.acquired_at, lock.expires_at, lock.meta) == (clock.now_ms(), clock.now_ms() + 100, meta)

        clock.advance(100)

        assert store.check_lock("k") is None
        assert store.acquire_lock("k", 100)

    def test_a_lock_is_extended_from_now_while_it_is_held(self, store: WholeStore, clock: ManualClock) -> None:
        store.acquire_lock("k", 100)
        clock.advance(50)

        assert store.extend_lock("k", 100)
        lock = store.check_lock("k")
        assert lock is not None
        assert lock.expires_at == clock.now_ms() + 100
        clock.advance(100)
        assert not store.extend_lock("k", 100)
        assert not store.extend_lock("unknown", 100)

    def test_a_released_lock_is_free(self, store: WholeStore) -> None:
        store.acquire_lock("k", 100)

        assert store.release_lock("k")
        assert not store.release_lock("k")
        assert store.acquire_lock("k", 100)

    def test_threads_that_race_for_a_lock_have_one_winner(self, store: WholeStore) -> None:
        outcomes: list[bool] = []

        in_threads(lambda: outcomes.append(store.acquire_lock("k", 100)), 4)

        assert sorted(outcomes) == [False, False, False, True]


def ids(steps: object) -> list[str]:
    """The ids of steps."""
    return [step.id for step in steps]  # type: ignore[attr-defined]  # any sequence of steps


def event_state(store: WholeStore, event_id: str) -> str:
    event = store.get_event(event_id)
    assert event is not None
    return event.state


def in_threads(work: Callable[[], object], count: int) -> None:
    """Do the same in some threads that start together; raise what the first of them raised."""
    together = threading.Barrier(count)
    raised: list[BaseException] = []

    def run() -> None:
        together.wait()
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # handed to the test's own thread
            raised.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


__all__ = ["PublicFaceContract", "StatementId", "StoreContract"]
