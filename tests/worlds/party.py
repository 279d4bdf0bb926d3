"""One party of a deployment as a process of its own, which can be made to die or to stand still between two steps.

    python -m tests.worlds.party evaluator --at control.applied --passes 2 --act freeze
    python -m tests.worlds.party agent --handlers tests.worlds.party_handlers --group workers
    python -m tests.worlds.party agent --registry --topics 'shop.*'
    python -m tests.worlds.party poller --handlers tests.integration.desk_handlers
    python -m tests.worlds.party audit --file audit.jsonl
    python -m tests.worlds.party bridge --handlers tests.integration.bridge_declarations

Settings come from the environment (`AFL_...`). On stdout: `ready` when an evaluator has partitions, or an agent or an
audit has joined its group; at a clean end, which SIGTERM asks for, one line of JSON that counts what was done. Hundreds
of these start in one run of the tests, so each role imports what it needs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from afl.core.process.signals import draining
from afl.core.process.stopping import StopFlag
from afl_stream.settings.config import StreamConfig, load_config

if TYPE_CHECKING:
    from afl_stream.agent.agent import Agent
    from afl_stream.kafka.transport import KafkaTransport

#: What a party does to itself.
ACTS: Final = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP}


#: How long after its death a poller's tasks are taken over.
LEASE_MS: Final = 5_000
#: How often an agent reads its registry.
REFRESH_S: Final = 0.2


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
    from afl_stream.evaluator.service import EvaluatorService
    from afl_stream.evaluator.stores import open_configured_store
    from afl_stream.kafka.transport import KafkaTransport

    probe = ReadyWithPartitions(fate)
    stop = StopFlag()
    transport = KafkaTransport(config)
    store = open_configured_store(config, probe=fate)
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
    from afl_stream.agent.agent import Agent, AgentConfig
    from afl_stream.kafka.transport import KafkaTransport

    transport = KafkaTransport(config)
    agent = Agent(AgentConfig(stream=config, group=group), transport, probe=fate)
    for argument in handlers:
        agent.load_handlers(argument)
    return work(agent, transport)


def run_registry_agent(config: StreamConfig, fate: Fate, topics: Sequence[str], group: str | None) -> int:
    from afl_stream.agent.agent import AgentConfig
    from afl_stream.agent.registry_agent import RegistryAgent
    from afl_stream.commands.stored_handlers import StoredHandlers
    from afl_stream.evaluator.stores import open_configured_store
    from afl_stream.kafka.transport import KafkaTransport

    transport = KafkaTransport(config)
    store = open_configured_store(config)
    anywhere = replace(config, agent=replace(config.agent, allowed_handlers="/"))
    settings = AgentConfig(stream=anywhere, group=group)
    agent = RegistryAgent(
        StoredHandlers(store), settings, transport, topics=topics, refresh_interval_s=REFRESH_S, probe=fate
    )
    code = work(agent, transport)
    store.close()
    return code


def run_poller(config: StreamConfig, fate: Fate, handlers: Sequence[str]) -> int:
    """Return a poller of the evaluators' store. It knows no broker."""
    from afl.evaluation.evaluator import Evaluator
    from afl.runtime import AgentPoller, AgentPollerConfig
    from afl_stream.evaluator.stores import open_configured_store

    store = open_configured_store(config)
    poller = AgentPoller(store, Evaluator(store), AgentPollerConfig(poll_interval_ms=50, lease_ms=LEASE_MS), probe=fate)
    for module in handlers:
        poller.register_module(module)
    with draining(poller.stop):
        say("ready")
        poller.start()
    store.close()
    say("{}")
    return 0


def work(agent: Agent, transport: KafkaTransport) -> int:
    with draining(agent.stop):
        agent.start()
        say("ready")
        code = agent.run()
    transport.close()
    say(json.dumps(asdict(agent.counts)))
    return code


def run_audit(config: StreamConfig, fate: Fate, file: Path) -> int:
    from afl_stream.audit.audit import Audit, AuditConfig, AuditFile
    from afl_stream.kafka.transport import KafkaTransport

    transport = KafkaTransport(config)
    audit = Audit(AuditConfig(stream=config, commands=True), transport, AuditFile(file), probe=fate)
    with draining(audit.stop):
        audit.start()
        say("ready")
        code = audit.run()
    transport.close()
    say(json.dumps(asdict(audit.counts)))
    return code


def run_bridge(config: StreamConfig, fate: Fate, modules: Sequence[str]) -> int:
    """Run a bridge that does what the `declare` of each module says."""
    from afl_stream.bridge import Bridge
    from afl_stream.kafka.transport import KafkaTransport

    transport = KafkaTransport(config)
    bridge = Bridge(config, probe=fate)
    for module in modules:
        importlib.import_module(module).declare(bridge)
    stop = StopFlag()
    with draining(stop.set), bridge.running(transport):
        say("ready")
        stop.wait()
    transport.close()
    say(json.dumps(asdict(bridge.counts)))
    return 0


def parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="party")
    parser.add_argument("role", choices=("evaluator", "agent", "audit", "poller", "bridge"))
    parser.add_argument("--at", default="", help="the point at which it acts")
    parser.add_argument("--passes", type=int, default=1, help="which pass of the point, from 1")
    parser.add_argument("--act", choices=sorted(ACTS), default="kill")
    parser.add_argument("--handlers", action="append", default=[])
    parser.add_argument("--registry", action="store_true")
    parser.add_argument("--topics", action="append", default=[])
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
    if given.role == "poller":
        return run_poller(config, fate, given.handlers)
    if given.role == "bridge":
        return run_bridge(config, fate, given.handlers)
    if given.registry:
        return run_registry_agent(config, fate, given.topics, given.group)
    if given.role == "agent":
        return run_agent(config, fate, given.handlers, given.group)
    return run_audit(config, fate, given.file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
