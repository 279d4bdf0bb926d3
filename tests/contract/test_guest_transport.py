"""A guest of the embedded log keeps the transport's contract, through the socket of the log's holder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from afl_stream.embedded.transport import EmbeddedBroker
from afl_stream.holder.guest import GuestTransport
from afl_stream.holder.serving import HolderSocket
from afl_stream.transport import Transport
from tests.contract.transport_contract import TransportContract


class TestGuestTransport(TransportContract):
    @pytest.fixture
    def transport(self, tmp_path: Path) -> Iterator[Transport]:
        path = tmp_path / "log.sqlite3"
        broker = EmbeddedBroker(path)
        holder = HolderSocket(broker, path)
        transport = GuestTransport(path)
        yield transport
        transport.close()
        holder.close()
        broker.close()
