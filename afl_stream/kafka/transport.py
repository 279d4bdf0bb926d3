"""The Kafka transport: the port over confluent-kafka."""

from __future__ import annotations

import functools
import logging

from afl_stream.kafka.admin import KafkaAdmin
from afl_stream.kafka.consumer import KafkaConsumer
from afl_stream.kafka.errors import Connection
from afl_stream.kafka.producer import KafkaProducer
from afl_stream.kafka.settings import admin_settings, consumer_settings, producer_settings, without_secrets
from afl_stream.settings.config import StreamConfig
from afl_stream.transport import Assignor, Start, TransportError, WrongCluster

__all__ = ["KafkaTransport"]

_log = logging.getLogger(__name__)


class KafkaTransport:
    """One Kafka cluster, seen by one process; see the Transport port."""

    def __init__(self, config: StreamConfig) -> None:
        """Wait until a broker answers.

        Raises BrokerUnavailable after `kafka.connect_timeout_s`, AuthenticationFailed, BrokerTooOld, WrongCluster when
        the cluster is not the one that `kafka.cluster_id` names, and ConfigError for what librdkafka does not take.
        """
        assert config.kafka.bootstrap is not None
        self._config = config
        self._address = config.kafka.bootstrap
        #: In the order of their making; those that are not closed yet.
        self._clients: dict[KafkaProducer | KafkaConsumer, None] = {}
        self._admin = KafkaAdmin(admin_settings(config), self._connection())
        found = self._admin.connect(config.kafka.connect_timeout_s)
        expected = config.kafka.cluster_id
        if expected is not None and found != expected:
            raise WrongCluster(expected, found, f"the setting kafka.cluster_id (at {self._address})")

    def _connection(self) -> Connection:
        return Connection(self._address, functools.partial(without_secrets, config=self._config))

    def producer(self) -> KafkaProducer:
        producer = KafkaProducer(
            producer_settings(self._config),
            self._connection(),
            self._admin.limit_of,
            self._admin.forget,
            on_close=self._forget,
        )
        self._clients[producer] = None
        return producer

    def consumer(
        self,
        group: str | None,
        *,
        client_id: str = "",
        assignor: Assignor = Assignor.COOPERATIVE_STICKY,
        start: Start = Start.EARLIEST,
    ) -> KafkaConsumer:
        incremental = assignor is Assignor.COOPERATIVE_STICKY or self._config.kafka.group_protocol == "consumer"
        consumer = KafkaConsumer(
            consumer_settings(self._config, group=group, client_id=client_id, assignor=assignor),
            self._connection(),
            self._admin.watermarks,
            self._admin.ask_ids,
            self._admin.ask_bounds,
            group=group,
            incremental=incremental,
            start=start,
            on_close=self._forget,
        )
        self._clients[consumer] = None
        return consumer

    def _forget(self, client: KafkaProducer | KafkaConsumer) -> None:
        self._clients.pop(client, None)

    def admin(self) -> KafkaAdmin:
        return self._admin

    def close(self) -> None:
        """Close what is still open, the last one first."""
        for client in reversed(list(self._clients)):
            try:
                client.close()
            except TransportError as error:
                _log.warning("closing a client failed: %s", error)
        self._clients.clear()
