"""Errors of librdkafka, turned into errors of the transport port."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from afl_stream.acls import Operation
from afl_stream.errors import ConfigError
from afl_stream.kafka.error_codes import Decision, codes_of, decision_of
from afl_stream.transport import (
    AuthenticationFailed,
    BrokerTooOld,
    BrokerUnavailable,
    NotAuthorized,
    TransportError,
    UnknownTopic,
)

_log = logging.getLogger("afl_stream.kafka")

_NOT_ALLOWED: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the cluster",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "idempotent writing",
}
_AUTHENTICATION: Final = codes_of(Decision.AUTHENTICATION)
_TOO_OLD: Final = codes_of(Decision.TOO_OLD)
#: A broker's answers to a member that the group has continued without.
FENCED: Final = codes_of(Decision.FENCED)
#: Errors that more attempts may overcome.
_WAITED_FOR: Final = frozenset({Decision.PASS, Decision.WAIT, Decision.RECREATE})
#: librdkafka's own text about a broker that lacks a feature; the last resort where there is no code for it.
_LACKING: Final = re.compile(
    r"not supported by broker|version not supported|unsupported (?:feature|version)|required feature", re.IGNORECASE
)

#: The text of librdkafka's log when a broker closes the connection after it was reached.
_HUNG_UP: Final = "connection closed by peer: receive 0"
#: Once may be a restart.
_HUNG_UP_OFTEN: Final = 3

#: Time limit of a look for brokers that were all down, and the interval between looks.
_LOOK_S: Final = 1.0

_INCONSISTENT: Final = KafkaError.INCONSISTENT_GROUP_PROTOCOL
_OTHER_ASSIGNOR: Final = (
    "the other members of {} share out partitions in another way: set the same in all of them, which is agent.assignor "
    "for agents of AFL Stream, as range for a group with kafkajs; the clients page, docs/any-language.md, has a table"
)
_REMEDY_OLD: Final = "Kafka 2.8 or newer is needed, and 4.0 or newer for kafka.group_protocol = consumer"


def error_of(exception: KafkaException) -> KafkaError:
    """Return the KafkaError that an exception of the client carries."""
    found = exception.args[0] if exception.args else None
    return found if isinstance(found, KafkaError) else KafkaError(KafkaError._FAIL, str(exception))


def transport_error(
    error: KafkaError,
    address: str,
    topic: str | None = None,
    group: str | None = None,
    needs: Operation | None = None,
) -> Exception:
    """Return the port's error for one of librdkafka's.

    `topic` and `group`: what the call was about; `needs`: the right to do it, where one alone does.
    """
    code, text, decision = error.code(), error.str(), decision_of(error)
    if decision is Decision.UNKNOWN_TOPIC:
        return UnknownTopic(topic or "(unnamed)")
    if decision is Decision.NOT_ALLOWED:
        kind = _NOT_ALLOWED[code]
        name = {"topic": topic, "group": group}.get(kind)
        needed = Operation.READ if kind == "group" else needs
        return NotAuthorized(f"{kind} {name}" if name else kind, text, needed or "")
    if decision is Decision.AUTHENTICATION:
        return AuthenticationFailed(address, text)
    if decision is Decision.TOO_OLD or (code == KafkaError._FATAL and _LACKING.search(text)):
        return BrokerTooOld(address, text, _REMEDY_OLD)
    if error.retriable() or decision in _WAITED_FOR:
        return BrokerUnavailable(f"{address}: {text}")
    remedy = f" ({_OTHER_ASSIGNOR.format(group or 'the group')})" if code == _INCONSISTENT else ""
    return TransportError(f"{address}: {error.name()}: {text}{remedy}")


def passes(error: KafkaError) -> bool:
    """Return whether a broker's answer is one that librdkafka recovers from by itself: the question is asked again.

    A question without an answer is not: its own time-out was waited for.
    """
    return error.code() > 0 and decision_of(error) is Decision.PASS


def is_needless(error: KafkaError, group: str | None) -> bool:
    """Return whether an error is about a group that a reader without one does not need: librdkafka asks for it."""
    return group is None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


def settings_error(exception: KafkaException, connection: Connection) -> Exception:
    """Return the error for settings that a client refuses."""
    text = connection.hide(error_of(exception).str())
    named = re.search(r'"([a-z0-9._]+)"', text) or re.search(r"`([a-z0-9._]+)`", text)
    return ConfigError("kafka", named.group(1) if named else "settings", text, "a setting of librdkafka")


def is_silence(error: BaseException | None) -> bool:
    """Return whether a question failed for want of an answer; any answer of a broker is an answer."""
    if error is None:
        return False
    return not isinstance(error, KafkaException) or is_unanswered(error_of(error))


def is_unanswered(error: KafkaError) -> bool:
    """Return whether this is the client's own error, and not a broker's answer."""
    return error.code() < KafkaError.UNKNOWN


class ClientLog:
    """librdkafka's log lines, for debugging: what matters is raised as an error, with an address."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def log(self, _level: int, message: str, *args: object) -> None:
        text = message % args if args else message
        if _HUNG_UP in text:
            self._connection.on_hung_up()
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s", self._connection.hide(text))


