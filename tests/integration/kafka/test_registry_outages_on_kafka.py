"""Evaluator and audit while a schema registry is faulty: they wait in their groups and lose nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from afl.engine.model.store import COMPLETED
from afl_stream.kafka.groups import NEVER_S
from afl_stream.resources import schema_text
from afl_stream.transport import TopicPartition
from afl_stream.wire.messages import Event
from tests.eventually import eventually
from tests.integration.kafka.test_audit_crashes_on_kafka import in_the_log, written
from tests.integration.registry.faulty_proxy import Fault, FaultyProxy
from tests.integration.registry.world import RegistryParties
from tests.worlds.deployment import Deployment
from tests.worlds.processes import DEADLINE_S, Party
from tests.worlds.world import Deployments
from tools.registry import RegistryServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

QUIZ = """
namespace quiz {
  event facet Ask(number: Long) => (reply: Long)
  workflow Quiz(numbers: [Long]) => (replies: [Long]) andThen foreach number in $.numbers {
    asked = Ask(number = $.number)
    yield Quiz(replies = [asked.reply])
  }
}
"""
NUMBERS: Final = [1, 2]
API: Final = "/apis/ccompat/v7"
#: How long evaluator and audit wait for one answer of the registry.
TIMEOUT_S: Final = 2
#: Of control, with a run in each. If a reader waited for a silent registry once for each, its group would expel it.
PARTITIONS: Final = 12
LONGEST_POLL_MS: Final = 18_000
SETTINGS: Final = {
    "AFL_REGISTRY_AUTO_REGISTER": "on",
    "AFL_REGISTRY_TIMEOUT_S": "20",
    "AFL_KAFKA_CONSUMER_MAX_POLL_INTERVAL_MS": str(LONGEST_POLL_MS),
    # A machine under load does not end a membership: only a reader that does not poll is to be found out.
    "AFL_KAFKA_CONSUMER_SESSION_TIMEOUT_MS": "15000",
}


def number_of(event: Event) -> int:
    number = event.payload["number"]
    assert isinstance(number, int)
    return number


class Answers:
    """Answers to the events of some runs, each with a writer schema of its own that no reader knows."""

    def __init__(self, deployment: Deployment, registry: RegistryServer, runs: Sequence[str]) -> None:
        """Wait for the events, and register the schemas."""
        self._deployment = deployment
        wanted = len(runs) * len(NUMBERS)
        eventually(lambda: len(deployment.events("quiz.Ask")) >= wanted, DEADLINE_S, interval_s=0.1)
        with RegistryParties() as parties:
            client = parties.client(registry.url)
            events = sorted(deployment.events("quiz.Ask"), key=number_of)
            self._left = [(event, self._value(client, event, place)) for place, event in enumerate(events)]

    def put(self, count: int | None = None) -> None:
        """Send so many of those that are left, or all."""
        now, self._left = self._left[:count], [] if count is None else self._left[count:]
        for event, value in now:
            self._deployment.put(self._deployment.topology.control(), value, key=event.workflow_id.encode())

    def _value(self, client: SchemaRegistryClient, event: Event, place: int) -> bytes:
        schema = json.loads(schema_text("step_continue"))
        schema["fields"].append({"name": f"extra_{place}", "type": ["null", "string"], "default": None})
        subject = f"{self._deployment.topology.control()}-{event.step_id}"
        write = AvroSerializer(client, json.dumps(schema), conf={"subject.name.strategy": lambda *_: subject})
        fields = {"step_id": event.step_id, "result": {"reply": {"value": number_of(event) * 10}}}
        value = write(fields, SerializationContext("", MessageField.VALUE))
        assert isinstance(value, bytes)
        return value


@dataclass(frozen=True)
class Readers:
    """The evaluator and the audit of a deployment, each behind a proxy of its own."""

    deployment: Deployment
    file: Path
    evaluator: Party
    audit: Party
    proxies: Sequence[FaultyProxy]

    @property
    def group_names(self) -> tuple[str, str]:
        return self.deployment.config.evaluator_group, f"{self.deployment.config.prefix}audit"

    def members(self) -> dict[str, set[str]]:
        """Return the ids of each group's members."""
        asked = self.deployment.kafka.admin.describe_consumer_groups(list(self.group_names), request_timeout=NEVER_S)
        return {name: {str(m.member_id) for m in done.result(20).members} for name, done in asked.items()}

    def have_asked(self, count: int) -> bool:
        """Whether each has asked the registry so often since the last `set_fault`, and lives."""
        assert self.evaluator.check_alive()
        assert self.audit.check_alive()
        return all(proxy.asked >= count for proxy in self.proxies)

    def set_fault(self, fault: Fault) -> None:
        for proxy in self.proxies:
            proxy.asked, proxy.fault = 0, fault

    def offsets(self) -> dict[str, Mapping[TopicPartition, int]]:
        """Return what each group has committed on the control topic."""
        topics = [self.deployment.topology.control()]
        return {
            group: {at: found.offset for at, found in self.deployment.committed(group, topics).items()}
            for group in self.group_names
        }

    def assert_all_read(self, runs: Sequence[str], members: Mapping[str, set[str]]) -> None:
        """Each record was applied and written once, none is a dead letter, and no one has left a group."""
        deployment = self.deployment
        self.assert_no_dead_letter()
        for run in runs:
            assert deployment.workflow(run).status == COMPLETED
            assert deployment.workflow(run).outputs == {"replies": [number * 10 for number in NUMBERS]}
        expected = in_the_log(deployment)
        eventually(lambda: written(self.file) == expected, DEADLINE_S, interval_s=0.1)
        assert not any(json.loads(line)["kind"] == "unreadable" for line in self.file.read_text().splitlines())
        assert self.members() == members, "both have stayed in their groups"
        assert self.evaluator.stop()["positions_lost"] == 0
        assert self.audit.stop()["unreadable"] == 0

    def assert_no_dead_letter(self) -> None:
        topology = self.deployment.topology
        for topic in (topology.control(), topology.commands(), topology.facet("quiz.Ask")):
            assert self.deployment.dead_letters(topic) == []


