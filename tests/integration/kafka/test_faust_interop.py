"""Faust on the same topics: the example's agent and audit, as workers of their own, on a real broker."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from afl.engine.model.store import COMPLETED, ERROR
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.pubsub.event_stores.store import RequestStatus
from afl_stream.pubsub.hosting.client import WorkflowClient
from afl_stream.pubsub.hosting.config import WorkerConfig
from afl_stream.pubsub.hosting.topics import WorkflowTopics, apply_topics
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.settings.config import load_config
from afl_stream.transport import TopicPartition
from afl_stream.wire.messages import StepContinue
from examples.with_faust import offers
from tests.architecture.shell_sessions import type_page
from tests.eventually import eventually
from tests.worlds.delivery_checks import assert_delivered, assert_no_offset_past_its_effect
from tests.worlds.deployment import Deployment
from tests.worlds.processes import DEADLINE_S, ROOT, Party, Processes
from tests.worlds.requirements import missing
from tests.worlds.world import Deployments, kafka_environment
from tools.environments import EnvironmentNotMade, interpreter_of

pytestmark = pytest.mark.long

SHOP = (ROOT / "examples" / "with_faust" / "shop.afl").read_text()
VECTORS = ROOT / "schemas" / "partitioner_vectors.json"
FACET = "shop.Charge"
AGENT, AUDIT = "examples.with_faust.agent", "examples.with_faust.audit"
PRICING = "examples.with_faust.pricing"
#: What a worker logs when it has its partitions.
AT_WORK = "Worker ready"


@pytest.fixture(scope="session")
def faust() -> Path:
    """Return the interpreter of an environment that has Faust."""
    try:
        return interpreter_of("faust")
    except EnvironmentNotMade as error:
        missing(str(error))


def make_changelogs(bootstrap: str, prefix: str, environment: Mapping[str, str]) -> None:
    """Make the changelogs of the audit's tables, as its worker does when it starts for the first time.

    Faust asks for their partitions at once, and where the broker does not know them yet the audit ends with
    PartitionsMismatch: on a busy broker that is most of the time.
    """
    wanted = {"asked": ("EVENT", "12"), "answered": ("CONTROL", "6")}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = admin.create_topics([
        NewTopic(
            f"{prefix}audit.faust-{table}-changelog",
            int(environment.get(f"AFL_TOPICS_{of}_PARTITIONS", default)),
            1,
            config={"cleanup.policy": "compact"},
        )
        for table, (of, default) in wanted.items()
    ])  # fmt: skip
    for topic in made.values():
        topic.result(DEADLINE_S)


class Shop:
    """A deployment of the example, with an evaluator, whose facet is answered in Faust."""

    def __init__(self, deployment: Deployment, processes: Processes, faust: Path) -> None:
        self.deployment, self._processes, self._faust = deployment, processes, faust
        deployment.agent_group = f"{deployment.config.prefix}agent.{FACET}"
        environment = deployment.processes.environment
        make_changelogs(",".join(deployment.config.kafka.addresses), deployment.config.prefix, environment)
        self.evaluator = deployment.processes.evaluator()

    def worker(self, app: str) -> Party:
        """Start a worker of an app, which may have to wait for its partitions."""
        return self._processes.start(
            app.rpartition(".")[2], "faust", "-A", app, "worker", "--without-web", "-l", "info",
            environment=self.deployment.processes.environment, python=self._faust,
        )  # fmt: skip

    def start(self, orders: Sequence[int]) -> list[str]:
        """Start a run for each order; its id."""
        ids = [f"order-{order}" for order in orders]
        for order, workflow_id in zip(orders, ids, strict=True):
            self.deployment.client.start("shop.Checkout", {"order": str(order)}, workflow_id=workflow_id)
        return ids

    def completed(self, workflow_ids: Sequence[str]) -> int:
        rows = map(self.deployment.store.load_workflow, workflow_ids)
        return sum(row is not None and row.status == COMPLETED for row in rows)

    def counts(self) -> dict[str, int]:
        """Return what the audit's own command says."""
        said = subprocess.run(
            [self._faust, "-m", "faust", "-A", AUDIT, "counts"],
            cwd=ROOT,
            env={**os.environ, **self.deployment.processes.environment, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        ).stdout
        found: dict[str, int] = json.loads(said.splitlines()[-1])
        return found

    def has_committed_all(self) -> bool:
        """Whether the group has committed behind the last event of each partition."""
        topic = self.deployment.topology.facet(FACET)
        committed = self.deployment.committed(self.deployment.agent_group, [topic])
        ends: dict[TopicPartition, int] = {}
        for record in self.deployment.records(topic):
            ends[record.topic_partition] = record.offset + 1
        return {place: at.offset for place, at in committed.items() if place in ends} == ends


@pytest.fixture
def shop(deployments: Deployments, processes: Processes, faust: Path) -> Shop:
    return Shop(deployments(SHOP), processes, faust)


#: How often an audit that stands still is started again.
_MOST_RESTARTS = 5


@pytest.mark.timeout(400)
def test_a_worker_killed_between_its_events_loses_none_and_no_step_is_answered_twice(shop: Shop) -> None:
    deployment, workers = shop.deployment, [shop.worker(AGENT).when_it_says(AT_WORK)]
    audit = shop.worker(AUDIT).when_it_says(AT_WORK)
    workers.append(shop.worker(AGENT))
    deployment.processes.await_members(deployment.agent_group, 2)
    first = shop.start(range(40))
    deployment.processes.finish(first)

    # Frozen in front of events that wait for it, with answers behind it whose offsets it may not have committed.
    workers[0].freeze()
    second = shop.start(range(40, 100))
    eventually(lambda: shop.completed(second) > 0, DEADLINE_S)
    assert shop.completed(second) < len(second), "some wait for the worker that stands still"
    workers[0].kill()
    audit.kill()
    workers.append(shop.worker(AGENT))
    audit = shop.worker(AUDIT)
    deployment.processes.finish([*first, *second])

    assert_delivered(deployment, [*first, *second])
    outputs = [deployment.workflow(f"order-{order}").outputs for order in range(100)]
    assert outputs == [{"receipt": f"r-{order}"} for order in range(100)]
    eventually(deployment.has_read_all, DEADLINE_S, interval_s=0.1)
    answers = deployment.messages(deployment.topology.control())
    outcomes = shop.evaluator.stop()["outcomes"]
    assert outcomes["applied"] == 200, "a start and an answer for each run"
    assert outcomes.get("duplicate", 0) == len(answers) - 100, "and what came again changed nothing"
    assert_no_offset_past_its_effect(deployment)

    def has_all_audited() -> bool:
        # A worker that was thought dead may answer again meanwhile.
        return shop.counts() == the_audit(100, deployment.messages(deployment.topology.control()))

    for _ in range(_MOST_RESTARTS):
        try:
            eventually(has_all_audited, DEADLINE_S / 2, interval_s=0.5)
            break
        except AssertionError:
            # A leader of Faust's group that knows no topic yet takes none, and stays so: its operator starts another.
            audit.kill()
            audit = shop.worker(AUDIT)
    assert shop.counts() == the_audit(100, deployment.messages(deployment.topology.control())), audit.log[-3_000:]
    for worker in workers[1:]:
        worker.ask_to_stop()
    assert [worker.exit_code() for worker in workers[1:]] == [0, 0]
    assert shop.has_committed_all()


def the_audit(steps: int, answers: Sequence[object]) -> dict[str, int]:
    """Return what the audit has to say when every step was answered."""
    assert {type(answer) for answer in answers} == {StepContinue}
    return {"steps": steps, "answered": steps, "failed": 0, "waiting": 0, "repeated": len(answers) - steps}


@pytest.mark.timeout(120)
def test_a_handler_that_raises_fails_its_step_and_what_cannot_be_read_is_put_aside(shop: Shop) -> None:
    deployment = shop.deployment
    topic = deployment.topology.facet(FACET)
    deployment.put(topic, b"\xc3\x01nothing of ours", key=b"key")
    worker = shop.worker(AGENT).when_it_says(AT_WORK)
    deployment.client.start("shop.Checkout", {"order": "17", "amount": -1.0}, workflow_id="order-17")
    deployment.processes.finish(["order-17"])

    row = deployment.workflow("order-17")
    assert row.status == ERROR
    assert "an amount has to be above 0, not -1.0" in str(row.error)
    (dead,) = deployment.dead_letters(topic)
    assert (dead.key, dead.value) == (b"key", b"\xc3\x01nothing of ours")
    worker.ask_to_stop()
    assert worker.exit_code() == 0
    assert shop.has_committed_all()


@pytest.mark.timeout(240)
def test_an_agent_of_ours_goes_on_where_a_worker_of_faust_has_stopped_and_the_other_way_round(
    shop: Shop, tmp_path: Path
) -> None:
    handlers = tmp_path / "charging.py"
    handlers.write_text('FACET = "shop.Charge"\n\n\ndef handle(payload):\n    return {"receipt": "ours"}\n')
    deployment = shop.deployment
    worker = shop.worker(AGENT).when_it_says(AT_WORK)
    deployment.processes.finish(shop.start(range(20)))
    worker.ask_to_stop()
    assert worker.exit_code() == 0

    ours = deployment.processes.agent_of(str(handlers)).when_ready()
    deployment.processes.finish(shop.start(range(20, 30)))
    stats = ours.stop()
    worker = shop.worker(AGENT).when_it_says(AT_WORK)
    deployment.processes.finish(shop.start(range(30, 40)))

    answers = deployment.messages(deployment.topology.control())
    assert len(answers) == 40, "nothing is answered again"
    assert stats["answered"] == 10
    worker.ask_to_stop()
    assert worker.exit_code() == 0


@pytest.mark.timeout(240)
@pytest.mark.parametrize("written_as", ["avro", "json"])
def test_a_worker_that_stands_in_for_a_node_is_killed_and_every_request_ends_with_one_offer(
    written_as: str, kafka_bootstrap: str, kafka_prefix: str, processes: Processes, faust: Path, tmp_path: Path
) -> None:
    environment = {
        **kafka_environment(kafka_bootstrap, kafka_prefix, tmp_path),
        "AFL_TOPICS_CONTROL_PARTITIONS": "4",
        "AFL_PUBSUB_FORMAT": written_as,
    }
    config = load_config(environ=environment)
    app = ("faust", "-A", PRICING, "worker", "--without-web", "-l", "info")

    def pricing() -> Party:
        return processes.start("pricing", *app, environment=environment, python=faust)

    async def outputs_of_all(client: WorkflowClient, count: int) -> dict[str, list[tuple[str, object]]]:
        """Return the output of each of so many requests, when it has ended."""
        found: dict[str, list[tuple[str, object]]] = {}
        for request in (f"r{number}" for number in range(count)):
            # Followed while it waits for its price: asking again and again would keep the workflow's worker busy.
            invocation = client.invoke(
                InvokeContext(assistant_request_id=request), passes_waits=True, timeout_s=DEADLINE_S
            )
            found[request] = [(event.name, event.data) async for event in invocation]
            assert invocation.status is RequestStatus.FINISHED
        return found

    async def order(client: WorkflowClient, numbers: Sequence[int]) -> None:
        for number in numbers:
            await client.start(InvokeContext(assistant_request_id=f"r{number}"), {"item": "pen", "count": number})

    async def scenario(transport: KafkaTransport) -> dict[str, list[tuple[str, object]]]:
        async with WorkflowClient(offers.workflow, transport, WorkerConfig(stream=config)) as client:
            await order(client, range(10))
            await outputs_of_all(client, 10)
            # Frozen in front of what it is to price, with events behind it that it may not have committed.
            await asyncio.to_thread(killed.freeze)
            await order(client, range(10, 40))
            killed.kill()
            pricing()
            return await outputs_of_all(client, 40)

    with closing(KafkaTransport(config)) as transport:
        apply_topics(WorkflowTopics(config, "Offers", offers.workflow.definition.topics), transport)
        processes.start("worker", "afl_stream", "pubsub", "run", "examples.with_faust.offers", environment=environment)
        killed = pricing()
        found = asyncio.run(scenario(transport))

    for number in range(40):
        offered, wanted = sorted(found[f"r{number}"], key=lambda output: output[0])
        assert wanted == ("wanted", {"item": "pen", "count": number})
        assert offered == ("offers", f"{number} x pen for {number * 1.2:.2f}")


@pytest.mark.timeout(240)
def test_what_the_readme_has_people_type_ends_as_it_says(
    kafka_bootstrap: str, kafka_prefix: str, faust: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{faust.parent}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    make_changelogs(kafka_bootstrap, kafka_prefix, {})

    type_page(
        (ROOT / "examples" / "with_faust" / "README.md").read_text(),
        tmp_path,
        environment={"AFL_PREFIX": kafka_prefix},
        in_place_of={"localhost:9092": kafka_bootstrap},
        timeout_s=200,
    )


@pytest.mark.timeout(240)
def test_the_partitioner_of_faust_is_that_of_the_published_vectors(faust: Path) -> None:
    script = (
        "import json, sys; from aiokafka.partitioner import DefaultPartitioner, murmur2\n"
        "partition = DefaultPartitioner()\n"
        "for vector in json.load(open(sys.argv[1]))['vectors']:\n"
        "    key = vector['key'].encode()\n"
        "    assert murmur2(key) % 2**32 == vector['murmur2'] % 2**32, vector\n"
        "    for count in (6, 12):\n"
        "        assert partition(key, list(range(count)), []) == vector[f'partition_of_{count}'], vector\n"
        "print('agreed')"
    )

    said = subprocess.run([faust, "-c", script, VECTORS], capture_output=True, text=True, check=False)

    assert (said.stdout.strip(), said.stderr) == ("agreed", "")
