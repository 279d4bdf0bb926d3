"""Intervals are measured by the monotonic clock: the wall clock is asked in one module, and only for stamps."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("afl", "afl_stream")
#: The one module that asks the system for the wall clock's time.
THE_CLOCK: Final = "afl/core/clock.py"
#: How the wall clock can be asked.
WALL: Final = frozenset({
    "time.time", "time.time_ns", "time.gmtime", "time.localtime", "time.ctime",
    "datetime.now", "datetime.utcnow", "datetime.today", "date.today",
    "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.date.today",
})  # fmt: skip
#: What the wall clock's time is called.
STAMP_NAMES: Final = frozenset({"now_ms", "epoch_ms", "epoch_ns"})

#: Allowed calculations with the wall clock, and why each is not an interval of one process.
RECKONED: Final = {
    "afl_stream/gateway/leases.py": "until when a lease is, as workers are shown it; it ends by the monotonic clock",
    "afl/commands/local_run.py": "the time until a timer, which is a stamp; asked again in each piece of the wait",
    "afl/core/clock.py": "the rule for stamps of others",
    "afl/evaluation/due_timers.py": "stored timers: stamps",
    "afl/evaluation/raised_events.py": "when an event expires: a stamp",
    "afl/workers/timer_turns.py": "stored timers: stamps",
    "afl/workers/lease_watch.py": "leases are stamps of others; since when they stay is by the monotonic clock",
    "afl/stores/memory/schedules.py": "stored schedules: stamps",
    "afl/stores/memory/timers.py": "stored timers: stamps",
    "afl/stores/memory/tasks.py": "leases: stamps that others judge",
    "afl/stores/mongo/timers.py": "stored timers: stamps",
    "afl/stores/mongo/tasks.py": "leases: stamps that others judge",
    "afl/stores/public/tasks.py": "leases and locks: stamps that others judge",
    "afl/stores/sqlite/store.py": "leases: stamps that others judge",
    "afl/engine/execution/events.py": "a step's deadline: a stamp that is published",
    "afl/engine/execution/external_events.py": "the end of a wait: a stored timer",
    "afl/engine/execution/library.py": "the end of a wait: a stored timer",
    "afl/workers/service/workflow_starts.py": "how long a run took, as it is shown",
    "afl_stream/agent/observer.py": "from a record's stamp to its answer, as it is shown",
    "afl_stream/evaluator/monitoring/store_watch.py": "ages of stored rows, as they are shown",
    "afl_stream/agent/starting.py": "age of an event, which only decides whether it is looked up",
    "afl_stream/agent/failed_tries.py": "when the next try comes, as it is shown; it comes by the monotonic clock",
    "afl_stream/agent/cancellations.py": "age of an event, which only decides whether it is looked up",
    "afl_stream/commands/pubsub/forgetting.py": "retention: the age of a request's last event, as it is stored",
    "afl_stream/commands/schedules/reports.py": "how long it is until a firing, as it is shown",
    "afl_stream/commands/servers.py": "ages as they are shown",
    "afl_stream/dashboard/views/run_views.py": "ages as they are shown",
    "afl_stream/dashboard/views/servers.py": "ages as they are shown",
    "afl_stream/commands/audits/moments.py": "a time that is given as an age",
    "afl_stream/settings/moments.py": "a time that is given as an age",
    "afl_stream/commands/probing/cases.py": "stamps of events that are made up",
    "afl_stream/commands/runs/listing.py": "ages as they are shown",
    "afl_stream/evaluator/reporting/event_lines.py": "how long an event took, as it is logged",
    "afl_stream/visibility/runs.py": "ages as they are shown",
    "afl_stream/visibility/waiting/evaluators.py": "the age of a claim that another process has stamped",
    "afl_stream/visibility/workflows.py": "ages as they are shown",
    "afl_stream/commands/store.py": "retention: days since a run's end, as it is stored",
    "afl_stream/embedded/broker.py": "retention of the log: as Kafka does, by the records' stamps",
    "afl_stream/pubsub/hosting/retention.py": "retention: the age of a request's last event, as it is stored",
    "afl_stream/evaluator/external/continuing.py": "stamps of one workflow never go back",
    "afl_stream/evaluator/external/early_sweep.py": "when a stored event expires: a stamp",
    "afl_stream/evaluator/external/external_events.py": "when an event expires: a stamp",
    "afl_stream/evaluator/parked/parked_answers.py": "how long an answer was parked, as it is shown",
    "afl_stream/evaluator/retention.py": "retention: days since a run's end, as it is stored",
    "afl_stream/evaluator/batch_outputs.py": "when a parked answer expires: a stamp",
    "afl_stream/evaluator/operator_commands.py": "what was asked before a command and after it: stamps",
    "afl_stream/evaluator/schedules/sweep.py": "times of firings and of requests: stamps as they are stored",
    "afl_stream/evaluator/sweeps.py": "age of outbox rows that others wrote",
    "afl_stream/evaluator/timers/due_timers.py": "stored timers: stamps",
    "afl_stream/evaluator/timers/republishing.py": "ages of events, as the store has them",
    "afl_stream/evaluator/timers/timer_turns.py": "how late a stored timer is",
    "afl_stream/schedules/firings.py": "times of firings: stamps as they are stored",
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def named(node: ast.expr) -> str:
    """`time.time` for an attribute or a name, with its owners."""
    if isinstance(node, ast.Attribute):
        return f"{named(node.value)}.{node.attr}".lstrip(".")
    return node.id if isinstance(node, ast.Name) else ""


def asks_the_wall(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and named(node) in WALL:
            # With an argument these format a stamp that is given.
            yield f"line {node.lineno}: {named(node)}"
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (f"line {node.lineno}: {a.name}" for a in node.names if f"time.{a.name}" in WALL)


def is_stamp(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return is_stamp(node.func)
    return named(node).rpartition(".")[2].lstrip("_") in STAMP_NAMES


def reckons(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            sides = [node.left, node.right]
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        else:
            continue
        if any(map(is_stamp, sides)):
            yield f"line {node.lineno}: {ast.unparse(node)}"


def test_one_module_asks_the_system_for_the_wall_clocks_time() -> None:
    found = {name: list(asks_the_wall(tree)) for name, tree in modules() if name != THE_CLOCK}

    assert {name: lines for name, lines in found.items() if lines} == {}


def test_nothing_is_reckoned_from_the_wall_clocks_time_but_what_is_listed() -> None:
    found = {name: list(reckons(tree)) for name, tree in modules()}

    assert {name: lines for name, lines in found.items() if lines and name not in RECKONED} == {}
    assert sorted(name for name in RECKONED if not found.get(name)) == []


def test_what_measures_an_interval_by_the_wall_is_found() -> None:
    wrong = ast.parse(
        "import time\nfrom time import time_ns\nbegan = time.time()\nif clock.now_ms() - self._last_ms > 5: pass\n"
        "until = now_ms + 10\nwhile clock.now_ms() < until: pass\n"
    )

    assert len(list(asks_the_wall(wrong))) == 2
    assert len(list(reckons(wrong))) == 3
