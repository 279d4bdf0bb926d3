"""The store that the settings name: a file of SQLite, or a database of MongoDB."""

from __future__ import annotations

from afl.core.clock import Clock
from afl.core.probes import Probe, no_probe
from afl.core.process.private_files import make_private_folder, protect
from afl.engine.errors import StoreUnavailable
from afl.stores.public.persistence import EngineStore
from afl_stream.settings.config import StreamConfig


def open_configured_store(
    config: StreamConfig,
    *,
    create: bool = True,
    clock: Clock | None = None,
    probe: Probe = no_probe,
) -> EngineStore:
    """Open the deployment's store; create it if it does not exist and `create` is true.

    Raises StoreMissing if it does not exist, StoreUnavailable, StoreCorrupt, ForeignStore.
    """
    if config.store.url is not None:
        return _in_mongodb(config, config.store.url, create, clock, probe)
    from afl.stores.sqlite.store import SqliteStore

    path = config.store_path
    if create:
        make_private_folder(path.parent)
    protect(path, config.data_dir)
    return SqliteStore(path, prefix=config.prefix, create=create, clock=clock, probe=probe)


def _in_mongodb(config: StreamConfig, url: str, create: bool, clock: Clock | None, probe: Probe) -> EngineStore:
    try:
        from afl.stores.mongo.store import MongoStore
    except ImportError as error:
        raise StoreUnavailable(
            path="in MongoDB", reason="pymongo is not installed; install the extra: afl-stream[mongodb]"
        ) from error
    return MongoStore(url, prefix=config.prefix, create=create, clock=clock, probe=probe)
