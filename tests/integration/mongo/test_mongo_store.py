"""The MongoDB store keeps the contract, on a replica set and on a standalone server, and survives its processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from afl.config import MongoDBConfig
from afl.core.clock import ManualClock
from afl.engine.errors import (
    DocumentTooLarge,
    ForeignStore,
    StoreCorrupt,
    StoreMissing,
    StoreUnavailable,
    WorkflowConflict,
)
from afl.engine.model.entities import HandlerRegistration, ServerDefinition, TaskState
from afl.engine.model.store import Batch, PositionMove
from afl.stores.mongo.documents import COLLECTION_OF, Arrivals
from afl.stores.mongo.store import MongoStore
from afl.stores.mongo.writes import Writes
from tests.contract.public_face_contract import PublicFaceContract
from tests.contract.store_contract import DurableContract, StoreContract
from tests.contract.store_rows import (
    CONTROL_0,
    WholeStore,
    change,
    in_threads,
    outbox_record,
    start,
    step_document,
    task,
    workflow_row,
)
from tests.contract.visibility_contract import VisibilityContract
from tests.contract.waiting_contract import DurableWaitingContract, WaitingContract
from tests.eventually import eventually
from tests.unit.engine.restarts import ForgetfulEngine
from tests.worlds.mongodb import server_of_the_run

ROOT = Path(__file__).parents[3]
STORES_PAGE = ROOT / "docs" / "stores.md"


@pytest.fixture
def database(mongodb_of_either_kind: MongoDBConfig) -> MongoDBConfig:
    return mongodb_of_either_kind


class TestMongoStore(
    StoreContract, PublicFaceContract, VisibilityContract, WaitingContract, DurableContract, DurableWaitingContract
):
    @pytest.fixture
    def store(self, database: MongoDBConfig, clock: ManualClock) -> Iterator[WholeStore]:
        store = MongoStore.from_config(database, clock=clock)
        yield store
        store.close()

    @pytest.fixture
    def reopen(self, database: MongoDBConfig, clock: ManualClock) -> Iterator[Callable[[], WholeStore]]:
        opened: list[MongoStore] = []

        def open_again() -> WholeStore:
            opened.append(MongoStore(database.connection_string(), database.database, create=False, clock=clock))
            return opened[-1]

        yield open_again
        for store in opened:
            store.close()


@pytest.fixture
def store(database: MongoDBConfig) -> Iterator[MongoStore]:
    store = MongoStore.from_config(database)
    yield store
    store.close()


def test_iterations_that_completed_keep_their_yields_when_the_failed_one_is_caught_after_a_restart(
    store: MongoStore,
) -> None:
    engine = ForgetfulEngine(
        """
        event facet E(x: Json) => (r: Json)
        workflow W(a: [Json] = [0, 1, 2]) => (out: [Json]) andThen foreach x in $.a {
            e = E(x = $.x)
            yield W(out = [e.r])
        } catch {
            c = E(x = $.error)
            yield W(out = [c.r])
        }""",
        store=store,
    )
    engine.start()
    engine.answer("[2].e", {"r": 2})
    engine.fail("[1].e")
    engine.answer("[0].e", {"r": 0})

    assert engine.answer("catch.c", {"r": "caught"}).outputs == {"out": [0, 2, "caught"]}


def test_a_closed_store_says_so(store: MongoStore) -> None:
    store.close()

    with pytest.raises(StoreUnavailable, match="closed"):
        store.load_workflow("w")
    with pytest.raises(StoreUnavailable, match="closed"):
        start(store, "w")
    store.close()


def test_the_collections_and_indexes_have_the_names_of_the_specs(store: MongoStore, database: MongoDBConfig) -> None:
    store.save_handler_registration(HandlerRegistration(facet_name="shop.Pay", module_uri="desk"))

    with MongoClient[dict[str, Any]](database.connection_string()) as client:
        found = client[database.database]
        index = found["tasks"].index_information()["event_stepId_running_unique_index"]
        assert "handler_registrations" in found.list_collection_names()
        assert (index["unique"], index["partialFilterExpression"]["state"]) == (True, "running")


def test_the_page_about_stores_names_every_collection_and_index(store: MongoStore, database: MongoDBConfig) -> None:
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| [^|]+ \| ([^|]*) ?\|$", STORES_PAGE.read_text(), re.MULTILINE)
    reported = {
        name: set(re.findall(r"`(\w+)`", indexes)) for names, indexes in rows for name in names[1:-1].split("`, `")
    }

    with MongoClient[dict[str, Any]](database.connection_string()) as client:
        found = client[database.database]
        made = {name: set(found[name].index_information()) - {"_id_"} for name in found.list_collection_names()}
    assert reported == {name: set[str]() for name in COLLECTION_OF.values()} | {"commit_parts": set()} | made


def test_threads_that_commit_different_workflows_all_succeed(store: MongoStore) -> None:
    numbers = iter(range(100))

    def commit() -> None:
        workflow_id = f"w{next(numbers)}"
        for revision in range(1, 6):
            document = step_document(f"{workflow_id}:a", revision=revision)
            batch = Batch(changes=[change(workflow_row(workflow_id, revision), document)])
            store.commit_batch(replace(batch, outbox=[outbox_record(f"{workflow_id}/{revision}")]))

    in_threads(commit, 4)

    assert store.revisions([f"w{n}" for n in range(4)]) == {f"w{n}": 5 for n in range(4)}
    assert len({stored.sequence for stored in store.outbox()}) == 20


def test_a_commit_larger_than_a_document_can_be_is_written_whole(standalone_mongodb: MongoDBConfig) -> None:
    store = MongoStore.from_config(standalone_mongodb)
    filler = "x" * 1_000_000
    steps = [step_document(f"w:{number}", number=number, params={"filler": filler}) for number in range(17)]

    start(store, "w", *steps)
    store.commit_batch(Batch(changes=[change(workflow_row("w", 2))]))

    assert [step.id for step in store.load_steps("w")] == [step.id for step in steps]
    store.close()


def test_what_no_document_can_hold_is_refused_by_name_and_the_store_continues(store: MongoStore) -> None:
    start(store, "w", step_document("w:a"))
    large = step_document("w:a", revision=2, params={"filler": "x" * 16_000_000})

    with pytest.raises(DocumentTooLarge, match="steps/w:a takes 16,000,"):
        store.commit_batch(Batch(changes=[change(workflow_row("w", 2), large)]))

    assert store.revisions(["w"]) == {"w": 1}
    assert issubclass(DocumentTooLarge, ValueError)


def test_processes_that_open_a_new_store_at_once_all_find_it_whole(database: MongoDBConfig) -> None:
    stores: list[MongoStore] = []
    names = [f"w{number}" for number in range(6)]

    def open_and_write() -> None:
        store = MongoStore.from_config(database)
        stores.append(store)
        name = names.pop()
        start(store, name, step_document(f"{name}:a"))

    in_threads(open_and_write, 6)

    assert len(stores[0].list_workflows()) == 6
    with MongoClient[dict[str, Any]](database.connection_string()) as client:
        found = client[database.database]
        assert "event_stepId_running_unique_index" in found["tasks"].index_information()
        assert {found["store"].count_documents({"_id": name}) for name in ("identity", "outbox", "head")} == {1}
    for store in stores:
        store.close()


def test_a_heartbeat_waits_for_nobody_and_changes_only_its_time(store: MongoStore, database: MongoDBConfig) -> None:
    server = ServerDefinition("s", "group", "service", "name", handlers=["shop.Pay"])
    store.save_server(server)
    with MongoClient[dict[str, Any]](database.connection_string()) as client:
        # The holder of the lock is dead.
        client[database.database]["store"].update_one({"_id": "lock"}, {"$set": {"holder": "dead"}})

    store.update_server_ping("s", 17)
    store.update_server_ping("unknown", 17)

    assert store.get_all_servers() == [replace(server, ping_time=17)]
    store.save_server(replace(server, ping_time=18))
    assert store.get_server("s") == replace(server, ping_time=18)


OTHER_PROCESS = """
import os, signal, sys
from afl.stores.mongo.store import MongoStore
from afl.engine.model.store import Batch, PositionMove
from tests.contract.store_rows import CONTROL_0, change, outbox_record, step_document, workflow_row
def crash(step):
    if step == f"store.{sys.argv[3]}":
        os.kill(os.getpid(), signal.SIGKILL)
