"""Members that are closed while the group's answer waits in their client: librdkafka may wait for ever for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from afl_stream.kafka.groups import NEVER_S
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.settings.config import KafkaSettings, StreamConfig
from afl_stream.transport import Assignor, CommittedOffset, TopicPartition
from tests.contract.transport_contract import make_topic, unique, write
from tests.eventually import eventually
from tests.integration.kafka.test_kafka_adapter_edges import Member

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])
ASSIGNORS = pytest.mark.parametrize("assignor", [Assignor.RANGE, Assignor.COOPERATIVE_STICKY])
NAMES = pytest.mark.parametrize("name", ["", "host-1"], ids=["dynamic", "static"])

Open = Callable[[str, str], KafkaTransport]


@pytest.fixture
def opened(kafka_bootstrap: str) -> Iterator[Open]:
    transports: list[KafkaTransport] = []

    def open_one(protocol: str, name: str) -> KafkaTransport:
        kafka = KafkaSettings(bootstrap=kafka_bootstrap, instance_id=name or None, group_protocol=protocol)
        transports.append(KafkaTransport(StreamConfig(kafka=kafka)))
        return transports[-1]

    yield open_one
    for transport in transports:
        transport.close()


class Committing(Member):
    """A member that commits what it has read when it gives partitions back."""

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        super().on_revoked(partitions)
        self.consumer.commit({each: CommittedOffset(offset=self.read_to(each)) for each in partitions}, wait=True)

    def read_to(self, partition: TopicPartition) -> int:
        return self.offsets[partition.partition][-1] + 1


def assigned_by(bootstrap: str, group: str) -> int | None:
    """Return how many partitions the broker has assigned in a group, whether its members know it or not.

    None where it does not tell: the coordinator of the group's first member may not be found at once.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        described = admin.describe_consumer_groups([group], request_timeout=NEVER_S)[group].result(timeout=30)
    except KafkaException:
        return None
    return sum(len(member.assignment.topic_partitions) for member in described.members)


@PROTOCOLS
@ASSIGNORS
@NAMES
def test_a_member_that_closes_takes_no_partitions_that_it_has_not_heard_of(
    kafka_bootstrap: str, opened: Open, protocol: str, assignor: Assignor, name: str
) -> None:
    transport = opened(protocol, name)
    member = Member(transport, make_topic(transport, partitions=3), assignor, group := unique("group"))
    eventually(lambda: assigned_by(kafka_bootstrap, group) == 3)

    member.consumer.close()

    assert member.events == []
    if not name:
        eventually(lambda: assigned_by(kafka_bootstrap, group) == 0)


@PROTOCOLS
@ASSIGNORS
@NAMES
def test_a_member_that_closes_gives_back_what_it_has_and_may_commit_then(
    kafka_bootstrap: str, opened: Open, protocol: str, assignor: Assignor, name: str
) -> None:
    transport = opened(protocol, name)
    topic, group = make_topic(transport, partitions=3), unique("group")
    for partition in range(3):
        write(transport, topic, *[b"%d" % number for number in range(2_000)], partition=partition)
    member = Committing(transport, topic, assignor, group)
    member.read_until(lambda: len(member.offsets) == 3)

    # Thousands of records are in the client by now.
    member.consumer.close()

    assert [kind for kind, _ in member.events] == ["assigned", "revoked"]
    assert member.events[1][1] == [0, 1, 2]
    onlooker = opened("classic", "").consumer(group)
    read = {where: member.read_to(where) for where in map(member.where, range(3))}
    assert {where: found.offset for where, found in onlooker.committed(list(read)).items()} == read
    onlooker.close()
    # A static member keeps its partitions for the one that comes back.
    eventually(lambda: assigned_by(kafka_bootstrap, group) == (3 if name else 0))
