"""A facet's topic is deleted and made again at once, on a real broker: no record of the new one is skipped."""

import signal

import pytest

from afl_stream.transport import TopicPartition
from tests.eventually import eventually
from tests.integration.kafka.test_events_beside_a_killer_on_kafka import PRICE, first_answers
from tests.unit.stream.agent.agent_bench import event
from tests.worlds.deployment import Deployment
from tests.worlds.processes import DEADLINE_S, Party
from tests.worlds.shop import SHOP
from tests.worlds.world import Deployments

EARLIER, LATER = range(1, 5), range(11, 17)


def publish(deployment: Deployment, numbers: range) -> None:
    for number in numbers:
        asked = event(PRICE, number, payload={"item": f"item {number}"})
        value = deployment.codec.encode(asked, deployment.topology.facet(PRICE))
        deployment.queue(deployment.topology.facet(PRICE), value, key=asked.step_id.encode())
    deployment.flush()


def recreate(deployment: Deployment) -> None:
    topic, admin = deployment.topology.facet(PRICE), deployment.transport.admin()
    admin.delete_topic(topic)
    admin.create_topic(topic, partitions=1)


def answered(deployment: Deployment, numbers: range) -> bool:
    return first_answers(deployment).keys() >= {f"wf-{n}:{n:x}" for n in numbers}


def with_all_committed(deployment: Deployment) -> Party:
    """Return an agent that has answered the earlier events, and committed that."""
    topic = deployment.topology.facet(PRICE)
    publish(deployment, EARLIER)
    agent = deployment.processes.agent()

    def is_committed() -> bool:
        agent.check_alive()
        at = deployment.committed(deployment.agent_group, [topic]).get(TopicPartition(topic, 0))
        return at is not None and at.offset == len(EARLIER)

    eventually(is_committed, DEADLINE_S, interval_s=0.05)
    return agent


@pytest.mark.long
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("agent_is", ["running", "stopping", "away"])
def test_no_record_is_skipped_of_a_topic_that_was_recreated_while_its_agent(
    deployments: Deployments, agent_is: str, protocol: str
) -> None:
    deployment = deployments(SHOP, protocol=protocol, settings={"AFL_TOPICS_EVENT_PARTITIONS": "1"})
    agent = with_all_committed(deployment)

    if agent_is == "away":
        agent.stop()
        recreate(deployment)
    elif agent_is == "stopping":
        recreate(deployment)
        agent.send(signal.SIGTERM)
        agent.exit_code()
    else:
        recreate(deployment)
    publish(deployment, LATER)
    if agent_is == "running":
        # It goes on, unless it saw the topic while it was gone: that ends an agent, and another one takes its place.
        eventually(
            lambda: agent.has_ended_saying("UnknownTopic") or answered(deployment, LATER), DEADLINE_S, interval_s=0.1
        )
    if not answered(deployment, LATER):
        deployment.processes.agent()

    eventually(lambda: answered(deployment, LATER), DEADLINE_S, interval_s=0.1)
