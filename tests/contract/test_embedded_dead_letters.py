"""Dead letters on the embedded transport."""

from collections.abc import Iterator

import pytest

from afl_stream.embedded.transport import EmbeddedBroker, EmbeddedTransport
from afl_stream.transport import Transport
from tests.contract.dead_letter_contract import DeadLetterContract


class TestDeadLettersOnTheEmbeddedTransport(DeadLetterContract):
    @pytest.fixture
    def transport(self) -> Iterator[Transport]:
        transport = EmbeddedTransport(EmbeddedBroker())
        yield transport
        transport.close()
