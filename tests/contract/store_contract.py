"""The engine's contract with every store. Inherit, and give a `store` fixture; durable stores give `reopen` too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from afl.core.clock import ManualClock
from afl.core.values import ValueRefused
from afl.engine.errors import ConcurrencyError, PositionLost, WorkflowConflict
from afl.engine.model.entities import LogDefinition, TaskState
from afl.engine.model.store import (
    COMPLETED,
    RUNNING,
    Batch,
    ErrorRecord,
    OutboxRecord,
    Position,
    PositionMove,
    StepDocument,
    WorkflowChange,
    WorkflowRow,
)
from afl.engine.states import EventState, StepState
from afl.engine.types import AttributeValue, Value
from afl.stores.public.persistence import EventDefinition, IterationChanges
from tests.bad_values import NOT_KEPT, BadValue, nested
from tests.contract.changes_contract import ChangesContract
from tests.contract.store_rows import (
    CONTROL_0,
    WholeStore,
    change,
    in_threads,
    outbox_record,
    parked_record,
    public_step,
    runner,
    start,
    step_document,
    task,
    workflow_row,
)


class StoreContract(ChangesContract):
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

    def test_the_open_steps_of_a_run_are_read_alone_and_each_complete_one_by_its_id(self, store: WholeStore) -> None:
        complete = [
            step_document(f"w:{name}", number=number, state=StepState.STATEMENT_COMPLETE, params={"x": name})
            for number, name in enumerate("abc")
        ]
        waiting = step_document("w:d", number=3, state=StepState.EVENT_TRANSMIT)
        failed = step_document("w:e", number=4, state=StepState.STATEMENT_ERROR)
        start(store, "w", *complete[:2], waiting, failed, complete[2]._replace(state=StepState.CREATED))
        start(store, "w1", step_document("w1:a", state=StepState.STATEMENT_COMPLETE))
        store.commit_batch(Batch(changes=[change(workflow_row("w", 2), complete[2]._replace(revision=2))]))

        found = store.load_open("w")

        if found is None:
            assert len(store.load_run("w")) == 5, "this store reads them all together"
            return
        assert sorted(found.steps) == sorted([waiting, failed])
        assert (found.complete, found.newest) == (3, 2)
        # Three texts of one letter, at least.
        assert found.size >= 3
        assert found.read("w:b") == complete[1]
        assert found.read("w:c") == complete[2]._replace(revision=2)

    def test_a_step_is_read_by_its_id(self, store: WholeStore) -> None:
        step = step_document("w:a", params={"x": 1})
        start(store, "w", step, step_document("w:b", number=1))
        start(store, "w1", step_document("w1:a"))
        done = step._replace(revision=2, state=StepState.STATEMENT_COMPLETE, returns={"y": 2})

        assert store.load_step("w:a") == step
        store.commit_batch(Batch(changes=[change(workflow_row("w", 2), done)]))
        assert store.load_step("w:a") == done
        assert store.load_step("w:c") is None
        assert store.load_step("unknown:a") is None
        assert store.load_step("a") is None

    def test_a_run_without_complete_steps_has_none_left_out(self, store: WholeStore) -> None:
        step = step_document("w:a")
        start(store, "w", step)

        found = store.load_open("w")

        assert found is None or found[:4] == ([step], 0, 0, 0)

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
        start(
            store, "w", step_document("w:z", number=0), step_document("w:b", number=1), step_document("w:y", number=2)
        )
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

    def test_the_steps_of_a_state_are_found_without_the_others(self, store: WholeStore) -> None:
        steps = [
            step_document(step_id, number=number, state=state)._replace(workflow_id="w")
            for number, (step_id, state) in enumerate([("w:z", "waits"), ("w:b", "done"), ("odd", "waits")])
        ]
        start(store, "w", *steps)

        assert [step.id for step in store.load_steps("w", state="waits")] == ["w:z", "odd"]
        assert [step.id for step in store.load_steps("w", state="done")] == ["w:b"]
        assert store.load_steps("w", state="gone") == []

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
    def test_a_confirm_of_another_revision_refuses_the_batch(self, store: WholeStore, confirms: dict[str, int]) -> None:
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
            "text": "日本語 \x00 \u2028 😀",
            "nested": [{"k": [None, True, ""]}],
        }
        start(store, "w", step_document("w:a", params=values))

        stored = store.load_steps("w")[0].params

        assert stored == values
        assert type(stored["float"]) is float

    @pytest.mark.parametrize("bad", NOT_KEPT, ids=lambda bad: bad.name)
    def test_what_is_no_value_is_refused_with_its_place_and_nothing_is_written(
        self, store: WholeStore, bad: BadValue
    ) -> None:
        start(store, "w")
        params: dict[str, Any] = {"items": [0, bad.make()]}
        step = public_step()
        step.attributes.set_param("items", [0, bad.make()])
        row = workflow_row("v", inputs=params)
        writes: list[tuple[str, Callable[[], object]]] = [
            ("step w:a, params", lambda: start(store, "v", step_document("w:a", params=params))),
            ("step w:a, returns", lambda: start(store, "v", step_document("w:a")._replace(returns=params))),
            ("workflow v, inputs", lambda: store.commit_batch(Batch(changes=[change(row)]))),
            (f"step {step.id}, params", lambda: store.save_step(step)),
            ("TaskDefinition.data", lambda: store.save_task(replace(task("t"), data=params))),
            ("TaskDefinition.data", lambda: store.commit_batch(Batch(tasks=[replace(task("t"), data=params)]))),
            (
                "EventDefinition.payload",
                lambda: store.save_event(EventDefinition("e", "s", "v", EventState.CREATED, "shop.Pay", params)),
            ),
        ]

        for path, write in writes:
            with pytest.raises(ValueRefused) as refused:
                write()
            assert refused.value.path.startswith(f"{path}.items[1]"), refused.value.path
            assert bad.found in str(refused.value)
        assert store.load_workflow("v") is None
        assert store.get_step(step.id) is None
        assert store.get_task("t") is None
        assert store.get_event("e") is None

    def test_a_tasks_values_are_each_as_deep_as_values_may_be(self, store: WholeStore) -> None:
        payload: dict[str, object] = {"order": nested(100)}
        request: dict[str, object] = {"workflow_name": "shop.Buy", "inputs": {"order": nested(100)}}

        for name, data in (("payload", payload), ("request", request)):
            store.commit_batch(Batch(tasks=[replace(task(name), data=data)]))
            kept = store.get_task(name)
            assert kept is not None
            assert kept.data == data
            store.save_task(kept)

        with pytest.raises(ValueRefused, match=r"^TaskDefinition\.data\.inputs\.order\["):
            store.save_task(replace(task("t"), data={"workflow_name": "shop.Buy", "inputs": {"order": nested(101)}}))

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
            OutboxRecord("lane", "topic", b"", b"\x00\xff", b'{"of": "its writer", "\xff": []}'),
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
        assert values(older_than_ms=10, newer_than_ms=10) == [b"c"]
        assert values(older_than_ms=20, newer_than_ms=20) == [b"a", b"b"]
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

    def test_a_topic_made_again_has_a_position_of_its_own(self, store: WholeStore) -> None:
        first, second = CONTROL_0._replace(topic_id="t1"), CONTROL_0._replace(topic_id="t2")
        for place, next_offset in ((CONTROL_0, 1), (first, 2), (second, 3)):
            store.commit_batch(Batch(positions=[PositionMove(position=place, expected=None, next_offset=next_offset)]))

        assert store.positions() == {CONTROL_0: 1, first: 2, second: 3}

    def test_a_position_takes_over_from_the_one_that_it_replaces(self, store: WholeStore) -> None:
        known = CONTROL_0._replace(topic_id="t1")
        store.commit_batch(Batch(positions=[PositionMove(position=CONTROL_0, expected=None, next_offset=5)]))

        store.commit_batch(
            Batch(positions=[PositionMove(position=known, expected=5, next_offset=7, replaces=CONTROL_0)])
        )

        assert store.positions() == {known: 7}

    @pytest.mark.parametrize(("expected", "found"), [(4, 5), (5, 9)], ids=["moved", "taken over already"])
    def test_what_another_was_faster_with_is_not_replaced(self, store: WholeStore, expected: int, found: int) -> None:
        known = CONTROL_0._replace(topic_id="t1")
        before = {CONTROL_0: 5} if found == 5 else {CONTROL_0: 5, known: 9}
        store.commit_batch(
            Batch(positions=[PositionMove(position=p, expected=None, next_offset=n) for p, n in before.items()])
        )

        with pytest.raises(PositionLost) as caught:
            store.commit_batch(
                Batch(positions=[PositionMove(position=known, expected=expected, next_offset=7, replaces=CONTROL_0)])
            )

        assert (caught.value.expected, caught.value.found) == (expected, found)
        assert store.positions() == before

    def test_parked_records_are_found_by_id_step_workflow_and_expiry(self, store: WholeStore) -> None:
        first = parked_record("t/0/1", step_id="w:a", expires_at_ms=100, at_ms=2)
        second = parked_record("t/0/2", step_id="w:b", expires_at_ms=200, at_ms=1)
        other = parked_record("t/0/3", step_id="v:a", expires_at_ms=300, at_ms=3)
        store.commit_batch(Batch(parked=[first, second, other]))

        assert store.parked() == [second, first, other]
        assert store.parked(step_id="w:a") == [first]
        assert store.parked(workflow_id="w") == [second, first]
        assert store.parked(ids=["t/0/3", "t/0/2", "t/9/9"]) == [second, other]
        assert store.parked(ids=[]) == []
        assert store.parked(limit=1) == [second]
        assert [head.id for head in store.parked_heads()] == [second.id, first.id, other.id]
        assert [head.id for head in store.parked_heads(limit=2)] == [second.id, first.id]
        assert [head.id for head in store.parked_heads(expired_at_ms=200)] == [second.id, first.id]
        assert store.parked_heads(expired_at_ms=99) == []

    def test_heads_of_parked_records_tell_all_but_what_came(self, store: WholeStore) -> None:
        record = parked_record("t/0/1", step_id="w:a", expires_at_ms=100, at_ms=2)
        store.commit_batch(Batch(parked=[replace(record, value=b"x" * 10_000)]))

        (head,) = store.parked_heads()

        assert head[:3] == ("t/0/1", "w", "w:a")
        assert (head.parked_at_ms, head.expires_at_ms) == (2, 100)
        assert 10_000 <= head.size_bytes <= 10_200

    def test_many_parked_records_are_found_by_their_ids(self, store: WholeStore) -> None:
        records = [parked_record(f"t/0/{number:04}", step_id=f"w{number}:a") for number in range(1_200)]
        store.commit_batch(Batch(parked=records))

        found = store.parked(ids=[record.id for record in records], limit=2_000)
        assert sorted(record.id for record in found) == [record.id for record in records]
        assert store.parked_due([record.workflow_id for record in records]) == []

    def test_parked_records_are_counted_for_a_workflow_and_in_all(self, store: WholeStore) -> None:
        assert store.parked_usage() == (0, 0)
        first, second = parked_record("a", step_id="w:s"), parked_record("b", step_id="w:t")
        store.commit_batch(Batch(parked=[first, second, parked_record("c", step_id="v:s")]))

        assert store.parked_usage().records == 3
        assert store.parked_usage("w").records == 2
        assert store.parked_usage("nobody") == (0, 0)
        assert store.parked_usage("w").size_bytes >= first.size_bytes + second.size_bytes
        store.commit_batch(Batch(unparked=["a", "c"]))
        assert (store.parked_usage().records, store.parked_usage("v")) == (1, (0, 0))

    def test_parked_records_that_may_have_found_their_step_can_be_told_from_others(self, store: WholeStore) -> None:
        start(store, "w", step_document("w:here"))
        ended = change(workflow_row("over", status=COMPLETED), step_document("over:there"))
        store.commit_batch(Batch(changes=[ended]))
        names = ("w:here", "w:gone", "over:s", "over:there", "elsewhere:s")
        store.commit_batch(Batch(parked=[parked_record(name, step_id=name) for name in names]))

        assert store.parked_workflows() == [("over", 1, 2), ("w", 1, 2)]
        due = {head.id: head.step_revision for head in store.parked_due(["w", "over", "elsewhere"])}
        assert due == {"w:here": 1, "over:s": 0, "over:there": 0}
        assert store.parked_due(["elsewhere"]) == store.parked_due([]) == []

    def test_headers_without_a_value_come_back_from_parked_and_outbox_records(self, store: WholeStore) -> None:
        headers = (("x", None), ("", b""), ("x", b"1"))
        parked = replace(parked_record("a"), headers=headers)
        sent = outbox_record("v")._replace(headers=headers)
        store.commit_batch(Batch(parked=[parked], outbox=[sent]))

        assert store.parked() == [parked]
        assert [stored.record for stored in store.outbox()] == [sent]

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

    def test_the_newest_annotations_of_a_program_are_kept_beside_it(self, store: WholeStore) -> None:
        store.commit_batch(Batch(programs={"f": b"f", "g": b"g"}, annotations={"f": b"first"}))
        assert store.load_annotations("f") == b"first"
        assert store.load_annotations("g") is None
        assert store.load_annotations("unknown") is None

        store.commit_batch(Batch(programs={"f": b"f", "g": b"g"}, annotations={"f": b"second", "g": b"late"}))
        store.commit_batch(Batch(programs={"f": b"f"}))

        assert store.load_annotations("f") == b"second"
        assert store.load_annotations("g") == b"late"
        assert store.load_program("f") == b"f"

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
        again = workflow_row("w", 2, inputs={"x": 2})._replace(execution=2)
        store.commit_batch(Batch(changes=[change(again)]))

        assert store.load_workflow("w") == again

    def test_a_batch_writes_its_log_entries_each_once(self, store: WholeStore) -> None:
        entry = LogDefinition(uuid="w:a/printed", order=3, runner_id="r", step_id="w:a", message="hello")
        for _ in range(2):
            store.commit_batch(Batch(logs=[entry]))

        assert store.get_logs_by_runner("r") == [entry]

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


class DurableContract:
    """What stores that outlive their process must do besides. `reopen` opens one more store on the same data."""

    def test_a_restart_keeps_everything(self, store: WholeStore, reopen: Callable[[], WholeStore]) -> None:
        step = step_document("w:a", params={"x": [1, None]})
        row = workflow_row("w", inputs={"i": 1}, runnable=True)
        by_hand = public_step()
        sequence = store.commit_batch(
            Batch(
                changes=[change(row, step)],
                outbox=[outbox_record("a")],
                positions=[PositionMove(position=CONTROL_0, expected=None, next_offset=5)],
                parked=[parked_record("p")],
                programs={"f": b"program"},
                tasks=[task("t")],
            )
        )
        event = EventDefinition("e", by_hand.id, by_hand.workflow_id, EventState.CREATED, "shop.Pay")
        store.commit(IterationChanges(created_steps=[by_hand], created_events=[event]))
        store.save_runner(runner("r"))
        assert store.acquire_lock("k", 100_000)
        store.close()

        again = reopen()

        assert again.load_workflow("w") == row
        assert again.load_steps("w") == [step]
        assert again.get_step(by_hand.id) == by_hand
        assert again.runnable_workflows() == ["w"]
        assert [stored.sequence for stored in again.outbox()] == [sequence]
        assert again.positions() == {CONTROL_0: 5}
        assert again.parked() == [parked_record("p")]
        assert again.load_program("f") == b"program"
        assert again.get_task("t") == task("t")
        assert again.get_event("e") == event
        assert again.get_runner("r") == runner("r")
        assert not again.acquire_lock("k", 100_000)
        assert again.commit_batch(Batch(outbox=[outbox_record("b")])) == sequence + 1

    def test_a_sequence_is_not_used_again_after_a_restart(
        self, store: WholeStore, reopen: Callable[[], WholeStore]
    ) -> None:
        sequence = store.commit_batch(Batch(outbox=[outbox_record("a")]))
        store.commit_batch(Batch(published=[(sequence, sequence)]))
        store.close()

        assert reopen().commit_batch(Batch(outbox=[outbox_record("b")])) == sequence + 1

    def test_a_commit_in_one_store_is_a_conflict_in_another_of_the_same_data(
        self, store: WholeStore, reopen: Callable[[], WholeStore]
    ) -> None:
        start(store, "w", step_document("w:a"))
        other = reopen()
        assert other.load_steps("w") == [step_document("w:a")]
        other.commit_batch(Batch(changes=[change(workflow_row("w", 2))]))

        with pytest.raises(WorkflowConflict):
            store.commit_batch(Batch(changes=[change(workflow_row("w", 2))]))

        assert store.revisions(["w"]) == {"w": 2}

    def test_a_task_claimed_in_one_store_is_gone_in_another(
        self, store: WholeStore, reopen: Callable[[], WholeStore]
    ) -> None:
        store.save_task(task("t"))
        other = reopen()

        assert other.claim_task(["shop.Pay"]) is not None
        assert store.claim_task(["shop.Pay"]) is None
