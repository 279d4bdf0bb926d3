"""What the page `docs/performance.md` says of ours and of its peers, in one run: `python -m benchmarks.peers [--tiny]`.

Each contestant is a program of its own with pinned versions: DBOS Transact (`benchmarks.peers.dbos_steps`), Faust and
Quix Streams (`benchmarks.agent_drain`), Celery on Redis (`benchmarks.peers.celery_chain`), and our own loop on Kafka.
Nothing is compared by the clock of another run: CPU microseconds are those of the contestants' processes.

The last line is one JSON object: `loop` (ours, a chain of event steps on Kafka), `celery` (a chain of tasks),
`durable_steps` (ours and DBOS) and `drain` (ours, Faust and Quix Streams), each with the figures of its program.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from benchmarks.loop import broker, run_ours
from tools.environments import interpreter_of

_ROOT = Path(__file__).resolve().parent.parent.parent
_TIMEOUT_S = 1_800


def figures_of(python: str | Path, module: str, arguments: Sequence[str]) -> Any:
    """Run a program; return the object of its last line. Raises RuntimeError when it fails."""
    done = subprocess.run(
        [str(python), "-m", module, *arguments],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{module} ended with {done.returncode}: {done.stderr.strip()[-2_000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Run all contestants, and print what they say."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description="ours and its peers")
    parser.add_argument("--tiny", action="store_true", help="the smallest sizes, for a look whether the programs work")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker that is there already")
    options = parser.parse_args(arguments)
    workflows, steps = (4, 3) if options.tiny else (500, 10)
    with broker(options.bootstrap) as bootstrap:
        found: dict[str, Any] = {"loop": asdict(run_ours(bootstrap, workflows, steps, {}))}
        out.write(f"loop: {found['loop']}\n")
        drain = ["--bootstrap", bootstrap, *(["--records", "50", "--rounds", "1"] if options.tiny else [])]
        found["drain"] = figures_of(sys.executable, "benchmarks.agent_drain", drain)
        out.write(f"drain: {found['drain']}\n")
    chain = ["--chains", str(workflows), "--tasks", str(steps)]
    found["celery"] = figures_of(interpreter_of("celery"), "benchmarks.peers.celery_chain", chain)
    out.write(f"celery: {found['celery']}\n")
    durable = ["--steps", "5", "--pairs", "1"] if options.tiny else []
    found["durable_steps"] = figures_of(sys.executable, "benchmarks.durable_steps", durable)
    out.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
