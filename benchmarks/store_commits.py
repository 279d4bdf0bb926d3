"""The cost of a commit to its process: `python -m benchmarks.store_commits [--mongodb URL] [--rows N]`.

A workflow's steps are saved in batches of 1 and of 100, as an evaluator does between two events and in a fan-out. CPU
time is this process's alone; what a database server needs is not in it, time on the clock is. Without `--mongodb`
memory and SQLite only; the last line is one JSON object, figures in microseconds.
"""

import argparse
import json
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, TextIO

from afl.stores.memory.store import MemoryStore
from afl.stores.public.persistence import EngineStore
from afl.stores.sqlite.store import SqliteStore
from benchmarks.sqlite_store import Written, written

_BATCHES: Final = (1, 100)


class _Commands:
    """Counts the commands that go to a MongoDB server."""

    def __init__(self) -> None:
        self.count = 0

    def started(self, _event: Any) -> None:
        self.count += 1

    def succeeded(self, event: Any) -> None:
        pass

    def failed(self, event: Any) -> None:
        pass


def _mongo_store(url: str, ends: ExitStack) -> tuple[EngineStore, Callable[[], int]]:
    from pymongo import MongoClient
    from pymongo.monitoring import CommandListener

    from afl.stores.mongo.store import MongoStore

    class Listener(_Commands, CommandListener):
        pass

    commands = Listener()
    client = ends.enter_context(MongoClient[dict[str, Any]](url, event_listeners=[commands]))
    store = MongoStore(database_name=f"benchmark{uuid.uuid4().hex[:12]}", client=client)
    ends.callback(store.drop_database)
    return store, lambda: commands.count


def measure(store: EngineStore, saved: Written, size: int, commands: Callable[[], int]) -> dict[str, float]:
    """Save all in batches of `size`, as changes of rows that are there."""
    revision = next(iter(store.revisions(["benchmark"]).values()), 0) + 1
    batches = saved.batches(size, revision)
    before, cpu_s, clock_s = commands(), time.process_time(), time.perf_counter()
    for batch in batches:
        store.commit_batch(batch)
    cpu_s, clock_s, sent = time.process_time() - cpu_s, time.perf_counter() - clock_s, commands() - before
    commits, rows = len(batches), len(saved.steps)
    return {
        "commands_a_commit": sent / commits,
        "cpu_us_a_commit": cpu_s * 1e6 / commits,
        "cpu_us_a_row": cpu_s * 1e6 / rows,
        "clock_us_a_commit": clock_s * 1e6 / commits,
    }


def main(words: Sequence[str], out: TextIO = sys.stdout) -> int:
    """Run the benchmark, and print its figures with one JSON object last."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store_commits", description=__doc__)
    parser.add_argument("--mongodb", metavar="URL", help="a server of which a database is used, and dropped")
    parser.add_argument("--rows", type=int, default=2_000, help="steps of the workflow")
    given = parser.parse_args(words)
    saved = written(given.rows)
    found: dict[str, dict[str, dict[str, float]]] = {}
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory()))
        stores: dict[str, tuple[EngineStore, Callable[[], int]]] = {
            "memory": (MemoryStore(), lambda: 0),
            "sqlite": (SqliteStore(folder / "store.sqlite3"), lambda: 0),
        }
        if given.mongodb:
            stores["mongodb"] = _mongo_store(given.mongodb, ends)
        out.write("store      rows a commit   commands   CPU a commit   CPU a row   clock a commit\n")
        for name, (store, commands) in stores.items():
            # Once for the rows to be there.
            measure(store, saved, max(_BATCHES), commands)
            for size in _BATCHES:
                figures = measure(store, saved, size, commands)
                found.setdefault(name, {})[str(size)] = {key: round(value, 2) for key, value in figures.items()}
                out.write(
                    f"{name:10} {size:13} {figures['commands_a_commit']:10.1f} {figures['cpu_us_a_commit']:11.0f} us "
                    f"{figures['cpu_us_a_row']:8.1f} us {figures['clock_us_a_commit']:13.0f} us\n"
                )
            store.close()
    out.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
