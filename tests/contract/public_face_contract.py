"""The contract of every store with its users: steps, events, tasks, locks and the rest as public objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from afl.compiler import compile_text
from afl.core.clock import ManualClock
from afl.engine.errors import ConcurrencyError, WorkflowConflict
from afl.engine.model.entities import (
    HandledCount,
    HandlerRegistration,
    LockMetaData,
    LogDefinition,
    RunnerState,
    ServerDefinition,
    ServerState,
    TaskState,
)
from afl.engine.model.store import Batch, ErrorRecord, HistoryKind, HistoryRow, OutboxRecord, StepDocument
from afl.engine.states import EventState, StepState
from afl.engine.types import AttributeValue, BlockId, ObjectType, StatementId, StepId, Value, WorkflowId
from afl.evaluation.evaluator import Evaluator
from afl.stores.public.history import ContinuedAsNew, ExternalEvent
from afl.stores.public.persistence import EventDefinition, IterationChanges, PersistenceAPI
from afl.stores.public.step import StepDefinition
from tests.contract.lease_contract import LeaseContract
from tests.contract.store_rows import (
    WholeStore,
    change,
    ids,
    in_threads,
    public_step,
    runner,
    start,
    step_document,
    task,
    workflow_row,
)

ONE_EVENT = """
    event facet E() => (r: Long)
    workflow W() => (o: Long) andThen {
        e = E()
        yield W(o = e.r)
    }
"""


def waiting_step(
    store: WholeStore, state: str = StepState.EVENT_TRANSMIT, workflow_id: str = "nobodys"
) -> StepDefinition:
    """Return a step that was saved from outside, mostly of no workflow of the engine's, at its event."""
    step = StepDefinition.create(WorkflowId(workflow_id), ObjectType.VARIABLE_ASSIGNMENT, "billing.Pay")
    step.state = state
    store.save_step(step)
    return step


