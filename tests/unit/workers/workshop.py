"""A store, an evaluator and programs for tests of pollers and runners."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.clock import Clock
from afl.core.ids import event_id_of
from afl.engine.model.entities import ServerState, TaskDefinition
from afl.engine.types import Value
from afl.evaluation.evaluator import Evaluator, ExecutionResult
from afl.stores.memory.store import MemoryStore
from afl.stores.sqlite.store import SqliteStore
from afl.workers.polling_server import PollingServer
from tests.eventually import eventually

PROGRAM = """
namespace shop {
    event facet Pay(order: String) => (receipt: String)
    event facet Ship(order: String) => (parcel: String)

    workflow Buy(order: String) => (receipt: String) andThen {
        paid = Pay(order = $.order)
        yield Buy(receipt = paid.receipt)
    }
    workflow Chain(order: String) => (parcel: String) andThen {
        paid = Pay(order = $.order)
        sent = Ship(order = paid.receipt)
        yield Chain(parcel = sent.parcel)
    }
    workflow Many(orders: [String]) => (receipts: [String]) andThen foreach order in $.orders {
        paid = Pay(order = $.order)
        yield Many(receipts = [paid.receipt])
    }
}
"""
AnyStore = MemoryStore | SqliteStore


class Workshop:
    """One deployment in dispatch mode `task`."""

    def __init__(self, store: AnyStore | None = None, clock: Clock | None = None, program: str = PROGRAM) -> None:
        self.store = store or MemoryStore(clock=clock)
        self.clock = clock
        self.program = CompiledProgram(compile_text(program).program_json)
        self.evaluator = self.new_evaluator()

    def new_evaluator(self) -> Evaluator:
        return Evaluator(self.store, clock=self.clock)

    def start(self, workflow: str, workflow_id: str = "run", **inputs: Value) -> ExecutionResult:
        result = self.evaluator.execute(f"shop.{workflow}", inputs, self.program, workflow_id=workflow_id)
        assert result.status == "PAUSED", result.error
        return result

    def tasks(self, workflow_id: str = "run") -> list[TaskDefinition]:
        """Return the tasks of a workflow's steps, in order of creation."""
        documents = self.store.load_steps(workflow_id)
        found = [self.store.get_task(event_id_of(step.id, step.attempt)) for step in documents if step.attempt]
        return [task for task in found if task is not None]

    def task(self, workflow_id: str = "run") -> TaskDefinition:
        (task,) = self.tasks(workflow_id)
        return task

    def outputs(self, workflow_id: str = "run") -> dict[str, Value]:
        row = self.store.load_workflow(workflow_id)
        assert row is not None
        assert row.status == "COMPLETED", (row.status, row.error)
        return dict(row.outputs or {})

    def status(self, workflow_id: str = "run") -> str:
        row = self.store.load_workflow(workflow_id)
        assert row is not None
        return row.status

    def failure(self, workflow_id: str = "run") -> tuple[str, str]:
        """Type and message of the error that ended a workflow."""
        row = self.store.load_workflow(workflow_id)
        assert row is not None
        assert row.status == "ERROR"
        assert row.error is not None
        return row.error.type, row.error.message

    def server_state(self, server: PollingServer) -> str:
        found = self.store.get_server(server.server_id)
        return "" if found is None else found.state


@contextmanager
def started(workshop: Workshop, *servers: PollingServer) -> Iterator[None]:
    """Servers at work in threads of their own; stopped at the end, which must not take long."""
    threads = [threading.Thread(target=server.start, daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    try:
        for server in servers:
            eventually(lambda server=server: workshop.server_state(server) == ServerState.RUNNING)  # type: ignore[misc]
        yield
    finally:
        for server in servers:
            server.stop()
        for thread in threads:
            thread.join(30)
    assert not any(thread.is_alive() for thread in threads)


def opened(kind: str, folder: Path, clock: Clock | None = None) -> AnyStore:
    """Return a store of a kind: memory or sqlite."""
    return MemoryStore(clock=clock) if kind == "memory" else SqliteStore(folder / "store.db", clock=clock)


def pay(payload: dict[str, object]) -> dict[str, object]:
    return {"receipt": f"r-{payload['order']}"}


def waits_for(event: threading.Event) -> Callable[[dict[str, object]], dict[str, object]]:
    """Return a handler of Pay that ends when the event is set."""

    def handle(payload: dict[str, object]) -> dict[str, object]:
        event.wait(60)
        return pay(payload)

    return handle
