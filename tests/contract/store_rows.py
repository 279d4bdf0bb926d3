"""Rows for store tests: small rows and entities, and threads that start together."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from afl.engine.model.entities import (
    Parameter,
    RunnerDefinition,
    RunnerState,
    ServerDefinition,
    TaskDefinition,
    TaskState,
    UserDefinition,
    WorkflowDefinition,
    WorkflowMetaData,
)
from afl.engine.model.store import (
    PAUSED,
    Batch,
    OutboxRecord,
    ParkedRecord,
    Position,
    StepDocument,
    Store,
    WorkflowChange,
    WorkflowRow,
)
from afl.engine.model.store_identity import IdentifiedStore
from afl.engine.model.upkeep import Upkeep
from afl.engine.states import StepState
from afl.engine.types import ObjectType, Value, WorkflowId
from afl.stores.public.persistence import EventDefinition, PersistenceAPI, TaskStore
from afl.stores.public.step import StepDefinition
from tests.compatibility.dumps import in_format_5

CONTROL_0 = Position("cluster", "afl.control", 0)


class WholeStore(Store, PersistenceAPI, TaskStore, Upkeep, IdentifiedStore, Protocol):
    """Both faces of a store, and the methods that pollers, runners and tests use besides."""

    def get_all_steps(self) -> list[StepDefinition]: ...
    def step_count(self) -> int: ...
    def get_all_events(self) -> list[EventDefinition]: ...
    def get_waiting_events(self, workflow_id: str) -> Sequence[EventDefinition]: ...
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
    """Return a step's document; its workflow is what stands before the colon of its id."""
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
    step = StepDefinition.create(WorkflowId(workflow_id), ObjectType.VARIABLE_ASSIGNMENT, facet_name="shop.Pay")
    for name, value in fields.items():
        setattr(step, name, value)
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


def ids(steps: Iterable[StepDefinition]) -> list[str]:
    """Return the ids of steps."""
    return [step.id for step in steps]


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


def without_identity(file: sqlite3.Connection) -> None:
    """Make a SQLite store what it was before format 4, whose stores have an id."""
    without_waiting(file)
    file.execute("ALTER TABLE store DROP COLUMN id")
    file.execute("ALTER TABLE store DROP COLUMN marks")


def without_waiting(file: sqlite3.Connection) -> None:
    """Make a SQLite store what it was before format 5, which has timers, histories and schedules."""
    without_changes(file)
    for table in ("timer", "history", "schedule"):
        file.execute(f"DROP TABLE {table}")


def without_changes(file: sqlite3.Connection) -> None:
    """Make a SQLite store what it was before format 6, which has changes beside the documents of steps and runs."""
    in_format_5(file)
    file.commit()
