"""An evaluator starts only on topics that are as they must be; else it says what is wrong and what mends it."""

import pytest

from afl_stream.errors import PartitionsDiffer, StreamError, TooFewPartitions, TopicMissing, TopicTooSmall
from tests.worlds.deployment import Deployment
from tests.worlds.desk import DESK
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED

#: test_vanished_topics_on_kafka.py deletes topics of Kafka.
WORLDS = EMBEDDED


def remake(deployment: Deployment, topic: str, *, partitions: int, **settings: str) -> None:
    admin = deployment.transport.admin()
    declared = admin.topics()[topic].settings
    admin.delete_topic(topic)
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    admin.create_topic(topic, partitions=partitions, settings={**declared, **dotted})


@pytest.mark.parametrize(
    ("topic", "partitions", "refusal"),
    [
        ("afl.control", 4, PartitionsDiffer),
        ("afl.commands", 1, PartitionsDiffer),
        ("afl.external", 3, PartitionsDiffer),
        ("afl.lifecycle", 1, TooFewPartitions),
    ],
)
def test_other_numbers_of_partitions_are_refused_before_anything_is_read(
    world: World, topic: str, partitions: int, refusal: type[StreamError]
) -> None:
    deployment = world.deployment(DESK, control_partitions=2)
    remake(deployment, topic, partitions=partitions)

    with pytest.raises(refusal, match=rf"{topic}.*kafka-topics\.sh"):
        deployment.evaluator()
    assert deployment.store.positions() == {}


def test_topics_that_are_missing_or_take_too_little_are_refused(world: World) -> None:
    deployment = world.deployment(DESK)
    remake(deployment, "afl.lifecycle", partitions=2, max_message_bytes="1000")
    with pytest.raises(TopicTooSmall, match=r"afl\.lifecycle"):
        deployment.evaluator()

    deployment.transport.admin().delete_topic("afl.lifecycle")
    with pytest.raises(TopicMissing, match="topics apply"):
        deployment.evaluator()