MongoStore(sys.argv[1], sys.argv[2], probe=crash).commit_batch(
    Batch(
        changes=[change(workflow_row("w", 2), step_document("w:b", number=1, revision=2))],
        outbox=[outbox_record("a")],
        positions=[PositionMove(position=CONTROL_0, expected=None, next_offset=5)],
    )
)
"""


def killed_at(database: MongoDBConfig, step: str, *, leaves_all: bool) -> None:
    """Check that a process killed at a step of its commit leaves all of it, or nothing."""
    store = MongoStore.from_config(database)
    start(store, "w", step_document("w:a"))
    store.close()

    arguments = [database.connection_string(), database.database, step]
    killed = subprocess.run([sys.executable, "-c", OTHER_PROCESS, *arguments], cwd=ROOT, check=False)

    assert killed.returncode == -signal.SIGKILL
    store = MongoStore(database.connection_string(), database.database, commit_lease_ms=50)
    assert store.revisions(["w"]) == {"w": 2 if leaves_all else 1}
    assert [step.id for step in store.load_steps("w")] == (["w:a", "w:b"] if leaves_all else ["w:a"])
    assert len(store.outbox()) == leaves_all
    assert store.positions() == ({CONTROL_0: 5} if leaves_all else {})
    store.commit_batch(Batch(changes=[change(workflow_row("v"))]))
    store.close()


@pytest.mark.mongo
@pytest.mark.parametrize(("step", "leaves_all"), [("written", False), ("committed", True)])
def test_a_process_killed_in_a_transaction_leaves_all_of_a_commit_or_nothing(
    tmp_path: Path, step: str, leaves_all: bool
) -> None:
    # A server of the test's own: it keeps the transaction for a while, and others would wait for it.
    with server_of_the_run(tmp_path, guardian_pid=os.getpid()) as url:
        killed_at(MongoDBConfig(url=url, database="killed"), step, leaves_all=leaves_all)


@pytest.mark.parametrize(
    ("step", "leaves_all"), [("compared", False), ("written", True), ("applied", True), ("committed", True)]
)
def test_a_commit_document_whose_writer_was_killed_is_finished_at_the_next_start(
    standalone_mongodb: MongoDBConfig, step: str, leaves_all: bool
) -> None:
    killed_at(standalone_mongodb, step, leaves_all=leaves_all)


def test_a_commit_document_is_finished_by_the_store_that_was_interrupted_and_by_one_beside_it(
    standalone_mongodb: MongoDBConfig,
) -> None:
    def interrupt(step: str) -> None:
        if step == "store.written":
            raise KeyboardInterrupt

    url, name = standalone_mongodb.connection_string(), standalone_mongodb.database
    beside = MongoStore(url, name, commit_lease_ms=50)
    interrupted = MongoStore(url, name, probe=interrupt)
    with pytest.raises(KeyboardInterrupt):
        start(interrupted, "v", step_document("v:a"))
    assert interrupted.revisions(["v"]) == {"v": 1}
    with pytest.raises(KeyboardInterrupt):
        start(interrupted, "w", step_document("w:a"))

    with pytest.raises(WorkflowConflict):
        start(beside, "w")

    assert [step.id for step in beside.load_steps("w")] == ["w:a"]
    interrupted.close()
    beside.close()


def test_who_only_reads_finishes_a_commit_that_was_left_half_applied(standalone_mongodb: MongoDBConfig) -> None:
    def interrupt(step: str) -> None:
        if step == "store.written":
            raise KeyboardInterrupt

    url, name = standalone_mongodb.connection_string(), standalone_mongodb.database
    reader = MongoStore(url, name, commit_lease_ms=20)
    start(reader, "w", step_document("w:a"))
    interrupted = MongoStore(url, name, probe=interrupt)
    with pytest.raises(KeyboardInterrupt):
        interrupted.commit_batch(Batch(changes=[change(workflow_row("w", 2), step_document("w:a", revision=2))]))

    eventually(lambda: reader.revisions(["w"]) == {"w": 2})

    assert [step.revision for step in reader.load_steps("w")] == [2]
    interrupted.close()
    reader.close()


def test_a_commit_that_was_taken_over_too_early_is_done_when_its_writer_is_through_with_it(
    standalone_mongodb: MongoDBConfig,
) -> None:
    def take_over(step: str) -> None:
        if step == "store.applied":
            # By a process that thinks this one dead, and is slower with it.
            with MongoClient[dict[str, Any]](url) as client:
                client[name]["store"].update_one(
                    {"_id": "head"}, {"$set": {"pending.writer": "another"}, "$inc": {"beats": 1}}
                )

    url, name = standalone_mongodb.connection_string(), standalone_mongodb.database
    # A wait for the other process would last ten minutes.
    store = MongoStore(url, name, commit_lease_ms=600_000, probe=take_over)

    start(store, "v", step_document("v:a"))
    start(store, "w", step_document("w:a"))

    assert store.revisions(["v", "w"]) == {"v": 1, "w": 1}
    store.close()


def test_a_commit_document_shows_steps_before_their_workflow_and_tasks_last() -> None:
    # The process that claims a task answers its step at once, and must find it.
    batch = Batch(changes=[change(workflow_row("w"), step_document("w:a"))], tasks=[task("w:a#1", step_id="w:a")])

    writes = Writes.of_batch(replace(batch, outbox=[outbox_record("a")]), Arrivals())
    operations = writes.operations(1, compared_last=True)

    assert [operation.collection for operation in operations] == ["steps", "outbox", "workflows", "tasks"]


def test_a_task_that_was_claimed_before_its_commit_was_finished_stays_claimed(
    standalone_mongodb: MongoDBConfig,
) -> None:
    def interrupt(step: str) -> None:
        if step == "store.applied":
            raise KeyboardInterrupt

    url, name = standalone_mongodb.connection_string(), standalone_mongodb.database
    agent = MongoStore(url, name)
    evaluator = MongoStore(url, name, probe=interrupt)
    with pytest.raises(KeyboardInterrupt):
        evaluator.commit_batch(Batch(tasks=[task("t", step_id="w:a")]))
    assert agent.claim_task(["shop.Pay"], owner="agent") is not None

    evaluator.close()
    MongoStore(url, name, commit_lease_ms=0).close()

    assert agent.claim_task(["shop.Pay"]) is None
    held = agent.get_task("t")
    assert held is not None
    assert (held.state, held.owner) == (TaskState.RUNNING, "agent")
    agent.close()


# What goes over the wire.


class Commands(CommandListener):
    """Counts commands, those of the connection itself aside."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name not in ("hello", "endSessions"):
            self.names.append(event.command_name)

    def succeeded(self, event: CommandSucceededEvent) -> None:
        pass

    def failed(self, event: CommandFailedEvent) -> None:
        pass


