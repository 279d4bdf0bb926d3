"""The engine's cost per step, against the floor: `python -m benchmarks.evaluator [--sizes N ...] [--pairs K]`.

Three shapes of a workflow of N steps run on the memory store, with the commits of `execute`: a chain (N iterations), a
wide one (all read the first step), and a fan-in (the last step reads all others). Each step works out one argument and
one return, as the floor does. The two are measured alternately in one process, in CPU time; what comes before a run
(building the program, and the plan that the engine keeps of it) is left out on both sides.

The last line is one JSON object: `cpu_ratio`, the worst ratio to the floor of all shapes and sizes, and `growth`, how
CPU a step grows from the smallest size to the largest, as a multiple of how the floor's grows (the worst shape).
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final, TextIO

from afl.compiled.program import CompiledProgram
from afl.engine.limits import MAX_ITERATIONS
from afl.evaluation.evaluator import Evaluator
from afl.stores.memory.store import MemoryStore
from afl_stream.evaluator.service import tune_collector
from benchmarks import evaluator_floor
from benchmarks.evaluator_floor import SHAPES, Shape
from benchmarks.measure import PairedSeconds, cpu_seconds, paired

#: Runs of small programs are repeated until they made this many steps, so that the clock's grain does not show.
_LEAST_STEPS: Final = 10_000
_WORKFLOW: Final = "benchmark.Run"

Node = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What one program costs: its runs by engine and floor, and the engine's plan of it, made once a program."""

    run: PairedSeconds
    plan_s: float


def program(n: int, shape: Shape) -> Node:
    """Return the compiled program of a shape: `benchmark.Run` of `n` steps, which returns the last one's value.

    Built as JSON: parsing 100,000 statements is another benchmark's subject.
    """
    long = {"name": "input", "type": "Long"}
    grown = _add({"type": "InputRef", "path": ["input"]}, _int(1))
    value = {
        "type": "FacetDecl",
        "id": "value",
        "name": "Value",
        "params": [long],
        "returns": [{"name": "value", "type": "Long", "default": grown}],
    }
    steps = [
        {
            "type": "StepStmt",
            "id": f"s{i}",
            "name": f"s{i}",
            "call": {"type": "CallExpr", "target": "Value", "args": [{"name": "input", "value": argument}]},
        }
        for i, argument in enumerate(_arguments(n, shape))
    ]
    result = {"type": "CallExpr", "target": "Run", "args": [{"name": "value", "value": _value_of(n - 1)}]}
    run = {
        "type": "WorkflowDecl",
        "id": "run",
        "name": "Run",
        "returns": [{"name": "value", "type": "Long"}],
        "body": {
            "type": "AndThenBlock",
            "id": "block",
            "steps": steps,
            "yield": {"type": "YieldStmt", "id": "yield", "call": result},
        },
    }
    namespace = {"type": "Namespace", "id": "namespace", "name": "benchmark", "declarations": [value, run]}
    return {"type": "Program", "id": "program", "declarations": [namespace]}


def compare(n: int, shape: Shape, pairs: int) -> Comparison:
    """Measure the engine and the floor on one program. Raises RuntimeError when they don't agree."""
    compiled, statements = CompiledProgram(program(n, shape)), evaluator_floor.program(n, shape)
    expected = {"value": evaluator_floor.run(statements)[-1].returns["value"]}
    repeats = max(1, _LEAST_STEPS // n)

    def planned() -> Evaluator:
        """Return an evaluator that keeps the plan already: a run of no iteration makes it."""
        evaluator = Evaluator(MemoryStore(), max_iterations=0)
        evaluator.execute(_WORKFLOW, program_ast=compiled)
        evaluator.max_iterations = MAX_ITERATIONS
        return evaluator

    def run(evaluator: Evaluator) -> None:
        outputs = evaluator.execute(_WORKFLOW, program_ast=compiled).outputs
        if outputs != expected:
            raise RuntimeError(f"{shape} of {n} steps: the engine gives {outputs}, the floor {expected}")

    return Comparison(
        run=paired(
            lambda: fmean(cpu_seconds(planned, run) for _ in range(repeats)),
            lambda: fmean(cpu_seconds(lambda: statements, evaluator_floor.run) for _ in range(repeats)),
            pairs,
        ),
        plan_s=cpu_seconds(lambda: None, lambda _: planned()),
    )


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Measure every shape and size, and write a line for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evaluator", description="CPU a step against the floor")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000], metavar="N")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs for each figure (default: 5)")
    options = parser.parse_args(arguments)
    # As every long-running service of the project does once; it speeds up the floor too, which keeps its steps alike.
    tune_collector()
    measured: dict[tuple[Shape, int], PairedSeconds] = {}
    for n in sorted(options.sizes):
        for shape in SHAPES:
            comparison = compare(n, shape, options.pairs)
            pair = measured[shape, n] = comparison.run
            out.write(
                f"{shape:7s} {n:>7,d} steps: {pair.subject_s / n * 1e6:6.2f} us a step, "
                f"floor {pair.floor_s / n * 1e6:5.2f}, ratio {pair.ratio:5.2f}; "
                f"plan {comparison.plan_s / n * 1e6:6.2f} us a step, once\n"
            )
            out.flush()
    smallest, largest = min(options.sizes), max(options.sizes)
    growth = max(measured[shape, largest].ratio / measured[shape, smallest].ratio for shape in SHAPES)
    ratio = max(pair.ratio for pair in measured.values())
    out.write(json.dumps({"cpu_ratio": round(ratio, 2), "growth": round(growth, 2)}) + "\n")


def _arguments(n: int, shape: Shape) -> list[Node]:
    """Return the argument of each step."""
    if shape == "chain":
        return [_add(_value_of(i - 1), _int(1)) if i else _int(0) for i in range(n)]
    if shape == "wide":
        return [_add(_value_of(0), _int(1)) if i else _int(0) for i in range(n)]
    return [_int(i) if i < n - 1 else _sum([_value_of(read) for read in range(n - 1)]) for i in range(n)]


def _sum(terms: Sequence[Node]) -> Node:
    """Return a balanced tree of additions: one that leans to a side would be as deep as it has terms."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return _add(_sum(terms[:middle]), _sum(terms[middle:]))


def _add(left: Node, right: Node) -> Node:
    return {"type": "BinaryExpr", "operator": "+", "left": left, "right": right}


def _int(value: int) -> Node:
    return {"type": "Int", "value": value}


def _value_of(step: int) -> Node:
    return {"type": "StepRef", "path": [f"s{step}", "value"]}


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
