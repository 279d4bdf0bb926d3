"""`make stress`, `python -m tests.stress`: pollers on workflows that they share, as often as it takes.

    python -m tests.stress --trials 200
    python -m tests.stress --store sqlite --pollers 8 --mode processes --shape one

A line for each combination, one of JSON at the end; ends with 1 when something was wrong.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.stress.matrix import COUNTS, MODES, combinations, run_combination, tell
from tests.stress.programs import SHAPES
from tests.stress.stores import KINDS, Stores


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=__doc__)
    parser.add_argument("--trials", type=int, default=200, help="of each combination")
    parser.add_argument("--store", choices=KINDS, action="append", help="one kind, or several; all when left out")
    parser.add_argument("--pollers", type=int, action="append", help="how many; 1, 2, 4 and 8 when left out")
    parser.add_argument("--mode", choices=MODES, action="append")
    parser.add_argument("--shape", choices=sorted(SHAPES), action="append")
    given = parser.parse_args(words)
    chosen = combinations(
        given.store or KINDS, given.pollers or COUNTS, given.mode or MODES, given.shape or sorted(SHAPES)
    )
    findings = []
    with tempfile.TemporaryDirectory(prefix="afl-stress-") as folder, ExitStack() as cleanup:
        stores = Stores(Path(folder), os.environ.get("AFL_MONGODB_URL"), cleanup)
        for combination in chosen:
            findings.append(run_combination(combination, given.trials, stores))
            tell(findings[-1], sys.stdout)
    summary = {
        "combinations": len(findings),
        "trials": sum(finding.trials for finding in findings),
        "wrong": sum(len(finding.wrong) for finding in findings),
        "seconds": round(sum(finding.seconds for finding in findings), 1),
    }
    sys.stdout.write(json.dumps(summary) + "\n")
    return 1 if summary["wrong"] else 0


if __name__ == "__main__":
    # Log lines of pollers about conflicts are expected; only the store's content counts.
    logging.disable(logging.WARNING)
    sys.exit(main(sys.argv[1:]))
