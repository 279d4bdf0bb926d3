"""A store check finds each thing that is wrong, on every store. Inherit, and give `store`, `clock` and `damage`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import pytest

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.clock import ManualClock
from afl.engine.model.entities import TaskDefinition, TaskState
from afl.engine.model.store import (
    COMPLETED,
    Batch,
    HistoryKind,
    HistoryRow,
    OutboxRecord,
    ParkedRecord,
    PositionMove,
    ScheduleChange,
    ScheduleRow,
    StepDocument,
    TimerKind,
    TimerRow,
    WorkflowRow,
)
from afl.engine.states import EventState, StepState
from afl.engine.types import Value
from afl.evaluation.evaluator import Evaluator
from afl.stores.maintenance.check import Inspection, RecordRules
from afl.stores.maintenance.purge import Purge, tombstone_of
from afl.stores.public.persistence import EventDefinition
from tests.contract.store_rows import CONTROL_0, WholeStore, public_step, task

SOURCE: Final = """
namespace shop {
  event facet Pay(amount: Long) => (receipt: String)
  facet Line(n: Long) => (total: Long) andThen { yield Line(total = $.n + 1) }
  workflow Checkout(amounts: [Long]) => (receipts: [String] = []) andThen foreach a in $.amounts {
    l = Line(n = $.a)
    p = Pay(amount = l.total)
    yield Checkout(receipts = [p.receipt])
  }
}
"""
PROGRAM: Final = CompiledProgram(compile_text(SOURCE).program_json)
#: Two workflows: one that waits for two answers, and one that has them.
WAITING, DONE = "waiting", "done"
LANE: Final = "control/0"
RULES: Final = RecordRules(
    lane_of=lambda workflow_id: LANE,
    step_of=lambda record: record.key.decode() if record.topic.startswith("afl.events.") and record.key else None,
)
#: What the owner of schedules writes here.
SOUND: Final[Mapping[str, Value]] = {"is": "sound"}


def fault_of(row: ScheduleRow) -> tuple[str, str] | None:
    return None if row.document == SOUND else ("nothing" if not row.document else "another", "what its owner writes")


class Damage(Protocol):
    """Changes a store's rows behind its back."""

    def put_workflow(self, row: WorkflowRow) -> None: ...
    def delete_workflow(self, workflow_id: str) -> None: ...
    def put_step(self, step: StepDocument) -> None: ...
    def delete_step(self, step_id: str) -> None: ...
    def put_program(self, fingerprint: str, content: bytes) -> None: ...
    def delete_program(self, fingerprint: str) -> None: ...
    def put_task(self, task: TaskDefinition) -> None:
        """Whatever other tasks of its step there are."""

    def delete_task(self, task_id: str) -> None: ...


