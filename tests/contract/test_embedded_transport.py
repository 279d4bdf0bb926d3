"""The embedded transport keeps the transport's contract, in memory and on a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.transport import TopicPartition, Transport
from tests.contract.transport_contract import TransportContract, make_topic, write


class TestEmbeddedTransportInMemory(TransportContract):
    @pytest.fixture
    def transport(self) -> Iterator[Transport]:
        transport = EmbeddedTransport()
        yield transport
        transport.close()


class TestEmbeddedTransportOnAFile(TransportContract):
    @pytest.fixture
    def transport(self, tmp_path: Path) -> Iterator[Transport]:
        transport = EmbeddedTransport(tmp_path / "log.sqlite")
        yield transport
        transport.close()


def test_a_partition_with_many_records_keeps_none_of_another_waiting() -> None:
    transport = EmbeddedTransport()
    long, short = make_topic(transport), make_topic(transport)
    write(transport, long, *[b"v"] * 30)
    write(transport, short, b"0", b"1")
    consumer = transport.consumer(None)
    consumer.assign({TopicPartition(long, 0): 0, TopicPartition(short, 0): 0})

    first = consumer.consume(10, 0)
    second = consumer.consume(10, 0)

    assert [record.offset for record in first if record.topic == short] == [0, 1]
    assert [record.offset for record in (*first, *second) if record.topic == long] == list(range(18))
    transport.close()