class Connection:
    """The state of one client's brokers, as its callbacks report it. The client's own thread asks."""

    def __init__(self, address: str, hide: Callable[[str], str] = str) -> None:
        """Take the address for messages; `hide` masks the secrets in a text."""
        self.address = address
        self.hide = hide
        self._lock = threading.Lock()
        self._refusal: Exception | None = None
        self._fatal: Exception | None = None
        self._detail = ""
        self._hung_up = 0
        self._is_down = False
        self._next_look_s = 0.0

    def on_error(self, error: KafkaError) -> None:
        """Take an error from librdkafka's error callback, which runs inside a call of the client."""
        code, text = error.code(), self.hide(error.str())
        with self._lock:
            if code in _AUTHENTICATION or code in _TOO_OLD or _LACKING.search(text):
                old = code not in _AUTHENTICATION
                self._refusal = (
                    BrokerTooOld(self.address, text, _REMEDY_OLD) if old else AuthenticationFailed(self.address, text)
                )
            if error.fatal() or code == KafkaError._FATAL:
                if code in _NOT_ALLOWED:
                    self._refusal = NotAuthorized(_NOT_ALLOWED[code], text)
                self._fatal = self._refusal or TransportError(f"{self.address}: {text}; the client cannot continue")
            if code == KafkaError._ALL_BROKERS_DOWN:
                self._is_down = True
            elif code in (KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._TIMED_OUT):
                self._detail = text
        _log.debug("%s: %s: %s", self.address, error.name(), text)

    def on_hung_up(self) -> None:
        """Note that a broker has closed the connection without an error. Only librdkafka's log reports that."""
        self._hung_up += 1

    def check(self) -> None:
        """Raise AuthenticationFailed, BrokerTooOld or NotAuthorized when a broker has refused us."""
        if self._refusal is not None:
            with self._lock:
                refusal, self._refusal = self._refusal, None
            if refusal is not None:
                raise refusal

    @property
    def fatal(self) -> Exception | None:
        """The error after which this client will never work again, or None."""
        return self._fatal

    def replaced(self) -> None:
        """Note that another client has replaced one that failed for good."""
        self._fatal = None

    @property
    def is_down(self) -> bool:
        """Return whether no broker was reachable at the last report."""
        return self._is_down

    def is_back(self) -> None:
        """Note that a broker has answered."""
        with self._lock:
            self._is_down, self._detail, self._hung_up = False, "", 0

    def look(self, ask: Callable[[float], object]) -> None:
        """Ask a broker anything, to see whether one is back; `ask` takes its time limit in seconds.

        Raises BrokerUnavailable: when none answers, and until the next look is due.
        """
        if time.monotonic() < self._next_look_s:
            raise self.unavailable()
        try:
            ask(_LOOK_S)
        except KafkaException as error:
            self._next_look_s = time.monotonic() + _LOOK_S
            raise self.unavailable(error_of(error).str()) from error
        self.is_back()

    def unavailable(self, detail: str = "") -> BrokerUnavailable:
        """Return the error that names the address that does not answer."""
        cause = self._detail or detail
        if self._hung_up >= _HUNG_UP_OFTEN:
            cause += "; each connection is accepted and ended at once: does the setting security.protocol fit the port?"
        return BrokerUnavailable(f"no broker answers at {self.address}{': ' + cause if cause else ''}")
