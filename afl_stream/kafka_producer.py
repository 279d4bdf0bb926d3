"""Writing to Kafka: idempotent, acknowledged by all replicas in sync."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as Client

from afl_stream.kafka_errors import ClientLog, Connection, error_of, settings_error, transport_error
from afl_stream.transport import (
    BrokerUnavailable,
    DeliveryCallback,
    Headers,
    QueueFull,
    RecordTooLarge,
    TopicPartition,
    TransportError,
    UnknownTopic,
)

_log = logging.getLogger(__name__)

#: How long closing waits for what is queued; what is not acknowledged then fails, and is somebody's to send again.
CLOSE_TIMEOUT_S: Final = 10.0
#: Bytes that a record of a batch may take beside its key, value and headers.
_RECORD_BYTES: Final = 100

#: The topic's largest record in bytes. Raises UnknownTopic and BrokerUnavailable.
Limits = Callable[[str], int]

_Report = Callable[["KafkaError | None", "Message[Any, Any]"], None]


class KafkaProducer:
    """Writes records; see the Producer port."""

    def __init__(
        self, settings: Mapping[str, Any], connection: Connection, limit_of: Limits, forget: Callable[[str], None]
    ) -> None:
        """`limit_of` gives a topic's limit, `forget` drops what is known of a topic that turned out to be gone."""
        self._settings = settings
        self._connection = connection
        self._limit_of = limit_of
        self._forget = forget
        self._limits: dict[str, int] = {}
        self._places: dict[tuple[str, int], TopicPartition] = {}
        self._client = self._open()

    def _open(self) -> Client:
        try:
            return Client({**self._settings, "error_cb": self._connection.on_error}, logger=ClientLog())
        except KafkaException as error:
            raise settings_error(error) from error

    def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> None:
        limit = self._limits.get(topic)
        if limit is None:
            limit = self._look_up(topic)
        size = (len(value) if value else 0) + (len(key) if key else 0)
        # Headers are short, and counting them costs as much as all the rest here.
        if size > limit // 2 and size + _size_of(headers) > limit:
            raise RecordTooLarge(topic, size + _size_of(headers), limit)
        report = None if on_delivery is None else self._report(topic, on_delivery)
        listed = list(headers) if headers else None
        try:
            self._hand_over(topic, value, key, listed, partition, report)
        except KafkaException as error:
            found = error_of(error)
            if found.code() != KafkaError._FATAL and not found.fatal():
                raise self._error(found, topic) from error
            self._replace(found)
            self._hand_over(topic, value, key, listed, partition, report)

    def _hand_over(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: list[tuple[str, bytes]] | None,
        partition: int | None,
        report: _Report | None,
    ) -> None:
        number = -1 if partition is None else partition
        try:
            if report is None:
                self._client.produce(topic, value, key, partition=number, headers=headers)  # type: ignore[arg-type]
            else:
                self._client.produce(topic, value, key, number, report, headers=headers)  # type: ignore[arg-type]
        except BufferError as error:
            raise QueueFull(f"{topic}: the queue of this producer is full") from error

    def _report(self, topic: str, on_delivery: DeliveryCallback) -> _Report:
        def report(error: KafkaError | None, message: Message[Any, Any]) -> None:
            number = message.partition()
            place = self._places.get((topic, number))  # type: ignore[arg-type]
            if place is None:
                place = TopicPartition(topic, -1 if number is None else number)
                self._places[place] = place
            if error is None:
                on_delivery(None, place, message.offset())  # type: ignore[arg-type]
            else:
                on_delivery(self._error(error, topic), place, -1)

        return report

    def _error(self, error: KafkaError, topic: str) -> Exception:
        if error.code() in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE):
            return RecordTooLarge(topic, -1, self._limits.get(topic, -1))
        found = transport_error(error, self._connection.address, topic)
        if isinstance(found, UnknownTopic):
            self._limits.pop(topic, None)
            self._forget(topic)
        return found

    def _look_up(self, topic: str) -> int:
        try:
            limit = self._limits[topic] = self._limit_of(topic)
        except BrokerUnavailable:
            # The record is queued all the same, and the broker judges it.
            return 1 << 40
        return limit

    def _replace(self, error: KafkaError) -> None:
        """An idempotent producer that lost its order never writes again. What it held fails, and is sent again."""
        _log.warning("the producer is replaced after a fatal error: %s", error.str())
        self._client.purge()
        self._client.flush(CLOSE_TIMEOUT_S)
        self._client = self._open()

    def poll(self, timeout_s: float = 0.0) -> int:
        """Raises AuthenticationFailed and BrokerTooOld."""
        served = self._client.poll(timeout_s)
        self._connection.check()
        return served

    def flush(self, timeout_s: float) -> int:
        """Raises AuthenticationFailed and BrokerTooOld."""
        left = self._client.flush(timeout_s)
        self._connection.check()
        return left

    def close(self) -> None:
        try:
            left = self._client.flush(CLOSE_TIMEOUT_S)
            if left:
                _log.warning("%d records were not acknowledged by %s", left, self._connection.address)
                self._client.purge()
                self._client.flush(1.0)
        except (KafkaException, TransportError) as error:
            _log.warning("the producer did not close well: %s", error)


def _size_of(headers: Headers) -> int:
    return _RECORD_BYTES + sum(len(name) + len(value) + 10 for name, value in headers)
