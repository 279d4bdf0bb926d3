"""The cost of a script in its process: `python -m benchmarks.scripts [--runs N]`.

A process belongs to one text of one workflow. So three cases: both come again (a foreach), a workflow each, a text
each. CPU time is that of the evaluator's process and of all that it started. The last line is one JSON object.
"""

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable, Sequence

from afl.scripts.pool import ScriptPool

_SQUARE = "result['n'] = params['n'] ** 2"


def _cpu_s() -> float:
    return sum(sum(resource.getrusage(whose)[:2]) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def measure(runs: int, workers: int, case: Callable[[int], tuple[str, str]]) -> dict[str, float]:
    """Run scripts as fast as the workers take them; what starting and ending a pool costs is taken off."""
    began_cpu_s = _cpu_s()
    with ScriptPool(workers=workers):
        pass
    empty_cpu_s = _cpu_s() - began_cpu_s
    began_cpu_s = _cpu_s()
    with ScriptPool(workers=workers) as pool:
        began_s = time.perf_counter()
        submitted = [pool.submit(case(number)[0], {"n": number}, case(number)[1]) for number in range(runs)]
        for future in submitted:
            future.result()
        took_s = time.perf_counter() - began_s
    cpu_s = _cpu_s() - began_cpu_s - empty_cpu_s
    return {"per_second": round(runs / took_s), "cpu_ms": round(cpu_s / runs * 1000, 2)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark, and print its figures with one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400, help="runs of each case (default 400)")
    parser.add_argument("--workers", type=int, default=2, help="workers of the pool (default 2)")
    options = parser.parse_args(arguments)
    cases: dict[str, Callable[[int], tuple[str, str]]] = {
        "same text, same workflow": lambda _: (_SQUARE, "w"),
        "same text, a workflow each": lambda number: (_SQUARE, f"w{number}"),
        "a text each": lambda number: (f"{_SQUARE} + {number}", "w"),
    }
    found = {}
    for name, case in cases.items():
        found[name] = measure(options.runs, options.workers, case)
        print(f"{name:28} {found[name]['per_second']:6.0f} scripts/s  {found[name]['cpu_ms']:6.2f} ms of CPU each")
    print(json.dumps({"scripts": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
