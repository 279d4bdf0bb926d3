"""The store that the settings name: a file of SQLite, or a database of MongoDB."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from afl.core.clock import Clock
from afl.core.probes import Probe, no_probe
from afl.core.process.private_files import make_private_folder, protect
from afl.engine.errors import StoreUnavailable
from afl.stores.public.persistence import EngineStore
from afl_stream.evaluator.parts.parted_store import as_store
from afl_stream.partitioner import partition_for
from afl_stream.settings.config import StreamConfig
from afl_stream.settings.store_parts import StorePart, StoreParts, part_path, parts_of


def open_configured_store(
    config: StreamConfig,
    *,
    create: bool = True,
    clock: Clock | None = None,
    probe: Probe = no_probe,
    part: StorePart | None = None,
    timeout_s: float | None = None,
) -> EngineStore:
    """Open the deployment's store; create it if it does not exist and `create` is true.

    A store in several parts is opened as one for reading (see PartedStore), or that `part` of it alone. `timeout_s` is
    how long a server is waited for, where not as long as usual.

    Raises StoreMissing if it does not exist, StoreUnavailable, StoreCorrupt, ForeignStore, StorePartsUnreadable.
    """
    if config.store.url is not None:
        return _in_mongodb(config, config.store.url, create, clock, probe, timeout_s)
    base = config.store_path
    if part is not None:
        return _in_file(config, part_path(base, part), create, clock, probe)
    parts = parts_of(base)
    if parts is None:
        return _in_file(config, base, create, clock, probe)
    return _in_parts(config, base, parts, create, clock, probe)


def parts_index(config: StreamConfig, count: int) -> Callable[[str], int]:
    """Return the function that tells which of so many parts of a store a workflow, or a schedule, is in."""
    return lambda key: partition_for(key.encode(), config.topics.control_partitions) % count


def _in_file(config: StreamConfig, path: Path, create: bool, clock: Clock | None, probe: Probe) -> EngineStore:
    from afl.stores.sqlite.store import SqliteStore

    if create:
        make_private_folder(path.parent)
    protect(path, config.data_dir)
    return SqliteStore(path, prefix=config.prefix, create=create, clock=clock, probe=probe)


def _in_parts(
    config: StreamConfig, base: Path, parts: StoreParts, create: bool, clock: Clock | None, probe: Probe
) -> EngineStore:
    opened: list[EngineStore] = []
    try:
        for part in parts.all():
            opened.append(_in_file(config, part_path(base, part), create, clock, probe))
    except BaseException:
        for store in opened:
            store.close()
        raise
    return as_store(opened, parts_index(config, parts.count))


def _in_mongodb(
    config: StreamConfig, url: str, create: bool, clock: Clock | None, probe: Probe, timeout_s: float | None
) -> EngineStore:
    try:
        from afl.stores.mongo.store import MongoStore
    except ImportError as error:
        raise StoreUnavailable(
            path="in MongoDB", reason="pymongo is not installed; install the extra: afl-stream[mongodb]"
        ) from error
    if timeout_s is None:
        return MongoStore(url, prefix=config.prefix, create=create, clock=clock, probe=probe)
    return MongoStore(url, prefix=config.prefix, create=create, clock=clock, probe=probe, timeout_s=timeout_s)
