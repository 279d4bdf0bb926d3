"""The stores of a deployment's parties: in memory, in a SQLite file, in a MongoDB database."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Final, Protocol

from pymongo import MongoClient

from afl.core.clock import Clock
from afl.stores.memory.store import MemoryStore
from afl.stores.mongo.store import MongoStore
from afl.stores.public.persistence import EngineStore
from afl.stores.sqlite.store import SqliteStore
from afl_stream.embedded.transport import Faults
from afl_stream.evaluator.stores import open_configured_store
from afl_stream.settings.config import StreamConfig

#: What died is in this process: no other party waits long for it.
_LEASE_MS: Final = 50


class Stores(Protocol):
    """Opens the store of one deployment, for each of its parties."""

    def open(self, config: StreamConfig, clock: Clock, faults: Faults) -> EngineStore:
        """Another connection to the store, as another process has it."""

    def crash(self) -> None:
        """Close all connections, as the end of a process does."""

    def delete(self) -> None:
        """Remove what is left outside the test's folder."""


class OneStore:
    """A store that lives in the test's process, and that all parties share."""

    def __init__(self, make: Callable[[StreamConfig, Clock], EngineStore]) -> None:
        self._make = make
        self._made: EngineStore | None = None

    def open(self, config: StreamConfig, clock: Clock, faults: Faults) -> EngineStore:
        if self._made is None:
            self._made = self._make(config, clock)
        return self._made

    def crash(self) -> None:
        """Nothing is held."""

    def delete(self) -> None:
        """Nothing is left."""


def in_memory() -> OneStore:
    return OneStore(lambda config, clock: MemoryStore(prefix=config.prefix, clock=clock))


class _Connections:
    """The open connections of a store that outlives them."""

    def __init__(self) -> None:
        self._open: list[EngineStore] = []

    def crash(self) -> None:
        for store in self._open:
            store.close()
        self._open.clear()

    def delete(self) -> None:
        """Nothing is left."""


class SqliteStores(_Connections):
    """The file of the settings."""

    def open(self, config: StreamConfig, clock: Clock, faults: Faults) -> EngineStore:
        self._open.append(SqliteStore(config.store_path, prefix=config.prefix, clock=clock, probe=faults.probe))
        return self._open[-1]


class MongoStores(_Connections):
    """A database that no other deployment has."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._database = f"t{uuid.uuid4().hex[:12]}"

    def open(self, config: StreamConfig, clock: Clock, faults: Faults) -> EngineStore:
        store = MongoStore(
            self._url,
            self._database,
            prefix=config.prefix,
            clock=clock,
            commit_lease_ms=_LEASE_MS,
            probe=faults.probe,
        )
        self._open.append(store)
        return store

    def delete(self) -> None:
        with MongoClient[dict[str, object]](self._url) as client:
            client.drop_database(self._database)


class ConfiguredStores(_Connections):
    """What the settings say, as the command opens it, by the clock of this machine."""

    def open(self, config: StreamConfig, clock: Clock, faults: Faults) -> EngineStore:
        self._open.append(open_configured_store(config, probe=faults.probe))
        return self._open[-1]