@pytest.mark.parametrize(
    ("in_transaction", "in_document", "batch"),
    [
        (2, 4, Batch(changes=[change(workflow_row("w"), *(step_document(f"w:{n}", number=n) for n in range(500)))])),
        (3, 6, Batch(
            changes=[change(workflow_row("w"), step_document("w:a"))],
            outbox=[outbox_record("a"), outbox_record("b")],
            published=[(1, 5), (7, 9)],
            positions=[PositionMove(position=CONTROL_0, expected=None, next_offset=5)],
        )),
    ],
    ids=["an iteration", "a batch of the control loop"],
)  # fmt: skip
def test_a_commit_takes_no_more_commands_than_it_touches_collections_and_one(
    database: MongoDBConfig, batch: Batch, in_transaction: int, in_document: int
) -> None:
    commands = Commands()
    with MongoClient[dict[str, Any]](database.connection_string(), event_listeners=[commands]) as client:
        store = MongoStore(database_name=database.database, client=client)
        # The first commit makes the collections.
        start(store, "before", step_document("before:a"))
        commands.names.clear()

        store.commit_batch(batch)

    # Workflows and steps, and what a commit document stands on; then the outbox with its counter, and positions.
    is_small = not batch.outbox
    wanted = in_transaction if "commitTransaction" in commands.names else in_document
    assert len(commands.names) == wanted
    assert wanted <= (3 if is_small else 5) + 1


