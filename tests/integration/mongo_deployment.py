"""Scenario deployments whose evaluators share a MongoDB database; everything else is in the test's process."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final

from pymongo import MongoClient

from afl.stores.mongo.store import MongoStore
from afl.stores.public.persistence import EngineStore
from afl_stream.embedded.transport import Faults
from tests.scenarios.loop_harness import Deployment, StoreOpener, store_elsewhere

#: What died is in this process: nobody waits long for it.
_LEASE_MS: Final = 50


@contextmanager
def deployments_on(url: str) -> Iterator[None]:
    """Every deployment that is made inside has a database of its own there; all are closed and dropped at the end."""
    databases: list[str] = []
    stores: list[MongoStore] = []

    def new_database() -> StoreOpener:
        name = f"t{uuid.uuid4().hex[:12]}"
        databases.append(name)

        def open_store(deployment: Deployment, faults: Faults) -> EngineStore:
            store = MongoStore(
                url,
                name,
                prefix=deployment.config.prefix,
                clock=deployment.clock,
                commit_lease_ms=_LEASE_MS,
                probe=faults.probe,
            )
            stores.append(store)
            return store

        return open_store

    token = store_elsewhere.set(new_database)
    try:
        yield
    finally:
        store_elsewhere.reset(token)
        for store in stores:
            store.close()
        with MongoClient[dict[str, object]](url) as client:
            for name in databases:
                client.drop_database(name)


def scenarios_of(*modules: ModuleType) -> dict[str, object]:
    """Return the tests of some modules, and the fixtures that they ask for, to be collected in another module too."""
    found: dict[str, object] = {}
    for module in modules:
        for name, value in vars(module).items():
            is_fixture = type(value).__name__ == "FixtureFunctionDefinition"
            is_test = name.startswith("test_") and getattr(value, "__module__", "") == module.__name__
            if is_fixture or is_test:
                assert name not in found, f"{name} is there twice"
                found[name] = value
    return found
