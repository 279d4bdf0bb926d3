"""The evaluator of the measured events, as a process of its own: `python -m benchmarks.external_event_processes`.

Its settings come from the environment, as those of `afl-stream`. It says `ready` when it has its partitions, runs until
SIGTERM, and ends with one line of JSON: the CPU time of its process in seconds.
"""

import json
import sys
import threading
import time
from contextlib import closing
from typing import Final, TextIO

from afl.core.process.signals import draining
from afl.stores.sqlite.store import SqliteStore
from afl_stream.evaluator.service import EvaluatorService, tune_collector
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.settings.config import load_config

READY: Final = "ready"


class ReadyWhenAssigned:
    """A probe that says so when the evaluator has taken its first partitions over."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._said = False

    def __call__(self, point: str) -> None:
        if point == "control.positions_read" and not self._said:
            self._said = True
            self._out.write(f"{READY}\n")
            self._out.flush()


def main(out: TextIO) -> None:
    """Run the evaluator until SIGTERM."""
    config = load_config()
    stop = threading.Event()
    with (
        closing(KafkaTransport(config)) as transport,
        closing(SqliteStore(config.store_path, prefix=config.prefix)) as store,
        draining(stop.set),
    ):
        tune_collector()
        EvaluatorService(config, transport, store, probe=ReadyWhenAssigned(out)).run(stop)
    out.write(json.dumps({"cpu_s": round(time.process_time(), 3)}) + "\n")


if __name__ == "__main__":
    main(sys.stdout)
