"""`python -m tests.fuzzing`: many more programs than the suite has time for; `... valid --seed 17` runs one again."""

import argparse
import logging
import sys
import time
from collections.abc import Sequence

from tests.fuzzing.kinds import KINDS, attempt


def main(arguments: Sequence[str] | None = None) -> int:
    """0: nothing was found. Defects go to standard output, each with the command that shows it again."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"{', '.join(KINDS)}; all of them by default")
    parser.add_argument("--seed", type=int, help="run this one, and let its traceback be seen")
    parser.add_argument("--first", type=int, default=None, help="the first seed; by default the time of day chooses")
    parser.add_argument("--count", type=int, default=3_000, help="seeds of each kind (default: %(default)s)")
    options = parser.parse_args(arguments)
    kinds = options.kinds or list(KINDS)
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"no kind {', '.join(unknown)}; there are {', '.join(KINDS)}")
    if options.seed is not None:
        for kind in kinds:
            KINDS[kind](options.seed)
        return 0
    # What programs do wrong is their business here, and fills the screen.
    log = logging.getLogger("afl")
    before = log.level
    log.setLevel(logging.ERROR)
    first = int(time.time()) if options.first is None else options.first
    try:
        return 1 if sum(_run(kind, first, options.count) for kind in kinds) else 0
    finally:
        log.setLevel(before)


def _run(kind: str, first: int, count: int) -> int:
    start = time.perf_counter()
    sys.stdout.write(f"{kind}: seeds {first} to {first + count - 1}\n")
    found = 0
    for seed in range(first, first + count):
        if defect := attempt(kind, seed):
            found += 1
            sys.stdout.write(f"{defect}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{kind}: {count} tried, {found} defects, {time.perf_counter() - start:.0f} s\n")
    sys.stdout.flush()
    return found


if __name__ == "__main__":
    sys.exit(main())