class Case:
    """A store with the two workflows, and what can be done to it."""

    def __init__(self, store: WholeStore, clock: ManualClock, damage: Damage) -> None:
        self.store, self.clock, self.damage = store, clock, damage
        evaluator = Evaluator(store, clock=clock)
        for workflow_id in (WAITING, DONE):
            evaluator.execute("shop.Checkout", {"amounts": [1, 2]}, PROGRAM, workflow_id=workflow_id)
        for step in self.steps(DONE):
            if step.facet_name == "shop.Pay":
                evaluator.continue_step(step.id, {"receipt": "r"})
        assert evaluator.resume(DONE).success

    def row(self, workflow_id: str, **fields: Any) -> None:
        """Change fields of a workflow's row."""
        row = self.store.load_workflow(workflow_id)
        assert row is not None
        self.damage.put_workflow(row._replace(**fields))

    def steps(self, workflow_id: str) -> list[StepDocument]:
        return self.store.load_steps(workflow_id)

    def first(self, workflow_id: str, facet: str = "", kind: str = "") -> StepDocument:
        """Return the first step that calls a facet, or of a kind."""
        return next(
            step
            for step in self.steps(workflow_id)
            if (facet and step.facet_name == facet) or (kind and step.object_type == kind)
        )

    def step(self, workflow_id: str, facet: str = "", kind: str = "", **fields: Any) -> None:
        """Change fields of such a step."""
        self.damage.put_step(self.first(workflow_id, facet, kind)._replace(**fields))

    def task_of(self, workflow_id: str) -> TaskDefinition:
        found = self.store.get_task(f"{self.first(workflow_id, 'shop.Pay').id}#1")
        assert found is not None
        return found

    def time(self, step_id: str, kind: TimerKind = TimerKind.DEADLINE) -> None:
        self.store.commit_batch(Batch(timers=[TimerRow(step_id, step_id.partition(":")[0], kind, 70)]))

    def keep_schedule(self, document: Mapping[str, Value] = SOUND) -> None:
        row = ScheduleRow("nightly", 1, None, document)
        self.store.commit_batch(Batch(schedules=[ScheduleChange(row.id, 0, row)]))

    def wait(
        self,
        state: str = EventState.WAITING,
        kind: TimerKind = TimerKind.SLEEP,
        *,
        at_ms: int | None = 70,
        timer: bool = True,
    ) -> None:
        """Let a step wait until a time."""
        self.step(WAITING, "shop.Pay", event_state=state, deadline_ms=at_ms)
        if timer:
            self.time(self.first(WAITING, "shop.Pay").id, kind)

    def remember(self, workflow_id: str, **fields: Any) -> None:
        """Add a pending event that the workflow's row does not count, and one that waits for the workflow's start."""
        event = HistoryRow(workflow_id, 0, HistoryKind.EXTERNAL_EVENT, 1, 5, name="signal", is_pending=True)
        early = event._replace(number=1, expires_at_ms=9)
        self.store.commit_batch(Batch(history=[event._replace(**fields), early]))

    def send(self, lane: str = LANE, topic: str = "afl.lifecycle", key: bytes = b"w") -> None:
        self.store.commit_batch(Batch(outbox=[OutboxRecord(lane, topic, key, b"value")]))

    def park(self, **fields: Any) -> None:
        record = ParkedRecord(
            id="p/0/1", workflow_id="w", step_id="w:a", topic="afl.control", partition=0, offset=1, key=b"w",
            value=b"", headers=(), parked_at_ms=5, expires_at_ms=6,
        )  # fmt: skip
        self.store.commit_batch(Batch(parked=[_with(record, fields)]))

    def move(self, next_offset: int, topic_id: str = "") -> None:
        place = CONTROL_0._replace(topic_id=topic_id)
        self.store.commit_batch(Batch(positions=[PositionMove(position=place, expected=None, next_offset=next_offset)]))

    def move_twice(self) -> None:
        self.move(5)
        self.move(6, "t1")

    def rename_step(self) -> None:
        """Give a yield, which no other step names, another id."""
        step = self.first(DONE, kind="YieldAssignment")
        self.damage.delete_step(step.id)
        self.damage.put_step(step._replace(id=f"{DONE}:{'0' * 24}"))

    def other_program(self, text: bytes) -> None:
        fingerprint = hashlib.sha256(text).hexdigest()
        self.damage.put_program(fingerprint, text)
        self.row(DONE, program=fingerprint)

    def second_running(self) -> None:
        found = self.task_of(WAITING)
        found.state = TaskState.RUNNING
        self.damage.put_task(found)
        self.damage.put_task(task("by hand", step_id=found.step_id, state=TaskState.RUNNING))

    def ended_task(self, state: str) -> None:
        found = self.task_of(DONE if state == TaskState.PENDING else WAITING)
        found.state = state
        self.damage.put_task(found)

    def bury_only_by_name(self) -> None:
        row = self.store.load_workflow(DONE)
        assert row is not None
        self.store.save_tombstone(tombstone_of(row, 5))

    def purge_and_leave_a_step(self) -> None:
        row = self.store.load_workflow(DONE)
        assert row is not None
        step = self.first(DONE, "shop.Pay")
        Purge(self.store, self.clock).purge(row, ())
        self.damage.put_step(step)

    def tombstone_in_no_state(self) -> None:
        row = self.store.load_workflow(DONE)
        assert row is not None
        stone = tombstone_of(row._replace(id="gone"), 5)
        stone.state = "half"
        self.store.save_tombstone(stone)


def _with(record: ParkedRecord, fields: dict[str, Any]) -> ParkedRecord:
    values = {name: getattr(record, name) for name in ParkedRecord.__slots__}
    return ParkedRecord(**{**values, **fields})


