"""Three brokers: killed, leaders moved, partitions added and records deleted while a fleet is at work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ElectionType
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.cimpl import NewPartitions

from tests.eventually import eventually
from tests.scenarios.test_rival_evaluators import FLEET, PING
from tests.worlds.delivery_checks import assert_delivered, assert_no_offset_past_its_effect
from tests.worlds.deployment import Deployment, unique_ids
from tests.worlds.party_handlers import argument_for
from tests.worlds.processes import DEADLINE_S, Party, Processes
from tests.worlds.world import Deployments
from tools.kafka import Cluster

# A test kills brokers, and the others find all three again.
pytestmark = [pytest.mark.long, pytest.mark.kafka, pytest.mark.timeout(400)]

#: Scans that are started together, and the events of each.
SCANS, HOSTS = 5, 100
#: Each call takes this long: eight at once do 160 a second, so that there is a middle in which brokers go.
PACE_MS = 50
REQUEST_TIMEOUT_S = 30
#: A controller on a machine under load may hear of a broker later than it usually does.
PATIENT = {"broker.session.timeout.ms": "5000", "broker.heartbeat.interval.ms": "500"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, broker_installed: None) -> Iterator[Cluster]:
    with Cluster.start(tmp_path_factory.mktemp("cluster"), properties=PATIENT) as started:
        yield started


@pytest.fixture
def deployments(cluster: Cluster, processes: Processes, tmp_path: Path) -> Iterator[Deployments]:
    """Make deployments on the three brokers; all three run when it ends."""
    made = Deployments(processes, tmp_path, cluster.bootstrap, f"{tmp_path.name}.")
    yield made
    cluster.start_again()
    made.close()


def fleet(deployments: Deployments, **settings: str) -> Deployment:
    return deployments(
        FLEET,
        control_partitions=4,
        settings={"AFL_TOPICS_REPLICATION": "3", "AFL_TOPICS_EVENT_PARTITIONS": "4", **settings},
    )


class Fleet:
    """Two evaluators and two agents, and the scans that they do."""

    def __init__(self, deployment: Deployment, gate: Path | None = None) -> None:
        """With a `gate` the agents handle the first hosts of each scan only, until that file is there."""
        self.deployment = deployment
        pace = {"PARTY_PACE_MS": str(PACE_MS), **({} if gate is None else {"PARTY_GATE": str(gate)})}
        self.evaluators: list[Party] = [deployment.processes.evaluator() for _ in range(2)]
        self.agents: list[Party] = [deployment.processes.agent(environment=pace) for _ in range(2)]
        deployment.processes.await_members(deployment.config.evaluator_group, 2)
        deployment.processes.await_members(deployment.agent_group, 2)
        self.scans: list[str] = []
        self._last_answered = -1

    @property
    def events(self) -> int:
        """The events of all scans that were started."""
        return len(self.scans) * HOSTS

    def start_scans(self) -> None:
        for _ in range(SCANS):
            self.start_scan()

    def start_scan(self) -> None:
        hosts = {"hosts": list(range(HOSTS))}
        name = f"scan-{len(self.scans)}"
        self.scans.append(self.deployment.client.start("fleet.Scan", hosts, workflow_id=name))

    def answered(self) -> int:
        """Return how many events have their answer in the store."""
        steps = (step for scan in self.scans for step in self.deployment.steps(scan))
        return sum(step.event_state == "event.Completed" for step in steps)

    def wait_for_answers(self, more: int) -> None:
        """Wait until so many more events are answered."""
        count = self.answered() + more
        eventually(lambda: self._are_alive() and self.answered() >= count, DEADLINE_S, interval_s=0.1)

    def is_at_rest(self) -> bool:
        """Return whether no answer was applied since the last time that this was asked."""
        before, self._last_answered = self._last_answered, self.answered()
        return self._are_alive() and before == self._last_answered

    def _are_alive(self) -> bool:
        return all(party.check_alive() for party in (*self.evaluators, *self.agents))

    def assert_done(self) -> None:
        """Wait for the end: every workflow complete, every step once, nothing lost, and no process has given up."""
        self.deployment.processes.finish(self.scans)
        assert_delivered(self.deployment, self.scans)
        for scan in self.scans:
            assert self.deployment.workflow(scan).outputs == {"times": [2 * host for host in range(HOSTS)]}
        assert_no_offset_past_its_effect(self.deployment)
        sent = unique_ids(self.deployment.records(self.deployment.topology.facet(PING)))
        assert len(sent) == self.events
        assert [party.stop().get("failed", 0) for party in (*self.evaluators, *self.agents)] == [0, 0, 0, 0]


def leaders(deployment: Deployment, topic: str) -> dict[int, int]:
    """Return the broker that leads each partition of a topic."""
    found = deployment.kafka.admin.list_topics(topic, REQUEST_TIMEOUT_S).topics[topic]
    return {number: partition.leader for number, partition in found.partitions.items()}


def needed_in_sync(deployment: Deployment) -> set[str]:
    """Return how many copies have to have a record before it counts as written, of all topics of the loop."""
    topology = deployment.topology
    topics = [topology.control(), topology.commands(), topology.external(), topology.facet(PING)]
    return {found.settings["min.insync.replicas"] for found in deployment.transport.admin().topics(topics).values()}


def are_in_sync(deployment: Deployment, copies: int) -> bool:
    """Whether each partition of the deployment has that many copies in sync."""
    listed = deployment.kafka.admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
    ours = [topic for name, topic in listed.items() if name.startswith(deployment.config.prefix)]
    return bool(ours) and all(len(p.isrs) == copies for topic in ours for p in topic.partitions.values())


def bring_back(cluster: Cluster, deployment: Deployment) -> None:
    """Start the brokers again that do not run, and wait until every partition has its three copies."""
    cluster.start_again()
    eventually(lambda: are_in_sync(deployment, 3), DEADLINE_S, interval_s=0.2)


def test_each_broker_is_killed_in_turn_and_a_leader_moved_while_2000_events_run(
    cluster: Cluster, deployments: Deployments
) -> None:
    work = Fleet(fleet(deployments))
    assert needed_in_sync(work.deployment) == {"2"}
    for broker in cluster.brokers:
        work.start_scans()
        work.wait_for_answers(20)
        assert work.answered() < work.events, "it was over before the broker went"
        broker.kill()
        work.wait_for_answers(100)
        bring_back(cluster, work.deployment)

    work.start_scans()
    work.wait_for_answers(20)
    topic, admin = work.deployment.topology.control(), work.deployment.kafka.admin
    before = leaders(work.deployment, topic)
    assert work.answered() < work.events, "it was over before a leader moved"
    admin.elect_leaders(ElectionType.PREFERRED, [KafkaPartition(topic, n) for n in before]).result(REQUEST_TIMEOUT_S)
    eventually(lambda: leaders(work.deployment, topic) != before, DEADLINE_S)

    work.assert_done()
    assert work.events == 2_000


def test_with_two_brokers_down_everything_waits_and_then_goes_on(
    cluster: Cluster, deployments: Deployments, tmp_path: Path
) -> None:
    work = Fleet(fleet(deployments), gate := tmp_path / "gate")
    work.start_scans()
    work.wait_for_answers(1)
    first, second, _ = cluster.brokers

    first.kill()
    second.kill()
    gate.touch()
    # What was acknowledged before may still be applied; then nothing can be.
    eventually(work.is_at_rest, DEADLINE_S, interval_s=2.0)
    assert work.answered() < work.events
    bring_back(cluster, work.deployment)

    work.assert_done()


def test_partitions_that_a_facets_topic_is_given_are_read_from_their_first_record(
    cluster: Cluster, deployments: Deployments, tmp_path: Path
) -> None:
    work = Fleet(fleet(deployments), gate := tmp_path / "gate")
    work.start_scans()
    work.wait_for_answers(1)
    topic = work.deployment.topology.facet(PING)

    work.deployment.kafka.admin.create_partitions([NewPartitions(topic, 6)])[topic].result(REQUEST_TIMEOUT_S)
    eventually(lambda: len(leaders(work.deployment, topic)) == 6, DEADLINE_S)
    gate.touch()

    def are_all_used() -> bool:
        """Start a scan, and look: evaluators hear of new partitions within seconds, and use them from then on."""
        work.start_scan()
        return {record.partition for record in work.deployment.records(topic)} == set(range(6))

    eventually(are_all_used, DEADLINE_S, interval_s=1.0)
    work.assert_done()


@pytest.mark.parametrize("choice", ["stop", "continue"])
def test_retention_that_ran_over_a_sleeping_agents_backlog_is_told_with_the_range(
    choice: str, cluster: Cluster, deployments: Deployments
) -> None:
    deployment = fleet(deployments, AFL_AGENT_LOST_RECORDS=choice, AFL_TOPICS_EVENT_PARTITIONS="1")
    topic = deployment.topology.facet(PING)
    deployment.processes.evaluator()
    agent = deployment.processes.agent()
    deployment.client.start("fleet.Scan", {"hosts": list(range(10))}, workflow_id="before")
    deployment.processes.finish(["before"])
    agent.stop()
    deployment.client.start("fleet.Scan", {"hosts": list(range(10))}, workflow_id="slept")
    eventually(lambda: len(deployment.records(topic)) == 20, DEADLINE_S)

    kept_from = KafkaPartition(topic, 0, 15)
    deployment.kafka.admin.delete_records([kept_from])[kept_from].result(REQUEST_TIMEOUT_S)
    words = ("--group", deployment.agent_group, "--handlers", argument_for(PING))
    again = deployment.processes.command("agent", *words)

    if choice == "stop":
        assert again.exit_code() == 3
        assert f"{topic}[0]: position 10 is out of range: the log holds 15 to 20" in again.log
    else:
        again.when_it_says(
            f"{topic}[0]: position 10 is out of range: the log holds 15 to 20; reading continues at offset 15, 5"
        )
        eventually(lambda: sum(s.event_state == "event.Completed" for s in deployment.steps("slept")) == 5, DEADLINE_S)
