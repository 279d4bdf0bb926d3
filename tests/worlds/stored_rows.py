"""A deployment's store, seen from beside it: its rows to the byte, and its file."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from afl_stream.embedded.transport import Faults
from tests.worlds.deployment import Deployment
from tests.worlds.mongodb import rows_of_database

#: What the store says of the work: tables of leases and of other people's things are left out.
_TABLES_OF_WORK: Final = ("workflow", "workflow_inputs", "step", "position", "outbox", "parked")


def rows_of_work(deployment: Deployment) -> dict[str, list[tuple[object, ...]]]:
    """Return the store's rows, to the byte, as they are in the file or in the database."""
    if deployment.config.store.url is not None:
        return rows_of_database(deployment.config.store.url, _TABLES_OF_WORK)
    with file_of(deployment) as file:
        return {table: file.execute(f"SELECT * FROM {table}").fetchall() for table in _TABLES_OF_WORK}


@contextmanager
def file_of(deployment: Deployment) -> Iterator[sqlite3.Connection]:
    """Return the store's file, opened beside the parties that have it open."""
    connection = sqlite3.connect(deployment.config.store_path)
    try:
        yield connection
    finally:
        connection.close()


def restore(deployment: Deployment, copy: Path) -> None:
    """Put an earlier copy of the store's file in its place; no party may have it open."""
    deployment.stores.crash()
    path = deployment.config.store_path
    for name in path.parent.glob(f"{path.name}*"):
        name.unlink()
    shutil.copy(copy, path)
    deployment.store = deployment.open_store(Faults())
