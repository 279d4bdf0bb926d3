"""The time to find runs among many: `python -m benchmarks.visibility [--runs N] [--rounds R] [--mongodb URL]`.

Each store has `--runs` runs, 100,000 by default, of two steps each. One in a hundred has failed, one in a thousand has
called the facet that is asked for, and one alone has the input: searches that few fit look at the most. Measured is one
page of 20, the best of `--rounds`: CPU time where the store is in this process, so that a busy machine does not count,
and time by the clock on MongoDB. What is meant is less than a second on each store. MongoDB is measured where a URL is
given; its database is dropped.

The last line is one JSON object: for each store the seconds of each search, and the worst of them, `worst_s`.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TextIO

from afl.engine.model.store import (
    COMPLETED,
    ERROR,
    Batch,
    ErrorRecord,
    StepDocument,
    WorkflowChange,
    WorkflowFilter,
    WorkflowPlace,
    WorkflowRow,
)
from afl.stores.memory.store import MemoryStore
from afl.stores.public.persistence import EngineStore
from afl.stores.sqlite.store import SqliteStore
from benchmarks.finished_runs import ENDED_MS, one_run, renamed, run_id

_PAGE: Final = 20
#: Runs of one commit; fewer on MongoDB, where a long transaction costs more than it saves.
_AT_ONCE: Final = 500
_AT_ONCE_ON_A_SERVER: Final = 20


def fill(store: EngineStore, runs: int, at_once: int = _AT_ONCE) -> None:
    """Write so many runs, `at_once` in one commit."""
    row, steps = one_run(1)
    steps = [step for step in steps if step.attempt or step.container_id is None][:2]
    for first in range(0, runs, at_once):
        numbers = range(first, min(first + at_once, runs))
        changes = [_change(row, steps, number) for number in numbers]
        store.commit_batch(Batch(changes=changes, now_ms=ENDED_MS, values_checked=True))


def _change(row: WorkflowRow, steps: Sequence[StepDocument], number: int) -> WorkflowChange:
    name = run_id(number)
    copies = [renamed(step, name) for step in steps]
    if number % 1_000 == 0:
        copies[-1] = copies[-1]._replace(facet_name="bench.Rare")
    has_failed = number % 100 == 0
    error = ErrorRecord("Declined", f"card {number} was declined", copies[-1].id, "bench.Run.e0", "bench.Ask", 3)
    own = row._replace(
        id=name,
        revision=1,
        name="bench.Other" if number % 10 == 0 else row.name,
        program="0" * 64 if number < 10 else row.program,
        status=ERROR if has_failed else COMPLETED,
        error=error if has_failed else None,
        outputs=None if has_failed else row.outputs,
        inputs={"n": number, "customer": f"customer {number % 977}"},
        created_at_ms=ENDED_MS + number,
    )
    return WorkflowChange(own, 0, copies)


def searches(runs: int) -> Mapping[str, tuple[WorkflowFilter, WorkflowPlace | None]]:
    """Return the searches by name: a filter, and the place where a page begins."""
    middle = runs // 2
    return {
        "newest": (WorkflowFilter(), None),
        "page_in_the_middle": (WorkflowFilter(), WorkflowPlace(ENDED_MS + middle, run_id(middle))),
        "state": (WorkflowFilter(statuses=[ERROR]), None),
        "state_of_none": (WorkflowFilter(statuses=["RUNNING"]), None),
        "workflow": (WorkflowFilter(names=["bench.Other"]), None),
        "time": (WorkflowFilter(since_ms=ENDED_MS + 10, before_ms=ENDED_MS + 20), None),
        "program": (WorkflowFilter(programs=["0" * 64]), None),
        "facet": (WorkflowFilter(facets=["bench.Rare"]), None),
        "facet_of_none": (WorkflowFilter(facets=["bench.Nothing"]), None),
        "error": (WorkflowFilter(error_text="CARD 0 WAS"), None),
        "input": (WorkflowFilter(inputs={"n": [7]}), None),
    }


def measure(store: EngineStore, runs: int, rounds: int, now_s: Callable[[], float]) -> dict[str, float]:
    """Return the seconds of each search, the best of some rounds."""
    found: dict[str, float] = {}
    for name, (wanted, after) in searches(runs).items():
        times = []
        for _ in range(rounds):
            began_s = now_s()
            store.find_workflows(wanted, after=after, limit=_PAGE)
            times.append(now_s() - began_s)
        found[name] = min(times)
    began_s = now_s()
    store.program_uses()
    found["programs"] = now_s() - began_s
    return found


def _mongo_store(url: str, ends: ExitStack) -> EngineStore:
    from afl.stores.mongo.store import MongoStore

    store = MongoStore(url, "benchmark_visibility")
    ends.callback(store.drop_database)
    return store


def main(words: Sequence[str], out: TextIO = sys.stdout) -> int:
    """Run the benchmark, and print its figures with one JSON object last."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.visibility", description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mongodb", metavar="URL", help="a server of which a database is used, and dropped")
    given = parser.parse_args(words)
    facts: dict[str, dict[str, float]] = {}
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory()))
        openers: dict[str, Callable[[], EngineStore]] = {
            "memory": MemoryStore,
            "sqlite": lambda: SqliteStore(folder / "store.sqlite3"),
        }
        if given.mongodb:
            openers["mongodb"] = lambda: _mongo_store(given.mongodb, ends)
        for name, opened in openers.items():
            store = opened()
            fill(store, given.runs, _AT_ONCE_ON_A_SERVER if name == "mongodb" else _AT_ONCE)
            figures = measure(
                store, given.runs, given.rounds, time.perf_counter if name == "mongodb" else time.process_time
            )
            for search, seconds in figures.items():
                print(f"{name:8} {search:20} {seconds * 1e3:10.1f} ms", file=out)
            facts[name] = {f"{search}_s": round(seconds, 4) for search, seconds in figures.items()}
            facts[name]["worst_s"] = round(max(figures.values()), 3)
            if name != "mongodb":
                store.close()
    print(json.dumps(facts), file=out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