# Databases that are not ours, and servers that are not there.


def test_a_store_of_another_prefix_is_named_and_left_alone(store: MongoStore, database: MongoDBConfig) -> None:
    with pytest.raises(ForeignStore) as caught:
        MongoStore.from_config(database, prefix="tenant.")

    assert (caught.value.found, caught.value.expected) == (
        "the store of topic prefix 'afl.'",
        "that of prefix 'tenant.'",
    )


def test_a_store_of_a_newer_format_is_refused(store: MongoStore, database: MongoDBConfig) -> None:
    with MongoClient[dict[str, Any]](database.connection_string()) as client:
        client[database.database]["store"].update_one({"_id": "identity"}, {"$set": {"format": 99}})

    with pytest.raises(ForeignStore, match="format 99"):
        MongoStore.from_config(database)


def test_a_store_is_made_only_when_told(database: MongoDBConfig) -> None:
    with pytest.raises(StoreMissing, match="no store in this database"):
        MongoStore(database.connection_string(), database.database, create=False)


def test_a_server_that_is_not_there_is_named_without_who_asks() -> None:
    with pytest.raises(StoreUnavailable) as caught:
        MongoStore("mongodb://ann:secret@127.0.0.1:1/orders", timeout_s=0.01)

    assert caught.value.path == "mongodb://127.0.0.1:1/orders"
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["mongodb://", "mongodb://host:port/x", "http://host"])
def test_an_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(StoreUnavailable):
        MongoStore(url, timeout_s=0.01)


@pytest.mark.parametrize(
    ("collection", "named"), [("steps", "step w:a"), ("workflows", "workflow w"), ("tasks", "an entry of tasks")]
)
def test_a_damaged_document_is_corrupt_and_named(
    store: MongoStore, database: MongoDBConfig, collection: str, named: str
) -> None:
    start(store, "w", step_document("w:a"))
    store.save_task(task("t"))
    with MongoClient[dict[str, Any]](database.connection_string()) as client:
        client[database.database][collection].update_many({}, {"$set": {"document": b"[1"}})

    with pytest.raises(StoreCorrupt, match=named):
        (store.load_steps("w"), store.load_workflow("w"), store.get_task("t"))
