"""The contract with every store about what is not written again: counters of a run that goes on, changes of a step."""

from __future__ import annotations

import pytest

from afl.engine.errors import WorkflowConflict
from afl.engine.model.plan import StatementPlan
from afl.engine.model.step_rows import BlockIds
from afl.engine.model.store import (
    COMPLETED,
    PAUSED,
    RUNNING,
    Batch,
    LiveStep,
    OutboxRecord,
    RunningChange,
    StepDocument,
    WorkflowChange,
    WorkflowHead,
    WorkflowRow,
)
from afl.engine.states import EventState, StepState
from afl.engine.types import ObjectType, Value
from tests.contract.store_rows import WholeStore, change, step_document, workflow_row

PAY = StatementPlan(0, "pay", "statement-1", ObjectType.VARIABLE_ASSIGNMENT, "shop.Pay")
#: All kinds of values that a document joins from its parts, and some for which it does not.
ODD_VALUES: dict[str, Value] = {
    "n": -3, "f": 0.1, "big": 1e300, "s": 'a "quoted" \n é', "none": None, "yes": True, "list": [1, {"x": None}],
    "": "",
}  # fmt: skip


def live(revision: int, *, is_written: bool = False, root: str = "w:root", **fields: object) -> LiveStep:
    plain = LiveStep(
        id="w:pay",
        number=2,
        revision=revision,
        state=StepState.EVENT_TRANSMIT,
        attempt=1,
        event_state=EventState.CREATED,
        params={"amount": 3},
        returns={},
        created_at_ms=5,
        statement=PAY,
        block_ids=BlockIds("w", root, "w:root", "w:block", 1),
        is_written=is_written,
    )
    return plain._replace(**fields)  # type: ignore[arg-type]  # by name


def answered(revision: int) -> LiveStep:
    return live(
        revision,
        is_written=True,
        state=StepState.STATEMENT_COMPLETE,
        event_state=EventState.COMPLETED,
        returns={"receipt": "r-17"},
    )


def goes_on(
    before: WorkflowRow, expected: int, *steps: LiveStep, runnable: bool = False, keeps_status: bool = False
) -> RunningChange:
    """Return the change of a run whose row the store has: 10 more of all that is counted for each revision."""
    tens = 10 * (expected + 1)
    moved = RunningChange(before, expected, runnable, steps, tens + 1, tens + 2, tens + 3, True)
    moved.keeps_status = keeps_status
    return moved


