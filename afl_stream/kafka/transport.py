"""The Kafka transport: the port over confluent-kafka."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from itertools import chain, count
from typing import TypeVar

from afl_stream.errors import ConfigError
from afl_stream.kafka.admin import KafkaAdmin
from afl_stream.kafka.consumer import KafkaConsumer
from afl_stream.kafka.errors import Connection
from afl_stream.kafka.fixed_consumer import FixedConsumer
from afl_stream.kafka.producer import KafkaProducer
from afl_stream.kafka.settings import (
    admin_settings,
    consumer_settings,
    offset_settings,
    producer_settings,
    without_secrets,
)
from afl_stream.settings.config import StreamConfig
from afl_stream.transport import Assignor, Start, TransportError, WrongCluster

__all__ = ["KafkaTransport"]

C = TypeVar("C", bound=KafkaConsumer)

_log = logging.getLogger(__name__)


class KafkaTransport:
    """One Kafka cluster, seen by one process; see the Transport port."""

    def __init__(self, config: StreamConfig) -> None:
        """Wait until a broker answers.

        Raises BrokerUnavailable after `kafka.connect_timeout_s`, AuthenticationFailed, BrokerTooOld, WrongCluster when
        the cluster is not the one that `kafka.cluster_id` names, and ConfigError without a broker's address, and for
        what librdkafka does not take.
        """
        if config.kafka.bootstrap is None:
            raise ConfigError("settings", "kafka.bootstrap", None, "HOST:PORT of a broker (AFL_KAFKA_BOOTSTRAP)")
        self._config = config
        self._address = config.kafka.bootstrap
        #: In the order of their making; those that are not closed yet.
        self._clients: dict[KafkaProducer | KafkaConsumer, None] = {}
        #: The groups and static names of the open consumers that have one.
        self._instance_ids: dict[KafkaProducer | KafkaConsumer, tuple[str, str]] = {}
        self._admin = KafkaAdmin(admin_settings(config), offset_settings(config), self._connection())
        try:
            found = self._admin.connect(config.kafka.connect_timeout_s)
            expected = config.kafka.cluster_id
            if expected is not None and found != expected:
                raise WrongCluster(expected, found, f"the setting kafka.cluster_id (at {self._address})")
        except BaseException:
            self._admin.close()
            raise

    def _connection(self) -> Connection:
        return Connection(self._address, partial(without_secrets, config=self._config))

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
        instance_id = None if group is None else self._free_instance_id(group)
        settings = consumer_settings(
            self._config, group=group, client_id=client_id, assignor=assignor, instance_id=instance_id
        )
        consumer = self._made(partial(KafkaConsumer, settings, group=group, incremental=incremental, start=start))
        if group is not None and instance_id is not None:
            self._instance_ids[consumer] = (group, instance_id)
        return consumer

    def fixed_consumer(self, group: str, numbers: frozenset[int]) -> FixedConsumer:
        """Return a new consumer that has the partitions of these numbers without being a member of the group."""
        settings = consumer_settings(self._config, group=group)
        return self._made(
            partial(FixedConsumer, settings, group=group, incremental=True, start=Start.EARLIEST, numbers=numbers)
        )

    def _made(self, make: Callable[..., C]) -> C:
        consumer = make(
            connection=self._connection(),
            bounds_of=self._admin.watermarks,
            offsets_since=self._admin.offsets_since,
            ask_ids=self._admin.ask_ids,
            ask_bounds=self._admin.ask_bounds,
            on_close=self._forget,
        )
        self._clients[consumer] = None
        return consumer

    def _free_instance_id(self, group: str) -> str | None:
        """Return a name for a member of the group that no open member of this process has; None without static names.

        The first is the process's own name, so that its only member has the same name after a restart.
        """
        first = self._config.kafka.instance_id
        if first is None:
            return None
        names = chain([first], (f"{first}-{number}" for number in count(2)))
        return next(name for name in names if (group, name) not in self._instance_ids.values())

    def _forget(self, client: KafkaProducer | KafkaConsumer) -> None:
        self._clients.pop(client, None)
        self._instance_ids.pop(client, None)

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
        self._admin.close()