class PublicFaceContract(LeaseContract):
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

    def test_a_complete_step_of_the_engines_is_kept_as_it_is(self, store: WholeStore) -> None:
        complete = step_document("w:a", state=StepState.STATEMENT_COMPLETE, params={"x": 1})
        start(store, "w", complete)
        step = store.get_step("w:a")
        assert step is not None
        store.save_step(step)

        step.set_attribute("x", 2)
        with pytest.raises(ValueError, match="step w:a is complete"):
            store.save_step(step)
        step.set_attribute("x", 1)
        step.change_state(StepState.EVENT_TRANSMIT)
        with pytest.raises(ValueError, match="step w:a is complete"):
            store.commit(IterationChanges(created_steps=[public_step("w")], updated_steps=[step]))

        assert [each._replace(revision=1) for each in store.load_steps("w")] == [complete]

    def test_a_step_added_to_an_engines_workflow_is_counted(self, store: WholeStore) -> None:
        store.commit_batch(Batch(changes=[change(workflow_row("w")._replace(steps=1), step_document("w:a"))]))
        added = public_step("w")

        store.save_step(added)

        row = store.load_workflow("w")
        assert row is not None
        assert (row.revision, row.steps) == (2, 2)
        assert [(step.id, step.number, step.revision) for step in store.load_steps("w")] == [
            ("w:a", 0, 1),
            (added.id, 1, 2),
        ]

    def test_a_step_of_no_workflow_takes_a_result_once(self, store: WholeStore) -> None:
        evaluator, step = Evaluator(store), waiting_step(store)
        evaluator.update_step(step.id, {"part": [1]})
        evaluator.continue_step(step.id, {"receipt": "r1"})
        evaluator.continue_step(step.id, {"receipt": "late"})
        evaluator.fail_step(step.id, "late")

        found = store.get_step(step.id)
        assert found is not None
        assert found.attributes.returns == {
            "part": AttributeValue("part", [1], "List"),
            "receipt": AttributeValue("receipt", "r1", "String"),
        }
        assert (found.state, found.transition.request_transition) == (StepState.EVENT_TRANSMIT, True)

    def test_a_step_of_no_workflow_takes_a_failure_once(self, store: WholeStore) -> None:
        evaluator, step = Evaluator(store), waiting_step(store)
        evaluator.fail_step(step.id, "no such order", "LookupError")
        evaluator.fail_step(step.id, "again")
        evaluator.continue_step(step.id, {"receipt": "late"})

        found = store.get_step(step.id)
        assert found is not None
        assert found.state == StepState.STATEMENT_ERROR
        assert isinstance(found.transition.error, LookupError)
        assert str(found.transition.error) == "no such order"
        assert found.attributes.returns == {}

    @pytest.mark.parametrize("state", [StepState.CREATED, StepState.STATEMENT_COMPLETE])
    def test_a_step_of_no_workflow_takes_an_answer_at_its_event_only(self, store: WholeStore, state: str) -> None:
        evaluator, step = Evaluator(store), waiting_step(store, state)

        answers: list[Callable[[], None]] = [
            lambda: evaluator.continue_step(step.id, {"receipt": "r1"}),
            lambda: evaluator.update_step(step.id, {"receipt": "r1"}),
            lambda: evaluator.fail_step(step.id, "no such order"),
        ]
        for answer in answers:
            with pytest.raises(ValueError, match=f"{step.id} is at {state}, expected state.EventTransmit"):
                answer()
        found = store.get_step(step.id)
        assert found is not None
        assert (found.state, found.attributes.returns) == (state, {})

    def test_a_step_saved_under_an_engines_workflow_is_answered_and_never_run(self, store: WholeStore) -> None:
        evaluator = Evaluator(store)
        started = evaluator.execute("W", {}, compile_text(ONE_EVENT).program_json)
        step = waiting_step(store, workflow_id=started.workflow_id)
        placed = StepDefinition.create(WorkflowId(started.workflow_id), ObjectType.VARIABLE_ASSIGNMENT, "E")
        placed.block_id, placed.statement_id = BlockId("elsewhere"), StatementId("e")
        placed.mark_completed()
        store.save_step(placed)
        evaluator.continue_step(step.id, {"receipt": "r1"})

        assert len(Evaluator(store).resume(started.workflow_id).pending_events) == 1
        root = store.get_workflow_root(started.workflow_id)
        assert root is not None
        assert root.object_type == ObjectType.WORKFLOW
        [event] = evaluator.resume(started.workflow_id).pending_events
        evaluator.continue_step(event.step_id, {"r": 7})
        assert evaluator.resume(started.workflow_id).outputs == {"o": 7}
        evaluator.reset(started.workflow_id)
        assert len(evaluator.resume(started.workflow_id).pending_events) == 1
        again = store.get_workflow_root(started.workflow_id)
        assert again is not None
        assert (again.object_type, again.id != root.id) == (ObjectType.WORKFLOW, True)
        found = store.get_step(step.id)
        assert found is not None
        assert found.get_attribute("receipt") == "r1"

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
        store.commit_batch(Batch(changes=[change(row._replace(revision=2), answered)]))
        assert event_state(store, "w:a#1") == EventState.COMPLETED

    def test_the_waiting_events_of_a_workflow_are_those_without_an_answer(self, store: WholeStore) -> None:
        asked = step_document("w:a")._replace(state=StepState.EVENT_TRANSMIT)
        waiting = asked._replace(event_state=EventState.CREATED, attempt=1)
        reported = waiting._replace(id="w:b", number=1, event_state=EventState.PROCESSING, attempt=2)
        held_back = asked._replace(id="w:c", number=2)
        cancelled = waiting._replace(id="w:d", number=3, event_state=EventState.CANCELED)
        answered = step_document("w:e", number=4)._replace(event_state=EventState.COMPLETED, attempt=1)
        record = OutboxRecord("control/0", "afl.events.shop.Pay", b"w:a", b"event")
        row = workflow_row("w", lane="control/0")
        rows = change(row, reported, waiting, held_back, cancelled, answered)
        sequence = store.commit_batch(Batch(changes=[rows], outbox=[record]))
        start(store, "other", waiting._replace(id="other:a", workflow_id="other"))

        events = store.get_waiting_events("w")
        store.commit_batch(Batch(published=[(sequence, sequence)]))

        assert [event.id for event in events] == ["w:a#1", "w:b#2"]
        assert [event.state for event in events] == [EventState.CREATED, EventState.PROCESSING]
        assert store.get_waiting_events("w") == [store.get_event("w:a#1"), store.get_event("w:b#2")]
        assert store.get_waiting_events("w")[0].state == EventState.DISPATCHED
        assert store.get_waiting_events("unknown") == []

    def test_a_step_that_the_runtime_answers_has_no_event(self, store: WholeStore) -> None:
        def waiting(step_id: str, facet: str, event_state: str, number: int) -> StepDocument:
            document = step_document(step_id, number=number, state=StepState.EVENT_TRANSMIT)
            return document._replace(facet_name=facet, event_state=event_state, attempt=1)

        steps = [
            waiting("w:a", "afl.WaitForEvent", EventState.WAITING, 0),
            waiting("w:b", "afl.Sleep", EventState.COMPLETED, 1),
            waiting("w:c", "shop.Pay", EventState.CREATED, 2),
            waiting("w:d", "shop.Pay", EventState.RETRYING, 3),
        ]
        start(store, "w", *steps)

        assert [event.step_id for event in store.get_waiting_events("w")] == ["w:c"]
        assert [event.step_id for event in store.get_all_events()] == ["w:c", "w:d"]
        assert [store.get_event(f"{step.id}#1") is None for step in steps] == [True, True, False, False]

    def test_a_history_is_read_by_execution(self, store: WholeStore) -> None:
        row = workflow_row("w", inputs={"n": 2})._replace(executions_before=1, pending_events=1)
        value: Value = {"inputs": {"n": 2}, "steps": 3, "abandoned": []}
        event = HistoryRow("w", 0, HistoryKind.EXTERNAL_EVENT, 1, 5, "go", "e", "x" * 100_000, is_pending=True)
        end = HistoryRow("w", 1, HistoryKind.CONTINUED_AS_NEW, 1, 6, value=value)
        store.commit_batch(Batch(changes=[change(row)], history=[event, end]))

        whole, second = store.get_history("w"), store.get_history("w", 2)

        raised = ExternalEvent(name="go", data="x" * 100_000, id="e", execution=1, at_ms=5, is_pending=True)
        assert whole.events == (raised, ContinuedAsNew(execution=1, at_ms=6, inputs={"n": 2}, steps=3))
        assert second.events == (raised,)
        assert [(one.number, one.started_at_ms, one.inputs) for one in whole.executions] == [
            (1, 1_000, None),
            (2, 6, {"n": 2}),
        ]
        assert [one.number for one in second.executions] == [2]

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

    @pytest.mark.parametrize(
        ("state", "event_state", "task_state"),
        [
            (StepState.STATEMENT_BLOCKS_BEGIN, EventState.COMPLETED, TaskState.COMPLETED),
            (StepState.STATEMENT_ERROR, EventState.ERROR, TaskState.FAILED),
            (StepState.EVENT_TRANSMIT, EventState.CREATED, TaskState.PENDING),
        ],
    )
    def test_who_moves_a_step_on_has_answered_its_event(
        self, store: WholeStore, state: str, event_state: str, task_state: str
    ) -> None:
        asked = step_document("w:a", state=StepState.EVENT_TRANSMIT)._replace(event_state=EventState.CREATED, attempt=1)
        store.commit_batch(Batch(changes=[change(workflow_row("w"), asked)], tasks=[task("w:a#1", step_id="w:a")]))
        step = store.get_step("w:a")
        assert step is not None
        if state == StepState.STATEMENT_ERROR:
            step.mark_error(LookupError("no such order"))
        step.change_state(state)

        store.save_step(step)

        (event,) = store.get_all_events()
        kept = store.get_task("w:a#1")
        assert kept is not None
        assert (event.state, kept.state) == (event_state, task_state)
        assert kept.error == ({"message": "no such order"} if task_state == TaskState.FAILED else None)

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

        now_ms = clock.now_ms()
        assert claimed == replace(task("early", created=1), state=TaskState.RUNNING, updated=now_ms, claimed=now_ms)
        assert store.get_task("early") == claimed
        assert [pending.uuid for pending in store.get_pending_tasks("default")] == ["other", "late"]
        assert store.claim_task(["shop.Pay"], "special") is not None
        assert store.claim_task(["shop.Pay"], "special") is None
        assert store.claim_task([]) is None

    def test_tasks_of_excepted_workflows_wait(self, store: WholeStore) -> None:
        for number, step_id in enumerate(("w1:0a", "w1:0b", "w11:0a", "", "w2:0a")):
            store.save_task(task(f"t{number}", step_id=step_id, created=number))

        claimed = [store.claim_task(["shop.Pay"], except_workflows={"w1", "w2", "w"}) for _ in range(3)]

        assert [found and found.uuid for found in claimed] == ["t2", "t3", None]
        rest = [store.claim_task(["shop.Pay"]) for _ in range(3)]
        assert [found and found.uuid for found in rest] == ["t0", "t1", "t4"]

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


def event_state(store: WholeStore, event_id: str) -> str:
    event = store.get_event(event_id)
    assert event is not None
    return event.state
