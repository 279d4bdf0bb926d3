"""Evaluators and agents of a release before are replaced by those of this tree while 500 events are in flight.

The trees are of named commits of this repository. One has the store's present format: its parties are replaced one
after another. The other has the format before: its evaluators have to end before the first of this tree begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from afl.engine.model.store import COMPLETED
from afl_stream.settings.config import load_config
from tests.eventually import eventually
from tests.scenarios.command_lines import PROGRAM
from tests.worlds.delivery_checks import assert_delivered
from tests.worlds.deployment import Deployment, unique_ids
from tests.worlds.kafka_cluster import KafkaCluster
from tests.worlds.processes import DEADLINE_S, ROOT, Party, Processes
from tests.worlds.releases import release_tree
from tests.worlds.stores import ConfiguredStores
from tests.worlds.world import kafka_environment

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

#: Has SQLite stores of format 6 as this tree, and neither a gateway nor guests of the embedded log, for instance.
SAME_FORMAT: Final = "db52efc3"
#: The last one whose SQLite stores are of format 5.
FORMAT_BEFORE: Final = "f7ed0b90"
RUNS: Final = 100
#: Of each run: four pings and a note.
IN_FLIGHT: Final = 500
FACETS: Final = ("net.Ping", "net.Note")
IDS: Final = [f"run-{number}" for number in range(RUNS)]
#: Creates the topics, deploys the program, and asks for the runs, as a client of its release.
STARTS: Final = """
import sys
from contextlib import closing
from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl_stream import Client, KafkaTransport, load_config

program = CompiledProgram(compile_text(open("watch.afl").read()).program_json)
with closing(KafkaTransport(load_config())) as transport, Client(load_config(), transport) as client:
    client.apply_topics([program])
    client.deploy(program)
    for number in range(int(sys.argv[1])):
        inputs = {"hosts": ["a", "bb", "ccc", "dddd"], "label": str(number)}
        client.start("net.Watch", inputs, workflow_id=f"run-{number}")
"""
#: Each call takes a second, until there is a file `gate`.
HANDLERS: Final = """
import threading
from pathlib import Path

pause = threading.Event()

def work():
    for _ in range(50):
        if Path("gate").exists():
            return
        pause.wait(0.02)

def ping(payload):
    work()
    return {"ms": len(payload["host"])}

def note(payload):
    work()
    return {"ok": True}

def register_handlers(runner):
    runner.register("net.Ping", ping)
    runner.register("net.Note", note)
