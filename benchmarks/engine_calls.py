"""The cost of engine calls: `python -m benchmarks.engine_calls [--steps N] [--answers N] [--live N] [--rounds K]`.

Five subjects, all on the memory store unless it is said otherwise:

* a plain chain of `--steps` steps through `Evaluator.execute`, a commit for each: the first call of an evaluator, which
  plans the program, and the next, which has the plan;
* `--answers` independent event steps of one workflow, each answered by `continue_step` and `resume`;
* `resume` with a program of `--steps` statements as a mapping that was given before, over what it takes to serialise
  that program once; both one after the other;
* visits and lookups: calls of functions, Python's and C's (a look into a dict is one), for a step of a chain, and for
  an answer, in a small workflow and in one ten times as large. They are counted, so they come out the same each time;
* bytes a live step: what a workflow of `--live` steps takes that is kept in memory between calls, its rows in SQLite
  left out, by tracemalloc: event steps that wait, elements of a foreach that do, and steps that are complete.

Times are CPU seconds of the process, the least of `--rounds`. The last line is one JSON object: `chain_first_s`,
`chain_s`, `answers_s`, `given_program_s` and `given_program_ratio`, `calls_a_step` and `calls_an_answer` with their
`_growth`, and `bytes_a_live_step`, the largest of the three.
"""

import argparse
import gc
import json
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, TextIO

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.engine.limits import MAX_ITERATIONS
from afl.engine.types import Value
from afl.evaluation.evaluator import Evaluator, ExecutionStatus
from afl.stores.memory.store import MemoryStore
from afl.stores.public.persistence import EngineStore
from afl.stores.sqlite.store import SqliteStore
from benchmarks.evaluator import program as shaped
from benchmarks.measure import PairedSeconds, cpu_seconds, paired

_RUN: Final = "benchmark.Run"
#: How much larger the larger one of two counted workflows is.
_LARGER: Final = 10
#: No bound that a workflow of this size comes to.
_ENOUGH: Final = 1 << 40

LIVE_KINDS: Final = ("waiting", "elements", "complete")


def events(n: int) -> CompiledProgram:
    """Return a workflow of `n` independent event steps, which returns the last one's value."""
    steps = "\n".join(f"    s{i} = Ask(x = {i})" for i in range(n))
    return _compiled(f"{steps}\n    yield Run(value = s{n - 1}.y)")


def live(kind: str, n: int) -> tuple[CompiledProgram, dict[str, Value]]:
    """Return a workflow that waits when `n` steps of a kind have been made, and its inputs."""
    if kind == "waiting":
        return events(n), {}
    if kind == "elements":
        body = "    s = Ask(x = $.e)\n    yield Run(value = s.y)"
        return _compiled(body, "foreach e in $.elements "), {"elements": list(range(n))}
    steps = "\n".join(f"    s{i} = Grow(x = {i})" for i in range(n))
    return _compiled(f"{steps}\n    last = Ask(x = s0.y)\n    yield Run(value = last.y)"), {}


def _compiled(body: str, head: str = "") -> CompiledProgram:
    text = f"""namespace benchmark {{
  event facet Ask(x: Long) => (y: Long)
  facet Grow(x: Long) => (y: Long = $.x + 1)
  workflow Run(elements: [Long] = []) => (value: Long) andThen {head}{{
{body}
  }}
}}
"""
    return CompiledProgram(compile_text(text).program_json)


def planned(store: EngineStore, program: CompiledProgram) -> Evaluator:
    """Return an evaluator without bounds that keeps the program's plan already: a run of no iteration makes it."""
    evaluator = Evaluator(store, max_iterations=0, hot_steps=_ENOUGH, max_open_events=_ENOUGH, iterations_per_commit=1)
    evaluator.execute(_RUN, program_ast=program)
    evaluator.max_iterations = MAX_ITERATIONS
    return evaluator


def paused(evaluator: Evaluator, program: CompiledProgram) -> tuple[str, list[str]]:
    """Start a workflow of events; its id, and those of the steps that wait for answers."""
    result = evaluator.execute(_RUN, program_ast=program)
    if result.status != ExecutionStatus.PAUSED:
        raise RuntimeError(f"the workflow was to wait for answers, but is {result.status}: {result.error}")
    return result.workflow_id, [event.step_id for event in result.pending_events]


def answer(evaluator: Evaluator, workflow_id: str, step_ids: Sequence[str]) -> None:
    """Answer each step, and run what that sets free."""
    for step_id in step_ids:
        evaluator.continue_step(step_id, {"y": 1})
        result = evaluator.resume(workflow_id)
        if not result.success:
            raise RuntimeError(f"an answer ends the workflow: {result.error}")


def chain_seconds(n: int, rounds: int) -> tuple[float, float]:
    """CPU seconds of the first execution of a chain, and of the next."""
    tree = shaped(n, "chain")

    def run(prepared: tuple[Evaluator, CompiledProgram]) -> None:
        evaluator, program = prepared
        result = evaluator.execute(_RUN, program_ast=program)
        if result.outputs != {"value": 2 * n - 1}:
            raise RuntimeError(f"a chain of {n} steps gives {result.outputs}: {result.error}")

    def fresh() -> tuple[Evaluator, CompiledProgram]:
        return Evaluator(MemoryStore()), CompiledProgram(tree)

    def known() -> tuple[Evaluator, CompiledProgram]:
        program = CompiledProgram(tree)
        return planned(MemoryStore(), program), program

    first = min(cpu_seconds(fresh, run) for _ in range(rounds))
    return first, min(cpu_seconds(known, run) for _ in range(rounds))


