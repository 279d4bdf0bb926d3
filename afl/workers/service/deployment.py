"""The places of a runner's store and flows, from the command line, the environment and the configuration file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from afl.engine.errors import RuntimeError as EngineError
from afl.engine.errors import StoreUnavailable
from afl.engine.model.entities import FlowDefinition, FlowIdentity, SourceText
from afl.stores.public.persistence import EngineStore

if TYPE_CHECKING:
    from afl.config import MongoDBConfig

#: The variables that `afl-stream` reads too, so that both find the same store.
STORE_URL: Final = "AFL_STORE_URL"
STORE_PATH: Final = "AFL_STORE_PATH"
PREFIX: Final = "AFL_PREFIX"
#: The variables that configure a MongoDB, when no other store is named.
_CONFIGURED_BY: Final = ("AFL_CONFIG", "AFL_MONGODB_URL")

_MONGODB: Final = ("mongodb://", "mongodb+srv://")


class NoStoreNamed(EngineError):
    """A runner was started without naming its store."""

    def __init__(self) -> None:
        super().__init__(
            "no store is named; give --store with the path of a SQLite file or a mongodb:// url, or set "
            f"{STORE_PATH} or {STORE_URL}, or name a MongoDB in a configuration file (--config)"
        )


def open_store(named: str | None, config_file: str | None, prefix: str | None) -> EngineStore:
    """Open the store: the one that is `named`, else the environment's, else the configuration's MongoDB.

    Raises NoStoreNamed, StoreUnavailable, StoreCorrupt, ForeignStore, and the errors of a configuration file.
    """
    given = named or os.environ.get(STORE_URL) or os.environ.get(STORE_PATH)
    prefix = prefix if prefix is not None else os.environ.get(PREFIX, "afl.")
    if given is None:
        config = mongodb_config(config_file)
        if config is None:
            raise NoStoreNamed
        return _mongo_store()(config.connection_string(), config.database, prefix=prefix)
    if given.startswith(_MONGODB):
        return _mongo_store()(given, prefix=prefix)
    from afl.stores.sqlite.store import SqliteStore

    return SqliteStore(Path(given), prefix=prefix)


def mongodb_config(config_file: str | None) -> MongoDBConfig | None:
    """Return the MongoDB of the configuration; None without one. Raises ConfigUnreadable, WrongSetting."""
    if config_file is None and not any(os.environ.get(name) for name in _CONFIGURED_BY):
        return None
    from afl.config import load_config

    return load_config(config_file).mongodb


class PublishedFlows:
    """The flows that `afl publish` writes, by their ids."""

    def __init__(self, config: MongoDBConfig) -> None:
        self._config = config

    def get_by_id(self, flow_id: str) -> FlowDefinition | None:
        """Return the flow, its texts and its program. Raises StoreUnavailable when MongoDB is unavailable."""
        from afl.sources.mongo import MongoDBUnavailable, MongoSources

        try:
            with MongoSources(self._config) as database:
                found = database.flow(flow_id)
        except MongoDBUnavailable as error:
            raise StoreUnavailable(path="the flows", reason=str(error)) from error
        return None if found is None else _flow(found)


def _flow(found: Mapping[str, Any]) -> FlowDefinition:
    name = found.get("name") or {}
    return FlowDefinition(
        uuid=str(found["uuid"]),
        name=FlowIdentity(
            name=str(name.get("name", "")), path=str(name.get("path", "")), uuid=str(name.get("uuid", found["uuid"]))
        ),
        compiled_sources=[
            SourceText(str(text.get("name", "")), str(text.get("content", "")), str(text.get("language", "afl")))
            for text in found.get("compiled_sources") or ()
        ],
    )


def _mongo_store() -> Callable[..., EngineStore]:
    try:
        from afl.stores.mongo.store import MongoStore
    except ImportError as error:
        raise StoreUnavailable(
            path="in MongoDB", reason="pymongo is not installed; install the extra: afl-stream[mongodb]"
        ) from error
    return MongoStore
