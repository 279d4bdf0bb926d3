"""A MongoDB server that fails for a moment, or for good: what the store tries again, and what it says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from afl.config import MongoDBConfig
from afl.engine.errors import StoreUnavailable, WorkflowConflict
from afl.engine.model.store import Batch
from afl.stores.mongo.store import MongoStore
from tests.contract.store_rows import change, outbox_record, start, step_document, task, workflow_row
from tests.worlds.mongodb import a_database
from tools.mongodb import Server

pytestmark = pytest.mark.mongo


@pytest.fixture(scope="module")
def failing_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Provide a replica set of these tests' own: what it is told to do, it does to everybody."""
    folder = tmp_path_factory.mktemp("failing")
    with Server.start(folder, guardian_pid=os.getpid(), can_fail=True) as server:
        yield server.url


@pytest.fixture
def database(failing_server: str) -> Iterator[MongoDBConfig]:
    with a_database(failing_server) as config:
        yield config


@pytest.fixture
def store(database: MongoDBConfig) -> Iterator[MongoStore]:
    store = MongoStore.from_config(database)
    yield store
    store.close()


@contextmanager
def failing(database: MongoDBConfig, command: str, times: int = 1, **how: Any) -> Iterator[None]:
    """Provide the next so many commands of that name fail."""
    with MongoClient[dict[str, Any]](database.connection_string()) as client:
        data = {"failCommands": [command], **how}
        client.admin.command({"configureFailPoint": "failCommand", "mode": {"times": times}, "data": data})
        try:
            yield
        finally:
            client.admin.command({"configureFailPoint": "failCommand", "mode": "off"})


@pytest.mark.parametrize(
    ("command", "how"),
    [
        ("bulkWrite", {"errorCode": 112, "errorLabels": ["TransientTransactionError"]}),
        ("bulkWrite", {"closeConnection": True}),
        ("commitTransaction", {"closeConnection": True}),
        # The driver looks for a primary every ten seconds.
        pytest.param("commitTransaction", {"errorCode": 10107}, marks=pytest.mark.long),
        ("findAndModify", {"closeConnection": True}),
    ],
    ids=["another transaction is in the way", "lost while writing", "lost while committing", "a new primary", "lost"],
)
def test_a_commit_that_a_server_fails_once_is_made_once(
    store: MongoStore, database: MongoDBConfig, command: str, how: dict[str, Any]
) -> None:
    start(store, "w", step_document("w:a"))

    with failing(database, command, **how):
        batch = Batch(changes=[change(workflow_row("w", 2), step_document("w:b", number=1, revision=2))])
        batch.outbox.append(outbox_record("a"))
        store.commit_batch(batch)

    assert store.revisions(["w"]) == {"w": 2}
    assert [step.id for step in store.load_steps("w")] == ["w:a", "w:b"]
    assert len(store.outbox()) == 1


@pytest.mark.parametrize("command", ["find", "findAndModify"])
def test_a_read_and_a_claim_are_tried_again(store: MongoStore, database: MongoDBConfig, command: str) -> None:
    start(store, "w", step_document("w:a"))
    store.save_task(task("t", step_id="w:a"))

    with failing(database, command, closeConnection=True):
        assert store.revisions(["w"]) == {"w": 1}
        claimed = store.claim_task(["shop.Pay"], owner="one", lease_ms=1_000)

    assert claimed is not None
    assert store.claim_task(["shop.Pay"], owner="two", lease_ms=1_000) is None


def test_a_command_that_is_not_permitted_says_so_and_leaves_nothing(store: MongoStore, database: MongoDBConfig) -> None:
    start(store, "w", step_document("w:a"))

    with failing(database, "bulkWrite", errorCode=13), pytest.raises(StoreUnavailable):
        store.commit_batch(Batch(changes=[change(workflow_row("w", 2))]))

    assert store.revisions(["w"]) == {"w": 1}
    with pytest.raises(WorkflowConflict):
        store.commit_batch(Batch(changes=[change(workflow_row("w", 3))]))


@pytest.mark.parametrize(
    "standalone", [False, pytest.param(True, marks=pytest.mark.long)], ids=["replica set", "standalone"]
)
def test_a_server_that_went_away_is_said_to_be_and_is_used_again_when_it_is_back(
    tmp_path: Path, standalone: bool
) -> None:
    with Server.start(tmp_path / "server", guardian_pid=os.getpid(), standalone=standalone) as server:
        url, port = server.url, server.port
        store = MongoStore(url, "runs", timeout_s=0.2)
        start(store, "w", step_document("w:a"))

    with pytest.raises(StoreUnavailable, match=f"mongodb://127.0.0.1:{port}/runs"):
        store.load_workflow("w")
    with pytest.raises(StoreUnavailable):
        start(store, "v")
    store.close()

    with Server.start(tmp_path / "server", guardian_pid=os.getpid(), standalone=standalone) as server:
        again = MongoStore(server.url, "runs", create=False)
        assert [step.id for step in again.load_steps("w")] == ["w:a"]
        again.close()
