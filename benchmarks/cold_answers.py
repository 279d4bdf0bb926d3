"""The cost of an answer to a workflow that is not in memory: `python -m benchmarks.cold_answers [--steps 30,100]
[--workflows W] [--pairs P]`.

After a restart, or beyond `evaluator.hot_steps`, an evaluator reads a workflow from its store before it applies an
answer. W chains of event steps advance by one answer each, in turn; the subject keeps no workflow in memory
(`hot_steps` 0), the floor all of them. CPU time of the evaluator's loop alone (`benchmarks/offline_loop.py`), the two
measured alternately.

The last line is one JSON object: for each length `cold_ratio_<steps>`, and the microseconds of both.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TextIO

from afl_stream.evaluator.service import tune_collector
from benchmarks.measure import PairedSeconds, paired
from benchmarks.offline_loop import answers_cost


def compare(workflows: int, steps: int, pairs: int) -> PairedSeconds:
    """Measure cold answers and hot ones; in seconds an answer."""
    return paired(
        lambda: answers_cost(workflows, steps, {"AFL_EVALUATOR_HOT_STEPS": "0"}).us_per_answer / 1e6,
        lambda: answers_cost(workflows, steps, {}).us_per_answer / 1e6,
        pairs,
    )


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cold_answers", description="what a cold answer costs")
    parser.add_argument("--steps", default="30,100", metavar="N,M", help="lengths of the chains (default: 30,100)")
    parser.add_argument("--workflows", type=int, default=100, metavar="W", help="chains (default: 100)")
    parser.add_argument("--pairs", type=int, default=3, metavar="P", help="pairs of runs (default: 3)")
    options = parser.parse_args(arguments)
    tune_collector()
    figures: dict[str, float] = {}
    for steps in map(int, options.steps.split(",")):
        found = compare(options.workflows, steps, options.pairs)
        cold_us, hot_us = found.subject_s * 1e6, found.floor_s * 1e6
        out.write(f"{steps:4d} steps: cold {cold_us:6.1f} us an answer, hot {hot_us:6.1f}, ratio {found.ratio:.2f}\n")
        out.flush()
        figures |= {
            f"cold_ratio_{steps}": round(found.ratio, 2),
            f"cold_us_{steps}": round(cold_us, 1),
            f"hot_us_{steps}": round(hot_us, 1),
        }
    out.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
