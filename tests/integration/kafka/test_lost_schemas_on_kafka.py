"""A schemas topic that has lost its records on a real broker: work waits for the schemas, and no run ends by it."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from afl.engine.model.store import COMPLETED
from tests.eventually import eventually
from tests.worlds.deployment import Deployment
from tests.worlds.processes import DEADLINE_S
from tests.worlds.shop import SHOP, start_orders
from tests.worlds.world import Deployments

ORDERS = 3

pytestmark = pytest.mark.long


def retention_takes_all(deployment: Deployment, topic: str) -> None:
    """Delete the records of a topic as retention does, which counts their offsets on."""
    deployment.kafka.set_of_topic(topic, "cleanup.policy", "delete")
    # The leader may take a moment to see the change of the policy.
    eventually(lambda: _are_deleted(deployment, topic), DEADLINE_S, interval_s=0.1)


def _are_deleted(deployment: Deployment, topic: str) -> bool:
    (done,) = deployment.kafka.admin.delete_records([KafkaPartition(topic, 0, -1)]).values()
    try:
        done.result(20)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.POLICY_VIOLATION:
            return False
        raise
    return True


def has_asked(deployment: Deployment) -> bool:
    return len(deployment.records(deployment.topology.facet("shop.Price"))) == 3 * ORDERS


@pytest.mark.parametrize("loss", ["made again", "retention"])
def test_events_whose_schemas_are_gone_wait_until_the_evaluator_has_announced_them_again(
    loss: str, deployments: Deployments
) -> None:
    deployment = deployments(SHOP)
    orders = start_orders(deployment, ORDERS)
    evaluator = deployment.processes.evaluator()
    eventually(lambda: has_asked(deployment), DEADLINE_S, interval_s=0.1)
    schemas = deployment.topology.schemas()
    if loss == "retention":
        retention_takes_all(deployment, schemas)
    else:
        deployment.recreate(schemas)

    agent = deployment.processes.agent()
    agent.when_it_says("it was announced, and")
    deployment.processes.finish(orders)

    assert [deployment.workflow(order).status for order in orders] == [COMPLETED] * ORDERS
    assert deployment.records(deployment.topology.dlq(deployment.topology.facet("shop.Price"))) == []
    assert "were announced again" in evaluator.log


def test_services_tell_of_a_schemas_topic_that_deletes(deployments: Deployments) -> None:
    deployment = deployments(SHOP)
    schemas = deployment.topology.schemas()
    deployment.kafka.set_of_topic(schemas, "cleanup.policy", "delete")

    parties = [deployment.processes.evaluator(), deployment.processes.agent(), deployment.processes.command("audit")]

    for party in parties:
        party.when_it_says(f"topic {schemas} has cleanup.policy=delete, not compact")
        assert f"--entity-name {schemas} --add-config cleanup.policy=compact" in party.log
