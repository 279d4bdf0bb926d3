"""One party of a deployment as a process of its own, which can be made to die or to stand still between two steps.

    python -m tests.integration.party evaluator --at control.applied --passes 2 --act freeze
    python -m tests.integration.party agent --handlers tests.integration.party_handlers --group workers
    python -m tests.integration.party audit --file audit.jsonl

Settings come from the environment (`AFL_...`). On stdout: `ready` when an evaluator has partitions, or an agent or an
audit has joined its group; at a clean end, which SIGTERM asks for, one line of JSON that counts what was done.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from afl.runtime.sqlite_store import SqliteStore
from afl_stream.agent import Agent, AgentConfig
from afl_stream.audit import Audit, AuditConfig, AuditFile
from afl_stream.commands.interrupts import draining
from afl_stream.config import StreamConfig, load_config
from afl_stream.kafka import KafkaTransport
from afl_stream.service import EvaluatorService

#: What a party does to itself.
ACTS: Final = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP}


class Fate:
    """A probe that sends this process a signal when it passes a point for the n-th time. Any thread may pass."""

    def __init__(self, point: str, passes: int, number: signal.Signals) -> None:
        self._point = point
        self._left = passes
        self._number = number
        self._lock = threading.Lock()

    def __call__(self, point: str) -> None:
        if point != self._point:
            return
        with self._lock:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), self._number)


class ReadyWithPartitions:
    """A probe of an evaluator that says `ready` when it has taken its first partitions over."""

    def __init__(self, fate: Fate) -> None:
        self._fate = fate
        self._said = False

    def __call__(self, point: str) -> None:
        if point == "control.positions_read" and not self._said:
            self._said = True
            say("ready")
        self._fate(point)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run_evaluator(config: StreamConfig, fate: Fate) -> int:
    probe = ReadyWithPartitions(fate)
    stop = threading.Event()
    transport = KafkaTransport(config)
    store = SqliteStore(config.store_path, prefix=config.prefix, probe=fate)
    with draining(stop.set):
        service = EvaluatorService(config, transport, store, probe=probe)
        service.run(stop)
    stats = service.loop.stats()
    store.close()
    transport.close()
    say(json.dumps({
        "outcomes": {outcome.value: count for outcome, count in stats.outcomes.items()},
        "batches": stats.batches,
        "conflicts": stats.conflicts,
        "positions_lost": stats.positions_lost,
        "published": stats.published,
    }))  # fmt: skip
    return 0


def run_agent(config: StreamConfig, fate: Fate, handlers: Sequence[str], group: str | None) -> int:
    transport = KafkaTransport(config)
    agent = Agent(AgentConfig(stream=config, group=group), transport, probe=fate)
    for argument in handlers:
        agent.load_handlers(argument)
    with draining(agent.stop):
        agent.start()
        say("ready")
        code = agent.run()
    transport.close()
    say(json.dumps(asdict(agent.counts)))
    return code


def run_audit(config: StreamConfig, fate: Fate, file: Path) -> int:
    transport = KafkaTransport(config)
    audit = Audit(AuditConfig(stream=config, commands=True), transport, AuditFile(file), probe=fate)
    with draining(audit.stop):
        audit.start()
        say("ready")
        code = audit.run()
    transport.close()
    say(json.dumps(asdict(audit.counts)))
    return code


def parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="party")
    parser.add_argument("role", choices=("evaluator", "agent", "audit"))
    parser.add_argument("--at", default="", help="the point at which it acts")
    parser.add_argument("--passes", type=int, default=1, help="which pass of the point, from 1")
    parser.add_argument("--act", choices=sorted(ACTS), default="kill")
    parser.add_argument("--handlers", action="append", default=[])
    parser.add_argument("--group")
    parser.add_argument("--file", type=Path)
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    given = parse(words)
    config = load_config()
    fate = Fate(given.at, given.passes, ACTS[given.act])
    if given.role == "evaluator":
        return run_evaluator(config, fate)
    if given.role == "agent":
        return run_agent(config, fate, given.handlers, given.group)
    return run_audit(config, fate, given.file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