@contextmanager
def readers_behind_proxies(
    deployment: Deployment, registry: RegistryServer, file: Path, faulty: bytes
) -> Iterator[Readers]:
    with FaultyProxy(registry.port, faulty) as one, FaultyProxy(registry.port, faulty) as other:
        yield started(deployment, file, (one, other))


def started(deployment: Deployment, file: Path, proxies: Sequence[FaultyProxy]) -> Readers:
    """Start both, and wait until they have their partitions."""
    timeout = {"AFL_REGISTRY_TIMEOUT_S": str(TIMEOUT_S)}
    of_evaluator, of_audit = [{**timeout, "AFL_REGISTRY_URL": proxy.url(API)} for proxy in proxies]
    evaluator = deployment.processes.evaluator(environment=of_evaluator)
    audit = deployment.processes.audit(file, environment=of_audit)
    readers = Readers(deployment, file, evaluator.when_ready(), audit.when_ready(), proxies)
    for group in readers.group_names:
        deployment.processes.await_members(group, 1)
    return readers


def start_runs(deployment: Deployment) -> list[str]:
    runs = [deployment.id_in_partition(number, "quiz") for number in range(PARTITIONS)]
    return [deployment.client.start("quiz.Quiz", {"numbers": NUMBERS}, workflow_id=run) for run in runs]


def quiz(deployments: Deployments, registry: RegistryServer) -> Deployment:
    settings = {**SETTINGS, "AFL_REGISTRY_URL": registry.url}
    return deployments(QUIZ, control_partitions=PARTITIONS, settings=settings)


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.CUT, Fault.UNAVAILABLE, Fault.BROKEN, Fault.SILENT])
def test_evaluator_and_audit_wait_in_their_groups_for_a_registry_that_does_not_answer(
    fault: Fault, deployments: Deployments, registry: RegistryServer, tmp_path: Path
) -> None:
    deployment = quiz(deployments, registry)
    schemas = f"GET {API}/schemas/ids/".encode()
    with readers_behind_proxies(deployment, registry, tmp_path / "audit.jsonl", schemas) as readers:
        runs = start_runs(deployment)
        answers = Answers(deployment, registry, runs)
        members, offsets = readers.members(), readers.offsets()

        readers.set_fault(fault)
        answers.put(PARTITIONS)
        eventually(lambda: readers.have_asked(4), DEADLINE_S, interval_s=0.1)
        answers.put()
        eventually(lambda: readers.have_asked(12), DEADLINE_S * 2, interval_s=0.1)
        assert readers.offsets() == offsets
        assert readers.members() == members
        readers.assert_no_dead_letter()

        readers.set_fault(Fault.NONE)
        deployment.processes.finish(runs)

        readers.assert_all_read(runs, members)


def test_evaluator_and_audit_stay_in_their_groups_while_each_answer_of_the_registry_is_late(
    deployments: Deployments, registry: RegistryServer, tmp_path: Path
) -> None:
    deployment = quiz(deployments, registry)
    schemas = f"GET {API}/schemas/ids/".encode()
    with readers_behind_proxies(deployment, registry, tmp_path / "audit.jsonl", schemas) as readers:
        runs = start_runs(deployment)
        answers = Answers(deployment, registry, runs)
        members = readers.members()

        readers.set_fault(Fault.SLOW)
        answers.put()
        deployment.processes.finish(runs)

        readers.assert_all_read(runs, members)


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.BROKEN, Fault.SILENT])
def test_an_evaluator_waits_for_the_registry_to_take_the_schemas_of_its_events(
    fault: Fault, deployments: Deployments, registry: RegistryServer, tmp_path: Path
) -> None:
    deployment = quiz(deployments, registry)
    with readers_behind_proxies(deployment, registry, tmp_path / "audit.jsonl", b"POST ") as readers:
        members = readers.members()
        readers.set_fault(fault)
        runs = start_runs(deployment)
        eventually(
            lambda: readers.evaluator.check_alive() and readers.proxies[0].asked >= 3, DEADLINE_S, interval_s=0.1
        )
        assert deployment.records(deployment.topology.facet("quiz.Ask")) == []
        readers.assert_no_dead_letter()

        readers.set_fault(Fault.NONE)
        Answers(deployment, registry, runs).put()
        deployment.processes.finish(runs)

        readers.assert_all_read(runs, members)


def test_evaluator_and_audit_read_on_when_a_registry_that_was_killed_twice_is_back(
    deployments: Deployments, own_registry: RegistryServer, tmp_path: Path
) -> None:
    deployment = quiz(deployments, own_registry)
    schemas = f"GET {API}/schemas/ids/".encode()
    with readers_behind_proxies(deployment, own_registry, tmp_path / "audit.jsonl", schemas) as readers:
        runs = start_runs(deployment)
        answers = Answers(deployment, own_registry, runs)
        members = readers.members()

        for _ in range(2):
            own_registry.kill()
            readers.set_fault(Fault.NONE)
            answers.put(5)
            eventually(lambda: readers.have_asked(3), DEADLINE_S, interval_s=0.1)
            answers.put(5)
            assert readers.members() == members
            own_registry.start_again()
            eventually(deployment.has_read_all, 3 * DEADLINE_S, interval_s=0.5)
        answers.put()
        deployment.processes.finish(runs)

        readers.assert_all_read(runs, members)