class ChangesContract:
    """What every store must do with changes that leave the document of a row as it is."""

    def test_a_run_that_goes_on_has_its_new_counters_and_all_else_as_before(self, store: WholeStore) -> None:
        row = workflow_row("w", inputs={"amount": 3}, lane="control/1", created_at_ms=4)._replace(runner_id="r")
        store.commit_batch(Batch(changes=[change(row)]))

        store.commit_batch(Batch(changes=[goes_on(row, 1, runnable=True)]))
        moved = row._replace(revision=2, status=RUNNING, runnable=True, steps=21, iterations=22, updated_at_ms=23)
        assert store.load_workflow("w") == moved
        assert store.runnable_workflows() == ["w"]
        assert store.list_workflows(status=RUNNING) == [moved]

        store.commit_batch(Batch(changes=[goes_on(row, 2)]))
        store.commit_batch(Batch(changes=[goes_on(row, 3, keeps_status=True)]))
        paused = row._replace(revision=4, status=PAUSED, steps=41, iterations=42, updated_at_ms=43)
        assert store.load_workflow("w") == paused
        assert (store.runnable_workflows(), store.list_workflows(status=PAUSED)) == ([], [paused])

    def test_a_row_that_is_written_whole_again_counts_from_there(self, store: WholeStore) -> None:
        row = workflow_row("w")
        store.commit_batch(Batch(changes=[change(row)]))
        store.commit_batch(Batch(changes=[goes_on(row, 1)]))
        whole = row._replace(revision=3, status=COMPLETED, steps=7, iterations=8, updated_at_ms=9, ended_at_ms=9)

        store.commit_batch(Batch(changes=[change(whole)]))

        assert store.load_workflow("w") == whole

    @pytest.mark.parametrize("expected", [0, 1, 3])
    def test_a_run_that_goes_on_from_another_revision_is_refused(self, store: WholeStore, expected: int) -> None:
        row = workflow_row("w")
        store.commit_batch(Batch(changes=[change(row, step_document("w:a"))]))
        store.commit_batch(Batch(changes=[goes_on(row, 1)]))

        with pytest.raises(WorkflowConflict) as caught:
            store.commit_batch(Batch(changes=[goes_on(row, expected, live(expected + 1))]))

        assert caught.value.workflow_ids == ("w",)
        assert [step.id for step in store.load_steps("w")] == ["w:a"]

    def test_the_heads_of_workflows_tell_revision_and_time(self, store: WholeStore) -> None:
        for workflow_id, at_ms in (("a", 1), ("b", 3), ("c", 2)):
            row = workflow_row(workflow_id, created_at_ms=at_ms)._replace(updated_at_ms=5)
            store.commit_batch(Batch(changes=[change(row)]))
        over = workflow_row("over", status=COMPLETED)
        store.commit_batch(Batch(changes=[change(over), goes_on(workflow_row("b", created_at_ms=3), 1)]))

        heads = [WorkflowHead("b", 2, 23), WorkflowHead("c", 1, 5), WorkflowHead("a", 1, 5)]
        assert store.workflow_heads(status=PAUSED) == heads
        assert store.workflow_heads(status=PAUSED, limit=2) == heads[:2]
        assert [head.id for head in store.workflow_heads(status=COMPLETED)] == ["over"]

    @pytest.mark.parametrize("root", ["w:root", "w:another"])
    def test_a_live_step_is_its_document(self, store: WholeStore, root: str) -> None:
        step = live(1, root=root, params=ODD_VALUES, returns={"r": ODD_VALUES})

        store.commit_batch(Batch(changes=[WorkflowChange(workflow_row("w"), 0, [step])]))

        (found,) = store.load_steps("w")
        assert found == step.document()
        assert (found.container_id, found.block_id, found.root_id) == ("w:root", "w:block", root)

    def test_a_change_of_a_step_leaves_the_rest_of_it(self, store: WholeStore) -> None:
        row = workflow_row("w")
        store.commit_batch(Batch(changes=[WorkflowChange(row, 0, [live(1)])]))

        store.commit_batch(Batch(changes=[goes_on(row, 1, answered(2))]))

        whole = (
            live(1)
            .document()
            ._replace(
                revision=2,
                state=StepState.STATEMENT_COMPLETE,
                event_state=EventState.COMPLETED,
                returns={"receipt": "r-17"},
            )
        )
        assert store.load_steps("w") == [whole]
        assert store.load_steps("w", newer_than=1) == [whole]
        assert store.load_steps("w", state=StepState.EVENT_TRANSMIT) == []
        view = store.get_step("w:pay")
        assert view is not None
        assert view.attributes.returns["receipt"].value == "r-17"

    def test_a_step_that_is_written_whole_again_has_nothing_of_its_change(self, store: WholeStore) -> None:
        row = workflow_row("w")
        store.commit_batch(Batch(changes=[WorkflowChange(row, 0, [live(1)])]))
        store.commit_batch(Batch(changes=[goes_on(row, 1, answered(2))]))
        again: StepDocument = live(3, attempt=2).document()

        store.commit_batch(Batch(changes=[change(row._replace(revision=3), again)]))

        assert store.load_steps("w") == [again]

    def test_waiting_events_are_those_of_one_workflow(self, store: WholeStore) -> None:
        row = workflow_row("w", lane="control/0")
        sent = OutboxRecord("control/0", "afl.events.shop.Pay", b"v:pay", b"event")
        store.commit_batch(Batch(changes=[WorkflowChange(row, 0, [live(1)])], outbox=[sent]))
        (event,) = store.get_waiting_events("w")
        assert event.state == EventState.DISPATCHED

        store.commit_batch(Batch(outbox=[sent._replace(key=b"w:pay")]))

        (event,) = store.get_waiting_events("w")
        assert event.state == EventState.CREATED