#: What is done to a store, what is found, and a word that the finding says.
DAMAGES: Final[list[tuple[str, Callable[[Case], None], str]]] = [
    ("workflow.status", lambda case: case.row(WAITING, status="DREAMING"), "DREAMING"),
    ("workflow.status", lambda case: case.row(DONE, status="PAUSED", ended_at_ms=0), "PAUSED"),
    ("workflow.status", lambda case: case.row(WAITING, status=COMPLETED, ended_at_ms=7), COMPLETED),
    ("workflow.revision", lambda case: case.row(WAITING, revision=0), "1 or more"),
    ("workflow.steps", lambda case: case.row(WAITING, steps=99), "99, as its row says"),
    ("workflow.ended", lambda case: case.row(DONE, ended_at_ms=0), "the time of its end"),
    ("workflow.ended", lambda case: case.row(WAITING, ended_at_ms=7), "it has not ended"),
    ("workflow.runnable", lambda case: case.row(WAITING, runnable=True), "PAUSED, runnable"),
    ("workflow.runnable", lambda case: case.row(WAITING, runnable=True, status="RUNNING"), "no step can continue"),
    (
        "workflow.runnable",
        lambda case: case.step(WAITING, "shop.Line", state=StepState.FACET_INIT_BEGIN),
        "can continue",
    ),
    ("workflow.root", lambda case: case.step(WAITING, kind="AndThen", container_id=None, root_id=None), "2 root steps"),
    ("workflow.root", lambda case: case.damage.delete_step(case.first(WAITING, kind="Workflow").id), "0 root steps"),
    ("workflow.program", lambda case: case.step(WAITING, "shop.Pay", statement_id="nowhere"), "nowhere"),
    ("step.workflow", lambda case: case.damage.delete_workflow(WAITING), "a step without workflow"),
    ("step.workflow", Case.purge_and_leave_a_step, "nothing left of a purged workflow"),
    ("step.parent", lambda case: case.damage.delete_step(case.first(WAITING, kind="AndThen").id), "does not exist"),
    (
        "step.parent",
        lambda case: case.step(WAITING, "shop.Pay", block_id=case.first(WAITING, "shop.Line").id),
        "a block",
    ),
    ("step.parent", lambda case: case.step(WAITING, kind="AndThen", container_id=None), "without container"),
    ("step.revision", lambda case: case.step(WAITING, "shop.Pay", revision=99), "revision 99"),
    ("step.revision", lambda case: case.step(WAITING, "shop.Pay", revision=0), "revision 0"),
    ("step.number", lambda case: case.step(WAITING, "shop.Pay", number=0), "number 0, 2 times"),
    ("step.number", lambda case: case.step(WAITING, "shop.Pay", number=99), "number 99"),
    ("step.state", lambda case: case.step(WAITING, "shop.Pay", state="state.Nowhere"), "state.Nowhere"),
    ("step.error", lambda case: case.step(DONE, "shop.Pay", state=StepState.STATEMENT_ERROR), "why it failed"),
    ("step.unfinished", lambda case: case.step(DONE, "shop.Pay", state=StepState.EVENT_TRANSMIT), "which is complete"),
    ("step.id", Case.rename_step, "derived from its place"),
    ("event.state", lambda case: case.step(WAITING, "shop.Pay", event_state="event.Lost"), "event.Lost"),
    ("event.attempt", lambda case: case.step(WAITING, "shop.Pay", attempt=0), "attempt 0"),
    (
        "event.step",
        lambda case: case.step(WAITING, "shop.Pay", state=StepState.STATEMENT_BLOCKS_BEGIN),
        "a step at state.EventTransmit",
    ),
    ("event.ended", lambda case: case.step(DONE, "shop.Pay", event_state=EventState.CREATED), "the workflow COMPLETED"),
    ("event.task", lambda case: case.damage.delete_task(case.task_of(WAITING).uuid), "no task"),
    ("event.task", lambda case: case.ended_task(TaskState.FAILED), "is failed"),
    ("tasks.step", lambda case: case.ended_task(TaskState.PENDING), "pending, its step at"),
    ("tasks.step", lambda case: case.damage.put_task(task("w:gone#1", step_id="w:gone")), "no step of its event"),
    ("tasks.running", Case.second_running, "one running task of a step"),
    (
        "events.step",
        lambda case: case.store.save_event(EventDefinition("e", "w:gone", "w", EventState.CREATED, "shop.Pay")),
        "no step w:gone",
    ),
    ("step.timer", lambda case: case.wait(timer=False), "no timer, its time is 70"),
    ("step.timer", lambda case: case.wait(EventState.RETRYING, at_ms=None, timer=False), "no time of the next attempt"),
    ("step.timer", lambda case: case.wait(EventState.CREATED, timer=False), "no timer, its time is 70"),
    ("timer.step", lambda case: case.wait(EventState.WAITING, kind=TimerKind.RETRY), "event.Waiting"),
    ("timer.step", lambda case: case.wait(EventState.RETRYING, kind=TimerKind.WAIT), "event.Retrying"),
    ("timer.step", lambda case: case.wait(EventState.CREATED, kind=TimerKind.SLEEP), "event.Created"),
    ("timer.step", lambda case: case.wait(at_ms=71), "a step whose time is 71"),
    ("timer.step", lambda case: case.time(case.first(DONE, "shop.Pay").id), "event.Completed"),
    ("timer.step", lambda case: case.time(case.first(WAITING, "shop.Line").id), "no event at"),
    ("timer.step", lambda case: case.time(f"{WAITING}:gone"), "no such step"),
    ("timer.step", lambda case: case.time("gone:a"), "no such workflow"),
    ("workflow.pending_events", lambda case: case.row(WAITING, pending_events=2), "0 pending events"),
    ("workflow.pending_events", lambda case: case.remember(WAITING), "1 pending events"),
    ("schedule.document", lambda case: case.keep_schedule(document={}), "nothing"),
    ("history.workflow", lambda case: case.remember("gone"), "a row ExternalEvent"),
    ("history.workflow", lambda case: case.remember("gone", is_pending=False, expires_at_ms=9), "workflow gone"),
    ("program.missing", lambda case: case.damage.delete_program(PROGRAM.fingerprint), "no such program"),
    ("program.fingerprint", lambda case: case.damage.put_program(PROGRAM.fingerprint, b"{}"), "a text of fingerprint"),
    ("program.unreadable", lambda case: case.other_program(b'{"schemaVersion":"9.0"}'), "upgrade this process"),
    ("program.unreadable", lambda case: case.other_program(b"{}"), "shop.Checkout"),
    ("outbox.lane", lambda case: case.send(lane="nowhere"), "control/NUMBER or writer/ID"),
    (
        "outbox.lane",
        lambda case: case.send("control/5", "afl.events.shop.Pay", case.first(WAITING, "shop.Pay").id.encode()),
        "control/0, its workflow's partition",
    ),
    ("outbox.step", lambda case: case.send(topic="afl.events.shop.Pay", key=b"w:gone"), "no step w:gone"),
    ("parked.workflow", lambda case: case.park(workflow_id="other"), "workflow other, step w:a"),
    ("parked.expiry", lambda case: case.park(expires_at_ms=1), "expires at 1"),
    ("position.offset", lambda case: case.move(-1), "0 or more"),
    ("position.twice", Case.move_twice, "one position of a partition"),
    ("tombstones.workflow", Case.bury_only_by_name, "a workflow beside its tombstone"),
    ("tombstones.state", Case.tombstone_in_no_state, "half"),
]


