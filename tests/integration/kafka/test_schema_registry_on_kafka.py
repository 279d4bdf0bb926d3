"""A deployment whose schemas are in a registry: all parties on Kafka, and the registry killed while they read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from afl.engine.model.store import COMPLETED
from tests.eventually import eventually
from tests.integration.kafka.test_cli_on_kafka import KafkaCommandLine
from tests.integration.registry.faulty_proxy import Fault, FaultyProxy
from tests.integration.registry.world import RegistryParties
from tests.scenarios.test_cli_pubsub import REVIEW
from tests.worlds.deployment import Deployment
from tests.worlds.processes import DEADLINE_S, Processes
from tests.worlds.shop import SHOP, assert_one_answer_each, start_orders
from tests.worlds.world import Deployments
from tools.registry import RegistryServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

ORDERS = 3


def settings_of(registry: RegistryServer, auto_register: str = "on") -> dict[str, str]:
    return {
        "AFL_REGISTRY_URL": registry.url,
        "AFL_REGISTRY_AUTO_REGISTER": auto_register,
        "AFL_REGISTRY_TIMEOUT_S": "20",
    }


def dead_letters_of(deployment: Deployment) -> list[object]:
    topology = deployment.topology
    topics = [topology.control(), topology.commands(), topology.facet("shop.Price"), topology.facet("shop.Ship")]
    return [record for topic in topics for record in deployment.records(topology.dlq(topic))]


def test_client_evaluator_agent_and_audit_work_with_registered_schemas(
    deployments: Deployments, own_registry: RegistryServer, tmp_path: Path
) -> None:
    deployment = deployments(SHOP, settings=settings_of(own_registry))
    audit_file = tmp_path / "audit.jsonl"
    deployment.processes.evaluator()
    deployment.processes.agent()
    deployment.processes.audit(audit_file)
    orders = start_orders(deployment, ORDERS)

    deployment.processes.finish(orders)

    for order in orders:
        assert deployment.workflow(order).status == COMPLETED
        assert_one_answer_each(deployment, order)
    events = deployment.records(deployment.topology.facet("shop.Price"))
    answers = deployment.records(deployment.topology.control())
    assert {bytes(record.value or b"")[:1] for record in (*events, *answers)} == {b"\0"}
    assert deployment.records(deployment.topology.schemas()) == [], "no schema is on the topic"
    eventually(lambda: '"shop.Ship"' in audit_file.read_text(), DEADLINE_S)
    assert not any(json.loads(line).get("error") for line in audit_file.read_text().splitlines())
    with RegistryParties() as parties:
        subjects = parties.client(own_registry.url).get_subjects()
    assert f"{deployment.topology.facet('shop.Price')}-value" in subjects
    assert f"{deployment.topology.control()}-afl.v1.StepContinue" in subjects


def test_consumers_wait_in_their_groups_for_a_registry_that_was_killed_and_skip_nothing(
    deployments: Deployments, own_registry: RegistryServer
) -> None:
    deployment = deployments(SHOP, settings=settings_of(own_registry))
    orders = start_orders(deployment, ORDERS)
    evaluator = deployment.processes.evaluator().when_ready()
    # It has read events, and answered none: no one has read the schema of an answer yet.
    agent = deployment.processes.agent(at="agent.handled", act="freeze")
    agent.when_frozen()
    own_registry.kill()
    agent.go_on()

    evaluator.when_it_says(f"in the registry {own_registry.url}")
    members = deployment.kafka.members(deployment.config.evaluator_group)
    own_registry.start_again()
    deployment.processes.finish(orders)

    assert [deployment.workflow(order).status for order in orders] == [COMPLETED] * ORDERS
    for order in orders:
        assert_one_answer_each(deployment, order)
    assert dead_letters_of(deployment) == []
    assert members == 1, "the evaluator had its partitions while it waited"
    assert evaluator.lines.count("ready") == 1


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.UNAVAILABLE, Fault.SILENT])
def test_an_agent_waits_in_its_group_for_a_registry_that_answers_wrongly(
    fault: Fault, deployments: Deployments, own_registry: RegistryServer
) -> None:
    deployment = deployments(SHOP, settings=settings_of(own_registry))
    deployment.processes.evaluator()
    with FaultyProxy(own_registry.port, faulty=b"GET /apis/ccompat/v7/schemas/ids/") as proxy:
        proxy.fault = fault
        through = {"AFL_REGISTRY_URL": proxy.url("/apis/ccompat/v7"), "AFL_REGISTRY_TIMEOUT_S": "4"}
        agent = deployment.processes.agent(environment=through)
        deployment.processes.await_members(deployment.agent_group, 1)
        orders = start_orders(deployment, ORDERS)
        eventually(lambda: agent.check_alive() and proxy.met >= 3, DEADLINE_S, interval_s=0.1)
        assert dead_letters_of(deployment) == []
        assert deployment.kafka.members(deployment.agent_group) == 1

        proxy.fault = Fault.NONE
        deployment.processes.finish(orders)

    assert [deployment.workflow(order).status for order in orders] == [COMPLETED] * ORDERS
    for order in orders:
        assert_one_answer_each(deployment, order)
    assert dead_letters_of(deployment) == []


def test_an_id_that_the_registry_lacks_is_a_dead_letter_and_the_next_record_is_read(
    deployments: Deployments, own_registry: RegistryServer
) -> None:
    deployment = deployments(SHOP, settings=settings_of(own_registry))
    control = deployment.topology.control()
    deployment.kafka.queue(control, b"\0\0\x98\x96\x80\x02a", b"order-0", (), None)
    deployment.kafka.flush()
    deployment.processes.evaluator()
    deployment.processes.agent()
    orders = start_orders(deployment, 1)

    deployment.processes.finish(orders)

    (letter,) = deployment.records(deployment.topology.dlq(control))
    said = b" ".join(content or b"" for _, content in letter.headers)
    assert b"no schema with id 10000000 is in the registry" in said


def test_a_run_whose_schema_is_not_registered_is_refused_until_it_is(
    deployments: Deployments, own_registry: RegistryServer, tmp_path: Path
) -> None:
    deployment = deployments(SHOP, settings=settings_of(own_registry))
    file = tmp_path / "shop.afl"
    file.write_text(SHOP)
    commands = deployment.topology.commands()
    _typed(deployment, "schemas", "register")
    deployment.processes.command("evaluator", AFL_REGISTRY_AUTO_REGISTER="off")
    start_orders(deployment, 1, "early")
    eventually(lambda: deployment.records(deployment.topology.dlq(commands)), DEADLINE_S, interval_s=0.1)

    _typed(deployment, "schemas", "register", str(file))
    deployment.processes.agent()
    (order,) = start_orders(deployment, 1)
    deployment.processes.finish([order])

    (letter,) = deployment.records(deployment.topology.dlq(commands))
    said = b" ".join(content or b"" for _, content in letter.headers)
    assert b"shop.Order is not started" in said
    assert deployment.topology.facet("shop.Price").encode() in said or b"shop.Ship" in said
    assert b"afl-stream schemas register" in said
    assert deployment.workflow(order).status == COMPLETED


def _typed(deployment: Deployment, *words: str) -> None:
    command = [sys.executable, "-m", "afl_stream", *words]
    subprocess.run(command, env={**os.environ, **deployment.processes.environment}, check=True, timeout=DEADLINE_S)


def test_event_driven_workflows_work_with_registered_schemas(
    own_registry: RegistryServer, kafka_bootstrap: str, kafka_prefix: str, processes: Processes, tmp_path: Path
) -> None:
    environment = {
        "AFL_KAFKA_BOOTSTRAP": kafka_bootstrap,
        "AFL_PREFIX": kafka_prefix,
        "AFL_TOPICS_REPLICATION": "1",
        "AFL_TOPICS_CONTROL_PARTITIONS": "2",
        **settings_of(own_registry, auto_register="auto"),
    }
    commands = KafkaCommandLine(folder=tmp_path, processes=processes, environment=environment)
    (tmp_path / "reviewing.py").write_text(REVIEW)
    workflow = "reviewing:review"
    assert commands("pubsub", "topics", workflow, "--apply").code == 0
    refused = commands("pubsub", "invoke", workflow, '{"order": 3}', "--remote", "--timeout", "60")
    registered = commands("schemas", "register", "--pubsub", workflow)
    commands.service("worker", "pubsub", "run", workflow)

    answered = commands("pubsub", "invoke", workflow, '{"order": 3}', "--remote", "--timeout", "100")

    assert refused.code == 3
    assert "afl-stream schemas register" in refused.err
    assert registered.code == 0, registered.err
    assert (answered.code, answered.out) == (0, 'decisions: {"approved": true, "by": "rule"}\n'), answered.err
