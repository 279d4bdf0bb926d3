"""Dead letters on a real broker."""

from collections.abc import Iterator

import pytest

from afl_stream.transport import Transport
from tests.contract.dead_letter_contract import DeadLetterContract
from tests.integration.kafka.test_kafka_transport import transport_of


class TestDeadLettersOnKafka(DeadLetterContract):
    @pytest.fixture
    def transport(self, kafka_bootstrap: str) -> Iterator[Transport]:
        transport = transport_of(kafka_bootstrap, "consumer")
        yield transport
        transport.close()
