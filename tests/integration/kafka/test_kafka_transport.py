"""The Kafka transport keeps the transport's contract on a real broker, in both group protocols."""

from collections.abc import Iterator

import pytest

from afl_stream.kafka.transport import KafkaTransport
from afl_stream.settings.config import KafkaSettings, StreamConfig
from afl_stream.transport import Transport
from tests.contract.transport_contract import TransportContract


def transport_of(bootstrap: str, protocol: str) -> KafkaTransport:
    quick = {"topic.metadata.refresh.interval.ms": "1000"}
    if protocol == "classic":
        quick |= {"session.timeout.ms": "6000", "heartbeat.interval.ms": "300"}
    return KafkaTransport(
        StreamConfig(kafka=KafkaSettings(bootstrap=bootstrap, group_protocol=protocol, consumer=quick))
    )


class TestKafkaTransportInTheClassicProtocol(TransportContract):
    @pytest.fixture
    def transport(self, kafka_bootstrap: str) -> Iterator[Transport]:
        transport = transport_of(kafka_bootstrap, "classic")
        yield transport
        transport.close()


@pytest.mark.long
class TestKafkaTransportInTheConsumerProtocol(TransportContract):
    @pytest.fixture
    def transport(self, kafka_bootstrap: str) -> Iterator[Transport]:
        transport = transport_of(kafka_bootstrap, "consumer")
        yield transport
        transport.close()
