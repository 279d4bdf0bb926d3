"""Subscriptions and publishers keep their contract on a real broker, in both group protocols."""

from collections.abc import Iterator

import pytest

from afl_stream.transport import Transport
from tests.contract.subscription_contract import SubscriptionContract
from tests.integration.kafka.test_kafka_transport import transport_of


class TestSubscriptionsInTheClassicProtocol(SubscriptionContract):
    @pytest.fixture
    def transport(self, kafka_bootstrap: str) -> Iterator[Transport]:
        transport = transport_of(kafka_bootstrap, "classic")
        yield transport
        transport.close()


@pytest.mark.long
class TestSubscriptionsInTheConsumerProtocol(SubscriptionContract):
    @pytest.fixture
    def transport(self, kafka_bootstrap: str) -> Iterator[Transport]:
        transport = transport_of(kafka_bootstrap, "consumer")
        yield transport
        transport.close()
