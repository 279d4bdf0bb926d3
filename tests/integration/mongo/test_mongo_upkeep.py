"""The MongoDB store keeps the contract of those who check and purge it, and the versions of all it keeps.

What stands in a collection is the same on both kinds of server: what only reads runs on one of them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import OperationFailure

from afl.config import MongoDBConfig
from afl.core.clock import ManualClock
from afl.engine.errors import StoreCorrupt, VersionMismatchError
from afl.engine.model.entities import TaskDefinition
from afl.engine.model.store import StepDocument, WorkflowRow
from afl.stores.maintenance.check import Inspection
from afl.stores.mongo.documents import entity_values, step_values, workflow_values
from afl.stores.mongo.store import MongoStore
from tests.contract.identity_contract import IdentityContract
from tests.contract.inspection_contract import Damage, InspectionContract
from tests.contract.store_rows import WholeStore
from tests.contract.upkeep_contract import PurgeContract, UpkeepContract
from tests.contract.versions_contract import Rewrite, VersionsContract
from tests.scenarios.working_stores import check_while_others_work

#: The collections that are not named as tables are.
_COLLECTIONS: Final = {"workflow": "workflows", "step": "steps", "program": "programs"}
_VERSIONS_OF_DOCUMENT: Final = re.compile(rb'^\["([^"]*)"')


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


class TestUpkeepInMongo(UpkeepContract, PurgeContract, IdentityContract):
    @pytest.fixture
    def store(self, mongodb_of_either_kind: MongoDBConfig, clock: ManualClock) -> Iterator[WholeStore]:
        store = MongoStore.from_config(mongodb_of_either_kind, clock=clock)
        yield store
        store.close()


# In the long run: memory and SQLite say the same in `make test`.
@pytest.mark.long
class TestVersionsInMongo(VersionsContract):
    @pytest.fixture
    def store(self, mongodb: MongoDBConfig, clock: ManualClock) -> Iterator[WholeStore]:
        store = MongoStore.from_config(mongodb, clock=clock)
        yield store
        store.close()

    @pytest.fixture
    def database(self, mongodb: MongoDBConfig) -> Iterator[Database[dict[str, Any]]]:
        with MongoClient[dict[str, Any]](mongodb.connection_string()) as client:
            yield client[mongodb.database]

    @pytest.fixture
    def rewrite(self, database: Database[dict[str, Any]]) -> Rewrite:
        def write(kind: str, versions: str) -> None:
            collection = database[_COLLECTIONS.get(kind, kind)]
            if kind == "program":
                collection.update_many({}, {"$set": {"versions": versions}})
                return
            for found in collection.find():
                changed = _VERSIONS_OF_DOCUMENT.sub(f'["{versions}"'.encode(), found["document"])
                collection.update_one({"_id": found["_id"]}, {"$set": {"document": changed}})

        return write

    @pytest.fixture
    def versions_in(self, database: Database[dict[str, Any]]) -> Callable[[str], list[str]]:
        def read(kind: str) -> list[str]:
            documents = list(database[_COLLECTIONS.get(kind, kind)].find())
            if kind == "program":
                return [found["versions"] for found in documents]
            found = [_VERSIONS_OF_DOCUMENT.match(document["document"]) for document in documents]
            return [match[1].decode() for match in found if match is not None]

        return read


class MongoDamage:
    """Changes the collections."""

    def __init__(self, database: Database[dict[str, Any]]) -> None:
        self._database = database

    def put_workflow(self, row: WorkflowRow) -> None:
        self._database["workflows"].update_one({"_id": row.id}, {"$set": workflow_values(row)})

    def delete_workflow(self, workflow_id: str) -> None:
        self._database["workflows"].delete_one({"_id": workflow_id})

    def put_step(self, step: StepDocument) -> None:
        self._database["steps"].update_one({"_id": step.id}, {"$set": step_values(step)}, upsert=True)

    def delete_step(self, step_id: str) -> None:
        self._database["steps"].delete_one({"_id": step_id})

    def put_program(self, fingerprint: str, content: bytes) -> None:
        self._database["programs"].update_one({"_id": fingerprint}, {"$set": {"content": content}}, upsert=True)

    def delete_program(self, fingerprint: str) -> None:
        self._database["programs"].delete_one({"_id": fingerprint})

    def put_task(self, task: TaskDefinition) -> None:
        with contextlib.suppress(OperationFailure):
            self._database["tasks"].drop_index("event_stepId_running_unique_index")
        self._database["tasks"].update_one({"_id": task.uuid}, {"$set": entity_values(task)}, upsert=True)

    def delete_task(self, task_id: str) -> None:
        self._database["tasks"].delete_one({"_id": task_id})


# In the long run: memory and SQLite say the same in `make test`.
@pytest.mark.long
class TestChecksInMongo(InspectionContract):
    @pytest.fixture
    def store(self, mongodb: MongoDBConfig, clock: ManualClock) -> Iterator[WholeStore]:
        store = MongoStore.from_config(mongodb, clock=clock)
        yield store
        store.close()

    @pytest.fixture
    def damage(self, mongodb: MongoDBConfig) -> Iterator[Damage]:
        with MongoClient[dict[str, Any]](mongodb.connection_string()) as client:
            yield MongoDamage(client[mongodb.database])


def test_ids_that_are_no_text_are_named_and_the_rest_is_checked(mongodb: MongoDBConfig) -> None:
    store = MongoStore.from_config(mongodb)
    with MongoClient[dict[str, Any]](mongodb.connection_string()) as client:
        for name in ("workflows", "outbox", "parked", "tasks"):
            client[mongodb.database][name].insert_one({"_id": b"\xff\x80", "status": "RUNNING", "runnable": True})
    inspection = Inspection(store=store, pause=lambda _: None)
    found = [str(finding) for finding in inspection.findings()]
    calls: list[Callable[[], object]] = [
        lambda: store.workflow_ids(), lambda: store.runnable_workflows(), lambda: store.list_workflows(),
        lambda: store.revisions(["w"]), lambda: store.outbox(after=-1), lambda: store.parked(),
    ]  # fmt: skip
    for call in calls:
        with contextlib.suppress(StoreCorrupt):
            call()
    store.close()

    assert any(line.startswith("workflow.unreadable") and r"\xff\x80" in line for line in found), found
    assert any(line.startswith("parked.unreadable") and r"\xff\x80" in line for line in found), found
    # What the test server does not know, or does not let us ask, is told and no finding.
    assert not [line for line in found if line.startswith("database.check")]


def test_a_check_beside_evaluators_and_a_purge_gives_no_false_alarm(mongodb_of_either_kind: MongoDBConfig) -> None:
    assert check_while_others_work(lambda: MongoStore.from_config(mongodb_of_either_kind), programs=3) == []


def test_a_database_that_a_newer_release_made_is_not_opened(mongodb_of_either_kind: MongoDBConfig) -> None:
    MongoStore.from_config(mongodb_of_either_kind).close()
    with MongoClient[dict[str, Any]](mongodb_of_either_kind.connection_string()) as client:
        identity = client[mongodb_of_either_kind.database]["store"]
        identity.update_one({"_id": "identity"}, {"$set": {"versions": "1.0 9.0 0.1.0"}})

    with pytest.raises(VersionMismatchError, match=r"step_schema_version has version 9\.0.*upgrade"):
        MongoStore.from_config(mongodb_of_either_kind)
