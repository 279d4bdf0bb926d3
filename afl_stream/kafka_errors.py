"""What librdkafka reports, as errors of the transport port."""

from __future__ import annotations

import logging
import re
import threading
import time
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from afl_stream.errors import ConfigError
from afl_stream.transport import (
    AuthenticationFailed,
    BrokerTooOld,
    BrokerUnavailable,
    NotAuthorized,
    TransportError,
    UnknownTopic,
)

_log = logging.getLogger("afl_stream.kafka")

_UNKNOWN_TOPIC: Final = frozenset({
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.UNKNOWN_TOPIC_ID,
})  # fmt: skip
_NOT_ALLOWED: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the cluster",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "idempotent writing",
}
_AUTHENTICATION: Final = frozenset({
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
    KafkaError.ILLEGAL_SASL_STATE,
    KafkaError._SSL,
})  # fmt: skip
_TOO_OLD: Final = frozenset({
    KafkaError._UNSUPPORTED_FEATURE,
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
})  # fmt: skip
#: What a broker answers to a member that the group has gone on without.
FENCED: Final = frozenset({
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError.FENCED_MEMBER_EPOCH,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError._FENCED,
})  # fmt: skip
#: librdkafka's own account of a broker that lacks something; the last resort where there is no code for it.
_LACKING: Final = re.compile(
    r"not supported by broker|version not supported|unsupported (?:feature|version)|required feature", re.IGNORECASE
)

_REMEDY_OLD: Final = "Kafka 2.8 or newer is needed, and 4.0 or newer for kafka.group_protocol = consumer"


def error_of(exception: KafkaException) -> KafkaError:
    """The KafkaError that an exception of the client carries."""
    found = exception.args[0] if exception.args else None
    return found if isinstance(found, KafkaError) else KafkaError(KafkaError._FAIL, str(exception))


def transport_error(error: KafkaError, address: str, topic: str | None = None, group: str | None = None) -> Exception:
    """The port's error for one of librdkafka's. `topic` and `group`: what the call was about."""
    code, text = error.code(), error.str()
    if code in _UNKNOWN_TOPIC:
        return UnknownTopic(topic or "(unnamed)")
    if code in _NOT_ALLOWED:
        kind = _NOT_ALLOWED[code]
        name = {"topic": topic, "group": group}.get(kind)
        return NotAuthorized(f"{kind} {name}" if name else kind, text)
    if code in _AUTHENTICATION:
        return AuthenticationFailed(address, text)
    if code in _TOO_OLD or (code == KafkaError._FATAL and _LACKING.search(text)):
        return BrokerTooOld(address, text, _REMEDY_OLD)
    if error.retriable() or code < 0:
        return BrokerUnavailable(f"{address}: {text}")
    return TransportError(f"{address}: {error.name()}: {text}")


def settings_error(exception: KafkaException) -> Exception:
    """What a client says of settings that it was made with."""
    text = error_of(exception).str()
    named = re.search(r'"([a-z0-9._]+)"', text) or re.search(r"`([a-z0-9._]+)`", text)
    return ConfigError("kafka", named.group(1) if named else "settings", text, "a setting of librdkafka")


class ClientLog:
    """librdkafka's log lines, for those who debug: what matters comes as an error, with an address."""

    def log(self, level: int, message: str, *args: object) -> None:
        _log.debug(message, *args)


class Connection:
    """What the callbacks of one client have said of its brokers. The client's own thread asks."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._lock = threading.Lock()
        self._refusal: Exception | None = None
        self._detail = ""
        self._down_since_s: float | None = None

    def on_error(self, error: KafkaError) -> None:
        """librdkafka's error callback; runs inside a call of the client."""
        code, text = error.code(), error.str()
        with self._lock:
            if code in _AUTHENTICATION or code in _TOO_OLD or _LACKING.search(text):
                old = code not in _AUTHENTICATION
                self._refusal = (
                    BrokerTooOld(self.address, text, _REMEDY_OLD) if old else AuthenticationFailed(self.address, text)
                )
            if code == KafkaError._ALL_BROKERS_DOWN:
                self._down_since_s = self._down_since_s or time.monotonic()
            elif code in (KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._TIMED_OUT):
                self._detail = text
        _log.debug("%s: %s", self.address, error)

    def check(self) -> None:
        """Raise AuthenticationFailed or BrokerTooOld when a broker has refused us."""
        if self._refusal is not None:
            with self._lock:
                refusal, self._refusal = self._refusal, None
            if refusal is not None:
                raise refusal

    @property
    def is_down(self) -> bool:
        """Whether no broker was reachable when last heard of."""
        return self._down_since_s is not None

    def is_back(self) -> None:
        """A broker has answered."""
        with self._lock:
            self._down_since_s, self._detail = None, ""

    def unavailable(self, detail: str = "") -> BrokerUnavailable:
        """The error that tells which address does not answer."""
        told = self._detail or detail
        return BrokerUnavailable(f"no broker answers at {self.address}{': ' + told if told else ''}")
