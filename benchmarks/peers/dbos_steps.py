"""The chain of steps in DBOS Transact: a `@DBOS.workflow` that calls a `@DBOS.step` so many times, a commit a step.

Its system database is on SQLite, with a write-ahead log and synchronous FULL, as our store is. Run by
`python -m benchmarks.durable_steps`, in one process with ours.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measure import cpu_seconds


def result_of(steps: int) -> int:
    """Return what the workflow gives: its first step is given 0."""
    return 2 * steps - 1


@contextmanager
def rival(folder: Path) -> Iterator[Callable[[int], float]]:
    """DBOS, launched on a file in `folder`: CPU seconds of a run of so many steps. ImportError where it is missing."""
    import dbos
    import sqlalchemy

    # Checked the same whether the packages and their types are installed or not.
    transact: Any = dbos.DBOS
    events: Any = sqlalchemy.event

    def durable(connection: Any, _: object) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    def add_one(value: int) -> int:
        return value + 1

    def add_up(steps: int) -> int:
        value = -1
        for _ in range(steps):
            value = step(value + 1)
        return value

    events.listen(sqlalchemy.Engine, "connect", durable)
    logging.getLogger("dbos").setLevel(logging.ERROR)
    transact(
        config={
            "name": "benchmark",
            "system_database_url": f"sqlite:///{folder / 'dbos.sqlite'}",
            "log_level": "ERROR",
        }
    )

    step: Any = transact.step()(add_one)
    workflow: Any = transact.workflow()(add_up)

    def run(steps: int) -> None:
        value = workflow(steps)
        if value != result_of(steps):
            raise RuntimeError(f"{steps} steps give {value}")

    def seconds(steps: int) -> float:
        return cpu_seconds(lambda: steps, run)

    transact.launch()
    try:
        yield seconds
    finally:
        transact.destroy()
        events.remove(sqlalchemy.Engine, "connect", durable)
