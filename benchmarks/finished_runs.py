"""Stores of finished runs for benchmarks: copies of one run, as many as are wanted, written many to a commit."""

from pathlib import Path
from typing import Final

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.engine.model.store import Batch, StepDocument, WorkflowChange, WorkflowRow
from afl.evaluation.evaluator import Evaluator
from afl.stores.memory.store import MemoryStore
from afl.stores.sqlite.store import SqliteStore

#: The time at which all runs were created and ended, ms since the epoch: 2023-11-14.
ENDED_MS: Final = 1_700_000_000_000
#: Runs of one commit.
_AT_ONCE: Final = 500


def source(events: int) -> str:
    """Return a program whose workflow `bench.Run` asks an agent so many times, one after the other."""
    calls = ["e0 = Ask(n = $.n)", *(f"e{number} = Ask(n = e{number - 1}.m)" for number in range(1, events))]
    body = "\n    ".join(calls)
    return f"""
namespace bench {{
  event facet Ask(n: Long) => (m: Long)
  workflow Run(n: Long) => (last: Long) andThen {{
    {body}
    yield Run(last = e{events - 1}.m)
  }}
}}
"""


def compiled(events: int) -> CompiledProgram:
    """Return the compiled program of `source`."""
    return CompiledProgram(compile_text(source(events)).program_json)


def one_run(events: int) -> tuple[WorkflowRow, list[StepDocument]]:
    """Return the rows that a finished run of `source` leaves."""
    store = MemoryStore()
    evaluator = Evaluator(store)
    evaluator.execute("bench.Run", {"n": 1}, compiled(events), workflow_id="run")
    for number in range(events):
        (event,) = store.get_waiting_events("run")
        evaluator.continue_step(event.step_id, {"m": number})
        evaluator.resume("run")
    row = store.load_workflow("run")
    assert row is not None
    assert row.ended_at_ms
    return row._replace(created_at_ms=ENDED_MS, updated_at_ms=ENDED_MS, ended_at_ms=ENDED_MS), store.load_steps("run")


def run_id(number: int) -> str:
    """Return the id of a copy: as long as the ids that clients draw."""
    return f"018bcfe5-6800-7000-8000-{number:012d}"


def fill(path: Path, runs: int, events: int, prefix: str = "afl.") -> int:
    """Write so many copies of a finished run into a store; return the number of its rows, the runs' own included."""
    row, steps = one_run(events)
    store = SqliteStore(path, prefix)
    program = compiled(events)
    store.commit_batch(Batch(programs={program.fingerprint: program.text}))
    for first in range(0, runs, _AT_ONCE):
        changes = []
        for number in range(first, min(first + _AT_ONCE, runs)):
            name = run_id(number)
            copies = [renamed(step, name) for step in steps]
            changes.append(WorkflowChange(row._replace(id=name, revision=1), 0, copies))
        store.commit_batch(Batch(changes=changes, now_ms=ENDED_MS, values_checked=True))
    store.close()
    return runs * (1 + len(steps))


def renamed(step: StepDocument, name: str) -> StepDocument:
    """Return a step of `one_run` as one of a copy with this id."""

    def its(found: str | None) -> str | None:
        return None if found is None else f"{name}{found.removeprefix('run')}"

    return step._replace(
        id=f"{name}{step.id.removeprefix('run')}",
        workflow_id=name,
        revision=1,
        container_id=its(step.container_id),
        block_id=its(step.block_id),
        root_id=its(step.root_id),
    )
