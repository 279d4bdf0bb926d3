"""Subscriptions and publishers keep their contract on the embedded transport, in memory and on a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.transport import Transport
from tests.contract.subscription_contract import SubscriptionContract


class TestSubscriptionsInMemory(SubscriptionContract):
    @pytest.fixture
    def transport(self) -> Iterator[Transport]:
        transport = EmbeddedTransport()
        yield transport
        transport.close()


class TestSubscriptionsOnAFile(SubscriptionContract):
    @pytest.fixture
    def transport(self, tmp_path: Path) -> Iterator[Transport]:
        transport = EmbeddedTransport(tmp_path / "log.sqlite")
        yield transport
        transport.close()