def findings_of(store: WholeStore) -> list[str]:
    """Return what a check finds, as lines."""
    inspection = Inspection(store=store, records=RULES, pause=lambda seconds: None, schedule_fault=fault_of)
    return [str(finding) for finding in inspection.findings()]


class InspectionContract:
    """Damages a store in one way after the other, and looks whether it is told."""

    @pytest.fixture
    def case(self, store: WholeStore, clock: ManualClock, damage: Damage) -> Case:
        return Case(store, clock, damage)

    def test_a_store_at_rest_is_clean(self, case: Case) -> None:
        case.send(topic="afl.events.shop.Pay", key=case.first(WAITING, "shop.Pay").id.encode())
        case.send(lane="writer/7")
        case.wait(EventState.CREATED, TimerKind.DEADLINE)
        case.remember("soon", expires_at_ms=9)
        case.keep_schedule()
        case.park()
        case.move(5)
        case.store.save_step(public_step("by-hand"))
        case.store.save_task(task("by hand", step_id="anything"))

        assert findings_of(case.store) == []

    def test_what_was_looked_at_is_counted(self, case: Case) -> None:
        inspection = Inspection(store=case.store)

        assert list(inspection.findings()) == []
        steps = len(case.steps(WAITING)) + len(case.steps(DONE))
        assert inspection.counts == {"workflows": 2, "steps": steps, "tasks": 4}
        assert inspection.busy == []

    @pytest.mark.parametrize(
        ("kind", "damaged", "words"), DAMAGES, ids=[f"{kind}-{number}" for number, (kind, _, _) in enumerate(DAMAGES)]
    )
    def test_damage_is_found_and_told(self, case: Case, kind: str, damaged: Callable[[Case], None], words: str) -> None:
        damaged(case)

        found = findings_of(case.store)

        assert any(line.startswith(f"{kind} ") and words in line for line in found), found

    def test_a_check_changes_nothing(self, case: Case) -> None:
        case.step(WAITING, "shop.Pay", state="state.Nowhere")
        before = _all_of(case.store)

        findings_of(case.store)

        assert _all_of(case.store) == before

    def test_a_workflow_that_is_being_purged_is_no_finding(self, case: Case) -> None:
        row = case.store.load_workflow(DONE)
        assert row is not None

        assert Purge(case.store, case.clock, rows_per_slice=1).begin([row], ()).unfinished == [DONE]

        assert findings_of(case.store) == []


def _all_of(store: WholeStore) -> list[object]:
    rows = [store.load_workflow(workflow_id) for workflow_id in (WAITING, DONE)]
    steps: Iterable[object] = [step for workflow_id in (WAITING, DONE) for step in store.load_steps(workflow_id)]
    return [*rows, *steps, store.revisions([WAITING, DONE])]
