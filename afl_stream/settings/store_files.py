"""The file of the data directory that is the store: the embedded log has one, and a Kafka cluster another.

Positions in a store point into one log, so the two never share a file. Earlier releases had one name for both,
`store.sqlite3`: it stays the store of the log that was read into it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

#: The embedded log's; until releases before this one also a cluster's.
STORE_FILE: Final = "store.sqlite3"
#: A cluster's.
KAFKA_STORE_FILE: Final = "store-kafka.sqlite3"
#: The embedded log's, where a cluster has `store.sqlite3`.
EMBEDDED_STORE_FILE: Final = "store-embedded.sqlite3"
LOG_FILE: Final = "log.sqlite3"

#: How long to wait for a file that another process has locked: it is only read here.
_BUSY_TIMEOUT_S: Final = 2.0


class StoreFile(NamedTuple):
    """The file of a deployment's store, and in words why it is that one."""

    path: Path
    reason: str


class _Readers(NamedTuple):
    """The logs that a store has read, by its positions."""

    embedded: bool
    kafka: bool


def is_of_embedded_log(topic_id: str) -> bool:
    """Return whether a topic's id is one of an embedded log, which counts them; Kafka's are random."""
    return topic_id.isascii() and topic_id.isdigit() and len(topic_id) < 20


def is_store_at(path: Path) -> bool:
    """Return whether this file is there, or the parts that it is divided into."""
    if path.exists():
        return True
    # Of divided stores, which most processes have no part of.
    from afl_stream.settings.store_parts import StorePartsUnreadable, parts_of, parts_path

    try:
        return parts_of(path) is not None or parts_path(path).exists()
    except StorePartsUnreadable:
        # Opening it says what is wrong.
        return True


def find_store_file(data_dir: Path, *, is_kafka: bool, named: str | None = None) -> StoreFile:
    """Return the store of the embedded log, or of the cluster; the file need not exist yet.

    The file that is `named` counts; else one of the new name in the directory; else `store.sqlite3` belongs to the log
    that was read into it.
    """
    if named is not None:
        return StoreFile(Path(named), "as store.path says")
    own = data_dir / (KAFKA_STORE_FILE if is_kafka else EMBEDDED_STORE_FILE)
    whose = "the Kafka cluster's" if is_kafka else "the embedded log's"
    others = "the embedded log's" if is_kafka else "a Kafka cluster's"
    shared = data_dir / STORE_FILE
    if is_store_at(own):
        return StoreFile(own, f"{whose}; {STORE_FILE} is {others}" if shared.exists() else whose)
    if not shared.exists():
        if not is_kafka and (data_dir / KAFKA_STORE_FILE).exists():
            whose = f"{whose}; {KAFKA_STORE_FILE} is a Kafka cluster's"
        return StoreFile(own if is_kafka else shared, whose)
    readers = _readers(shared)
    if readers is None:
        return StoreFile(shared, f"{whose}, as far as can be seen: it cannot be looked into now")
    if readers.embedded and readers.kafka:
        return StoreFile(shared, f"{whose}, and {others}, too: both were read into it")
    # An unread file belongs to the embedded log if that is next to it.
    is_unread = not (readers.embedded or readers.kafka)
    is_logs = readers.embedded or (is_unread and (data_dir / LOG_FILE).exists())
    if is_logs if is_kafka else readers.kafka:
        return StoreFile(own, f"{whose}; {STORE_FILE} is {others}")
    return StoreFile(shared, f"{whose}, from an earlier release" if is_kafka else whose)


def _readers(path: Path) -> _Readers | None:
    """Return which logs the store has read; None if that cannot be read: opening the store reports why."""
    rows = _rows(path, "SELECT * FROM position")
    if rows is None:
        return None
    log_ids: set[object] = set()
    if not all(row.get("topic_id") for row in rows):
        # A store of a time when positions named no topic's id: the cluster's has to do.
        log_ids = {row["id"] for row in _rows(path.with_name(LOG_FILE), "SELECT id FROM cluster") or ()}
    embedded = [
        is_of_embedded_log(str(row["topic_id"])) if row.get("topic_id") else row["cluster_id"] in log_ids
        for row in rows
    ]
    return _Readers(embedded=any(embedded), kafka=not all(embedded))


def _rows(path: Path, query: str) -> Sequence[Mapping[str, object]] | None:
    """Read from a file without changing it; None: it does not exist, is damaged, locked, or of another program."""
    import sqlite3  # Agents have no store, and do without it.

    # With a log next to it the file is open in another process, or its process died; without one, SQLite would create
    # the log and leave it there.
    is_quiet = not path.with_name(f"{path.name}-wal").exists()
    address = f"file:{quote(str(path.resolve()))}?mode=ro{'&immutable=1' if is_quiet else ''}"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_TIMEOUT_S)) as connection:
            cursor = connection.execute(query)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]
    except sqlite3.Error:
        return None
