"""A worker of a hosted workflow as a process of its own.

    python -m tests.worlds.hosted_process sums --executions FILE --store sqlite:///events.sqlite3 --pause 0.01

Settings come from the environment (`AFL_...`). At a clean end, which SIGTERM asks for, one line of JSON on stdout
counts what was done.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from dataclasses import asdict
from pathlib import Path

from afl_stream.kafka.transport import KafkaTransport
from afl_stream.pubsub.event_stores.opening import open_event_store
from afl_stream.pubsub.hosting.config import WorkerConfig
from afl_stream.pubsub.hosting.worker import WorkflowWorker
from afl_stream.settings.config import load_config
from tests.worlds.hosted import Executions, approval, pipeline

WORKFLOWS = ("sums", "approval")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("workflow", choices=WORKFLOWS)
    parser.add_argument("--executions", type=Path, required=True)
    parser.add_argument("--store")
    parser.add_argument("--pause", type=float, default=0.0)
    options = parser.parse_args()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(relativeCreated)d %(name)s %(message)s")
    executions = Executions(options.executions)
    workflow = pipeline(executions, pause_s=options.pause) if options.workflow == "sums" else approval()
    config = load_config()
    transport = KafkaTransport(config)
    store = None if options.store is None else open_event_store(options.store)
    worker = WorkflowWorker(workflow, transport, store, WorkerConfig(stream=config))

    worker.run()
    if store is not None:
        asyncio.run(store.close())
    transport.close()
    sys.stdout.write(f"{json.dumps(asdict(worker.counts))}\n")


if __name__ == "__main__":
    main()