def given_program(n: int, pairs: int) -> PairedSeconds:
    """CPU seconds of a resume with a program that was given before, and of serialising that program."""
    steps = "\n".join(f"    s{i} = Ask(x = {f's{i - 1}.y' if i else '1'} + {i})" for i in range(n))
    tree = _compiled(f"{steps}\n    yield Run(value = s{n - 1}.y)").tree
    evaluator = Evaluator(MemoryStore())
    workflow_id = evaluator.execute(_RUN, program_ast=tree).workflow_id

    def resume() -> None:
        result = evaluator.resume(workflow_id, _RUN, program_ast=tree)
        if result.status != ExecutionStatus.PAUSED:
            raise RuntimeError(f"the workflow was to wait for an answer, but is {result.status}: {result.error}")

    resume()
    return paired(
        lambda: cpu_seconds(lambda: None, lambda _: resume()),
        lambda: cpu_seconds(lambda: None, lambda _: json.dumps(tree, sort_keys=True, separators=(",", ":"))),
        pairs,
    )


def answer_seconds(n: int, rounds: int) -> float:
    """CPU seconds of all answers of a workflow of independent events."""
    program = events(n)

    def waiting() -> tuple[Evaluator, str, list[str]]:
        evaluator = planned(MemoryStore(), program)
        return evaluator, *paused(evaluator, program)

    return min(cpu_seconds(waiting, lambda prepared: answer(*prepared)) for _ in range(rounds))


@contextmanager
def counted() -> Iterator[Callable[[], int]]:
    """Count calls of functions, those of C too; what is yielded says how many there were."""
    calls = 0

    def see(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        if event in ("call", "c_call"):
            calls += 1

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        yield lambda: calls
    finally:
        sys.setprofile(before)


def calls_a_step(n: int) -> float:
    """How many calls a step of a chain of `n` takes, with its commit."""
    program = CompiledProgram(shaped(n, "chain"))
    evaluator = planned(MemoryStore(), program)
    with counted() as calls:
        evaluator.execute(_RUN, program_ast=program)
        return calls() / n


def calls_an_answer(n: int) -> float:
    """How many calls an answer takes in a workflow of `n` events, with what it sets free."""
    program = events(n)
    evaluator = planned(MemoryStore(), program)
    workflow_id, step_ids = paused(evaluator, program)
    # The last one ends the workflow, which is another matter.
    some = step_ids[: min(n, 50) - 1]
    with counted() as calls:
        answer(evaluator, workflow_id, some)
        return calls() / len(some)


def bytes_a_live_step(kind: str, n: int) -> float:
    """Return what a step takes, in bytes, of a workflow that is kept in memory; its rows are on disk."""
    program, inputs = live(kind, n)
    with tempfile.TemporaryDirectory() as directory, closing(SqliteStore(Path(directory) / "store.db")) as store:
        evaluator = planned(store, program)
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            result = evaluator.execute(_RUN, inputs, program)
            if result.status != ExecutionStatus.PAUSED:
                raise RuntimeError(f"the workflow was to wait for answers, but is {result.status}: {result.error}")
            gc.collect()
            taken = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        row = store.load_workflow(result.workflow_id)
        assert row is not None
        return taken / row.steps


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Measure all, and write a line for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine_calls", description="what engine calls cost")
    parser.add_argument("--steps", type=int, default=800, metavar="N", help="steps of the chain (default: 800)")
    parser.add_argument("--answers", type=int, default=800, metavar="N", help="answered events (default: 800)")
    parser.add_argument("--live", type=int, default=20_000, metavar="N", help="steps in memory (default: 20,000)")
    parser.add_argument("--rounds", type=int, default=5, metavar="K", help="rounds, the best counts (default: 5)")
    options = parser.parse_args(arguments)
    figures: dict[str, float] = {}

    first_s, next_s = chain_seconds(options.steps, options.rounds)
    figures["chain_first_s"], figures["chain_s"] = round(first_s, 4), round(next_s, 4)
    out.write(f"chain of {options.steps:,d}: {first_s:.4f} s, plan and all; {next_s:.4f} s with the plan\n")
    figures["answers_s"] = round(answer_seconds(options.answers, options.rounds), 4)
    out.write(f"{options.answers:,d} answers, continue_step and resume: {figures['answers_s']:.4f} s\n")
    out.flush()
    given = given_program(options.steps, 3 * options.rounds)
    figures["given_program_s"], figures["given_program_ratio"] = round(given.subject_s, 6), round(given.ratio, 2)
    out.write(
        f"resume with a program of {options.steps:,d} statements that was given before: "
        f"{given.subject_s * 1e6:.0f} µs; serialising it: {given.floor_s * 1e6:.0f} µs\n"
    )
    for name, count, size in (
        ("calls_a_step", calls_a_step, options.steps),
        ("calls_an_answer", calls_an_answer, options.answers),
    ):
        small, large = count(size), count(size * _LARGER)
        figures[name], figures[f"{name}_growth"] = round(large, 1), round(large / small, 2)
        out.write(f"{name}: {small:.1f} in a workflow of {size:,d}, {large:.1f} in one of {size * _LARGER:,d}\n")
        out.flush()
    taken = {kind: bytes_a_live_step(kind, options.live) for kind in LIVE_KINDS}
    figures["bytes_a_live_step"] = round(max(taken.values()))
    out.write(f"bytes a live step: {', '.join(f'{kind} {size:.0f}' for kind, size in taken.items())}\n")
    out.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
