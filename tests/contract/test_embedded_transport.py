"""The embedded transport keeps the transport's contract, in memory and on a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from afl_stream.embedded import EmbeddedTransport
from afl_stream.transport import Transport
from tests.contract.transport_contract import TransportContract


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