"""


class Upgrade:
    """A deployment on the run's broker whose parties are of this tree, and of one before."""

    def __init__(self, folder: Path, bootstrap: str, prefix: str, processes: Processes, before: Path) -> None:
        (folder / "watch.afl").write_text(PROGRAM)
        (folder / "handlers_of_watch.py").write_text(HANDLERS)
        (folder / "starts.py").write_text(STARTS)
        self.folder, self.before = folder, before
        self._processes = processes
        self._environment = kafka_environment(bootstrap, prefix, folder)
        self._config = load_config(environ=self._environment)
        self._cluster = KafkaCluster(self._config)

    def close(self) -> None:
        self._cluster.close()

    def begin(self) -> tuple[list[Party], list[Party]]:
        """Have two evaluators and two agents of the release before at work, with all events in flight."""
        starts = self._start("starts", "starts", str(RUNS), tree=self.before)
        assert starts.exit_code() == 0, starts.log
        evaluators = [self.evaluator(self.before) for _ in range(2)]
        self.await_evaluators(2)
        # Before the first agent: an answer takes an event out of the flight.
        eventually(lambda: self._processes.check_alive() and self.sent() == IN_FLIGHT, DEADLINE_S, interval_s=0.2)
        return evaluators, [self.agent(self.before) for _ in range(2)]

    def evaluator(self, tree: Path = ROOT) -> Party:
        return self._start("evaluator", "afl_stream", "evaluator", tree=tree)

    def agent(self, tree: Path = ROOT) -> Party:
        party = self._start("agent", "afl_stream", "agent", "--handlers", "handlers_of_watch", tree=tree)
        return party.when_it_says("Ctrl-C")

    def _start(self, role: str, *words: str, tree: Path) -> Party:
        return self._processes.start(role, *words, environment=self._environment, tree=tree)

    def replace(self, parties: list[Party], *, evaluators: bool) -> None:
        """Put one of this tree in the place of each of the release before, one after another."""
        for older in parties:
            older.ask_to_stop()
            assert older.exit_code() == 0, older.log
            if evaluators:
                self.evaluator()
                self.await_evaluators(2)
            else:
                self.agent()

    def await_evaluators(self, count: int) -> None:
        """Wait until the group has so many members, each with partitions."""
        group = self._config.evaluator_group

        def are_there() -> bool:
            return self._processes.check_alive() and self._cluster.members(group) == count

        eventually(are_there, DEADLINE_S, interval_s=0.2)

    def sent(self) -> int:
        """Return how many events are on the facets' topics: one on its way at a rebalance may be there twice."""
        topics = [f"{self._config.prefix}events.{facet}" for facet in FACETS]
        return sum(len(unique_ids(self._cluster.records(topic))) for topic in topics)

    def answers(self) -> int:
        """Return how many answers are on the control topic."""
        return len(self._cluster.records(f"{self._config.prefix}control"))

    def finish(self) -> None:
        """Let the handlers run freely, and check that nothing was lost, done twice, or put aside."""
        assert self.answers() < IN_FLIGHT, "the last events are answered while parties are replaced"
        (self.folder / "gate").touch()
        with closing(Deployment(self._config, KafkaCluster(self._config), ConfiguredStores(), PROGRAM)) as deployment:
            store = deployment.store

            def are_over() -> bool:
                self._processes.check_alive()
                return {deployment.workflow(one).status for one in IDS} == {COMPLETED} and not store.outbox()

            eventually(are_over, DEADLINE_S, interval_s=0.2)
            assert_delivered(deployment, IDS)
            outputs = [deployment.workflow(one).outputs for one in IDS]
            assert outputs == [{"times": [1, 2, 3, 4], "label": str(number)} for number in range(RUNS)]
            topology = deployment.topology
            read = [topology.control(), topology.commands(), *map(topology.facet, FACETS)]
            assert {topic: deployment.dead_letters(topic) for topic in read} == {topic: [] for topic in read}


@pytest.fixture
def upgrade(
    request: pytest.FixtureRequest, tmp_path: Path, kafka_bootstrap: str, kafka_prefix: str, processes: Processes
) -> Iterator[Upgrade]:
    made = Upgrade(tmp_path, kafka_bootstrap, kafka_prefix, processes, release_tree(request.param, tmp_path))
    yield made
    made.close()


@pytest.mark.parametrize("upgrade", [SAME_FORMAT], indirect=True)
def test_evaluators_and_then_agents_are_replaced_one_after_another(upgrade: Upgrade) -> None:
    evaluators, agents = upgrade.begin()

    upgrade.replace(evaluators, evaluators=True)
    upgrade.replace(agents, evaluators=False)

    upgrade.finish()


@pytest.mark.parametrize("upgrade", [FORMAT_BEFORE], indirect=True)
def test_an_evaluator_waits_for_those_of_an_older_format_and_migrates_what_they_leave(upgrade: Upgrade) -> None:
    evaluators, agents = upgrade.begin()

    first = upgrade.evaluator().when_it_says("end those of the older release first")
    for older in evaluators:
        older.ask_to_stop()
    assert [older.exit_code() for older in evaluators] == [0, 0]
    upgrade.evaluator()
    upgrade.await_evaluators(2)
    going_back = upgrade.evaluator(upgrade.before)
    assert going_back.exit_code() == 3
    upgrade.replace(agents, evaluators=False)

    assert "was of format 5 and is now of format 6: older releases refuse it" in first.log
    assert "a workflow store of format 6, expected format 1 to 5: upgrade this process" in going_back.log
    upgrade.finish()
