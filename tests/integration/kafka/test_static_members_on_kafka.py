"""Members with static names: a process that restarts within its session keeps its partitions, in both protocols."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from afl_stream.kafka.groups import NEVER_S
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.settings.config import KafkaSettings, StreamConfig
from afl_stream.transport import Assignor
from tests.contract.transport_contract import make_topic, unique, write
from tests.eventually import eventually
from tests.integration.kafka.test_kafka_adapter_edges import Member

PARTITIONS = 6
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


class Host:
    """One process of a group, as far as the broker can tell: a transport with a static name, and its members."""

    def __init__(self, bootstrap: str, name: str, protocol: str) -> None:
        self.transport = KafkaTransport(
            StreamConfig(kafka=KafkaSettings(bootstrap=bootstrap, instance_id=name, group_protocol=protocol))
        )

    def join(self, topic: str, group: str) -> Member:
        return Member(self.transport, topic, Assignor.COOPERATIVE_STICKY, group)


@pytest.fixture
def hosts(kafka_bootstrap: str) -> Iterator[list[Host]]:
    made: list[Host] = []
    yield made
    for host in made:
        host.transport.close()


def start(hosts: list[Host], bootstrap: str, name: str, protocol: str) -> Host:
    hosts.append(Host(bootstrap, name, protocol))
    return hosts[-1]


def instance_ids(bootstrap: str, group: str) -> set[str | None]:
    """Return the static names of a group's members, as the broker has them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_consumer_groups([group], request_timeout=NEVER_S)[group].result(timeout=30)
    return {member.group_instance_id for member in described.members}


def share_of(member: Member) -> set[int]:
    return {partition.partition for partition in member.consumer.assignment()}


@PROTOCOLS
def test_a_member_that_restarts_within_its_session_gets_its_partitions_back_and_no_other_member_notices(
    kafka_bootstrap: str, hosts: list[Host], protocol: str
) -> None:
    one, other = (start(hosts, kafka_bootstrap, name, protocol) for name in ("host-1", "host-2"))
    topic, group = make_topic(one.transport, partitions=PARTITIONS), unique("group")
    restarted, stays = one.join(topic, group), other.join(topic, group)
    eventually(lambda: (restarted.read(), stays.read(), len(share_of(stays)) == len(share_of(restarted)) == 3)[2])
    before, noticed = share_of(restarted), list(stays.events)

    restarted.consumer.close()
    for number in range(PARTITIONS):
        write(one.transport, topic, b"while it was away", partition=number)
    stays.read_until(lambda: set(stays.offsets) == share_of(stays))
    back = start(hosts, kafka_bootstrap, "host-1", protocol).join(topic, group)
    eventually(lambda: (back.read(), stays.read(), set(back.offsets) == before)[2])

    assert share_of(back) == before
    assert stays.events == noticed, "a partition was moved"
    assert set(stays.offsets) == set(range(PARTITIONS)) - before


@PROTOCOLS
def test_the_members_that_one_process_has_in_a_group_have_a_name_each(
    kafka_bootstrap: str, hosts: list[Host], protocol: str
) -> None:
    host = start(hosts, kafka_bootstrap, "host-1", protocol)
    topic, group = make_topic(host.transport, partitions=PARTITIONS), unique("group")

    members = [host.join(topic, group) for _ in range(3)]
    eventually(lambda: ([member.read() for member in members], [len(share_of(m)) for m in members] == [2, 2, 2])[1])

    assert instance_ids(kafka_bootstrap, group) == {"host-1", "host-1-2", "host-1-3"}
    assert not any(member.raised for member in members)


@PROTOCOLS
def test_a_process_without_a_static_name_leaves_and_its_partitions_go_to_others_at_once(
    kafka_bootstrap: str, hosts: list[Host], protocol: str
) -> None:
    transports = [
        KafkaTransport(StreamConfig(kafka=KafkaSettings(bootstrap=kafka_bootstrap, group_protocol=protocol)))
        for _ in range(2)
    ]
    topic, group = make_topic(transports[0], partitions=PARTITIONS), unique("group")
    leaves, stays = (Member(transport, topic, Assignor.COOPERATIVE_STICKY, group) for transport in transports)
    eventually(lambda: (leaves.read(), stays.read(), len(share_of(stays)) == len(share_of(leaves)) == 3)[2])

    leaves.consumer.close()
    stays.read_until(lambda: len(share_of(stays)) == PARTITIONS)

    assert instance_ids(kafka_bootstrap, group) == {None} or instance_ids(kafka_bootstrap, group) == {""}
    for transport in transports:
        transport.close()
