"""The Kafka producer: idempotent, acknowledged by all replicas in sync."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, cast

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as Client

from afl.core.clock import MonotonicClock, monotonic_s
from afl_stream.acls import Operation
from afl_stream.kafka.errors import ClientLog, Connection, error_of, settings_error, transport_error
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

#: How long closing waits for queued records; what is not acknowledged then fails, and its owner sends it again.
CLOSE_TIMEOUT_S: Final = 10.0
#: Bytes that a record of a batch may take on top of its key, value and headers.
_RECORD_BYTES: Final = 100

#: How soon a broker that did not answer, or a topic that was too small, is asked again for the limit.
_ASK_AGAIN_S: Final = 5.0
_UNKNOWN_LIMIT: Final = 1 << 40
#: A longer one is several of the client's own, with the same trouble as its flush.
_LONGEST_POLL_S: Final = 0.1

#: The topic's largest record in bytes. Raises UnknownTopic and BrokerUnavailable.
Limits = Callable[[str], int]


class KafkaProducer:
    """A producer for Kafka; see the Producer port."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        connection: Connection,
        limit_of: Limits,
        forget: Callable[[str], None],
        *,
        on_close: Callable[[KafkaProducer], None] = lambda _producer: None,
        monotonic_s: MonotonicClock = monotonic_s,
    ) -> None:
        """Create the client.

        `limit_of` returns a topic's limit, `forget` drops what is known of a topic that turned out to be gone or
        recreated, `on_close` is called when this producer is closed.
        """
        self._settings = settings
        self._connection = connection
        self._limit_of = limit_of
        self._forget = forget
        self._on_close = on_close
        self._monotonic_s = monotonic_s
        self._limits: dict[str, int] = {}
        #: When a record was last too large for the topic's known limit.
        self._doubted_at_s: dict[str, float] = {}
        self._ask_again_at_s = 0.0
        self._places: dict[tuple[str, int], TopicPartition] = {}
        #: Held while the client is replaced; callbacks that run meanwhile may produce again.
        self._lock = threading.RLock()
        self._client = self._open()

    def _open(self) -> Client:
        try:
            return Client({**self._settings, "error_cb": self._connection.on_error}, logger=ClientLog(self._connection))
        except KafkaException as error:
            raise settings_error(error, self._connection) from error

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
            self._check_again(topic, size + _size_of(headers))
        # The one object that is made for a record: the caller's callback is mostly another one for each, too.
        report = None if on_delivery is None else partial(self._report, topic, on_delivery)
        number = -1 if partition is None else partition
        listed = [*headers] if headers else None
        client = self._client
        try:
            client.produce(topic, value, key, number, report, headers=listed)  # type: ignore[arg-type]
        except BufferError as error:
            raise QueueFull(f"{topic}: the queue of this producer is full") from error
        except KafkaException as error:
            found = error_of(error)
            if found.code() != KafkaError._FATAL and not found.fatal():
                raise self._error(found, topic) from error
            self._replace(client, found)
            try:
                self._client.produce(topic, value, key, number, report, headers=listed)  # type: ignore[arg-type]
            except BufferError as full:
                raise QueueFull(f"{topic}: the queue of this producer is full") from full

    def _report(
        self, topic: str, on_delivery: DeliveryCallback, error: KafkaError | None, message: Message[Any, Any]
    ) -> None:
        number = message.partition()
        place = self._places.get((topic, number))  # type: ignore[arg-type]
        if place is None:
            place = TopicPartition(topic, -1 if number is None else number)
            self._places[place] = place
        if error is None:
            on_delivery(None, place, message.offset())  # type: ignore[arg-type]
        else:
            on_delivery(self._error(error, topic, len(message)), place, -1)

    def _error(self, error: KafkaError, topic: str, size: int = 0) -> Exception:
        if error.code() in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE):
            # The topic's limit is lower than was known: it is looked up again for the next record.
            known = self._limits.pop(topic, None)
            self._forget(topic)
            return RecordTooLarge(topic, size, known if known is not None and known < size else None)
        found = transport_error(error, self._connection.address, topic, needs=Operation.WRITE)
        if isinstance(found, UnknownTopic):
            self._limits.pop(topic, None)
            self._forget(topic)
        return found

    def _look_up(self, topic: str) -> int:
        """Return the topic's limit; none while no broker answers: the record is queued, and the broker decides."""
        if self._monotonic_s() < self._ask_again_at_s:
            return _UNKNOWN_LIMIT
        try:
            limit = self._limits[topic] = self._limit_of(topic)
        except BrokerUnavailable:
            self._ask_again_at_s = self._monotonic_s() + _ASK_AGAIN_S
            return _UNKNOWN_LIMIT
        return limit

    def _check_again(self, topic: str, size: int) -> None:
        """Raise RecordTooLarge unless the topic's limit has been raised since the last look."""
        now_s = self._monotonic_s()
        if now_s >= self._doubted_at_s.get(topic, 0.0) + _ASK_AGAIN_S:
            self._doubted_at_s[topic] = now_s
            self._forget(topic)
            self._look_up(topic)
        limit = self._limits.get(topic, _UNKNOWN_LIMIT)
        if size > limit:
            raise RecordTooLarge(topic, size, limit)

    def _replace(self, client: Client, error: KafkaError) -> None:
        """Replace an idempotent producer that lost its order: it never writes again.

        Its records fail, and are sent again.
        """
        with self._lock:
            if self._client is not client:
                return  # Another thread was faster, or it is closed.
            _log.warning("the producer is replaced after a fatal error: %s", self._connection.hide(error.str()))
            self._client = self._open()
            self._connection.replaced()
            client.purge()
            _drain(client, CLOSE_TIMEOUT_S)

    def poll(self, timeout_s: float = 0.0) -> int:
        """Run delivery callbacks. Raises AuthenticationFailed, BrokerTooOld, and NotAuthorized without a write ACL."""
        client, served = self._client, 0
        try:
            served = client.poll(timeout_s)
        except KafkaException as error:
            # The client reports here, once, that it will never work again.
            found = error_of(error)
            if not found.fatal() and found.code() != KafkaError._FATAL:
                raise transport_error(found, self._connection.address) from error
            self._connection.on_error(found)
            self._replace(client, found)
        self._connection.check()
        return served

    def flush(self, timeout_s: float) -> int:
        """Wait for all deliveries. Raises AuthenticationFailed, BrokerTooOld, and NotAuthorized without a write ACL.

        This does not use the client's own flush: when the client fails for good meanwhile, that calls back in a state
        in which no method can be called, and the result of a record would never be reported.
        """
        deadline_s = time.monotonic() + timeout_s
        self.poll(0)
        while len(self._client) and (remaining_s := deadline_s - time.monotonic()) > 0:
            self.poll(min(remaining_s, _LONGEST_POLL_S))
        return len(self._client)

    def close(self) -> None:
        """Wait for the deliveries, and end the client with its threads, here and now.

        A client that is left to the garbage collector runs on, and ends the process if it is collected on one of its
        own threads.
        """
        if isinstance(self._client, _Closed):
            return
        try:
            left = self.flush(CLOSE_TIMEOUT_S)
            if left:
                _log.warning("%d records were not acknowledged by %s", left, self._connection.address)
                self._client.purge()
                _drain(self._client, 1.0)
        except (KafkaException, TransportError) as error:
            _log.warning("closing the producer failed: %s", error)
        finally:
            self.drop()

    def drop(self) -> None:
        """End the client without waiting for deliveries."""
        with self._lock:
            self._client = cast("Client", _Closed())
        self._on_close(self)


class _Closed:
    """In the place of the client of a closed producer."""

    def __len__(self) -> int:
        return 0

    def poll(self, _timeout_s: float) -> int:
        return 0

    def purge(self) -> None:
        """Nothing is left."""

    def produce(self, topic: str, *_record: object, **_headers: object) -> None:
        raise TransportError(f"{topic}: this producer is closed")


def _drain(client: Client, timeout_s: float) -> None:
    """Run the callbacks of all records that were purged."""
    deadline_s = time.monotonic() + timeout_s
    while len(client) and time.monotonic() < deadline_s:
        try:
            client.poll(_LONGEST_POLL_S)
        except KafkaException as error:
            _log.debug("of a client that is given up: %s", error)


def _size_of(headers: Headers) -> int:
    return _RECORD_BYTES + sum(len(name) + len(value or b"") + 10 for name, value in headers)
