"""Topics and the cluster, as Kafka describes them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its documented names, not marked as exported
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
    TopicMetadata,
)

from afl.core.backoff import Backoff, FailedAttempts
from afl.core.process.long_waits import WAITS
from afl_stream.acls import Acl
from afl_stream.group_members import GroupView
from afl_stream.kafka.acls import read_acls, write_acls
from afl_stream.kafka.admin_client import RenewedClient
from afl_stream.kafka.bounds import answer_to
from afl_stream.kafka.errors import (
    ClientLog,
    Connection,
    error_of,
    is_silence,
    is_unanswered,
    passes,
    settings_error,
    transport_error,
)
from afl_stream.kafka.groups import describe_groups, group_names
from afl_stream.kafka.listed_topics import names_in, topics_in
from afl_stream.kafka.offset_questions import FIRST, NEXT, OffsetQuestions, Offsets
from afl_stream.kafka.topic_ids import NO_ID, hidden_topics, unknown_partition, unlisted
from afl_stream.kafka.waits import came_true, in_thread, result_of
from afl_stream.transport import (
    BrokerTooOld,
    BrokerUnavailable,
    NotAuthorized,
    TopicDescription,
    TopicExists,
    TopicPartition,
    TransportError,
    UnknownTopic,
    Watermarks,
)

_log = logging.getLogger(__name__)

#: How long a start waits for a broker to answer, each time it asks.
_CONNECT_BACKOFF: Final = Backoff(first_s=0.5, longest_s=5.0)
#: A start whose broker is silent says so, once, after this time: people wait for commands.
_REPORTED_AFTER_S: Final = 2.0
#: How long one request may take.
REQUEST_TIMEOUT_S: Final = 15.0
#: The same for a partition's bounds, which readers ask for while they work.
_BOUNDS_TIMEOUT_S: Final = 5.0
#: The same for the bounds that a reader looks at from time to time, without waiting for them.
_VIEW_TIMEOUT_S: Final = 5.0
#: The same for the ids of topics: a member that has been given partitions waits for them.
_IDS_TIMEOUT_S: Final = 8.0
#: Wait before a question that failed in passing is asked again.
_ASK_AGAIN_S: Final = 0.1
#: How soon a topic that was missing is looked for again.
_MISSING_FOR_S: Final = 1.0
#: Settings that are reported even if the topic has none of its own: the broker's value counts.
_ALWAYS_TOLD: Final = frozenset({"cleanup.policy", "max.message.bytes", "min.insync.replicas", "retention.ms"})
#: Kafka's default (message.max.bytes).
_DEFAULT_LIMIT: Final = 1_048_588
#: How long a writer waits for a topic's limit: it can continue without.
_LIMIT_TIMEOUT_S: Final = 3.0

T = TypeVar("T")


class KafkaAdmin:
    """Topics and the cluster; see the Admin port. Any thread may use it."""

    def __init__(self, settings: Mapping[str, Any], offset_settings: Mapping[str, Any], connection: Connection) -> None:
        """Take the settings of the admin client, and of the consumer that asks for offsets."""
        self._connection = connection
        self._settings: dict[str, Any] = {**settings, "error_cb": connection.on_error}
        self._offset_settings: dict[str, Any] = {**offset_settings, "error_cb": connection.on_error}
        self._client = RenewedClient(self._open)
        self._questions = OffsetQuestions(self._open_reader)
        self._lock = threading.Lock()
        self._limits: dict[str, int] = {}
        self._missing_at_s: dict[str, float] = {}

    def _open(self) -> AdminClient:
        try:
            return AdminClient(self._settings, logger=ClientLog(self._connection))
        except KafkaException as error:
            raise settings_error(error, self._connection) from error

    def _open_reader(self) -> Consumer:
        try:
            return Consumer(self._offset_settings, logger=ClientLog(self._connection))
        except KafkaException as error:
            raise settings_error(error, self._connection) from error

    def close(self) -> None:
        """End the clients; no question can be asked any more."""
        self._questions.close()
        self._client.close()

    def connect(self, timeout_s: float) -> str:
        """Wait until a broker answers, and return the cluster's id.

        Raises BrokerUnavailable after `timeout_s`, naming the address and why; AuthenticationFailed and BrokerTooOld
        as soon as they are known.
        """
        began_s = time.monotonic()
        deadline_s, reported_at_s = began_s + timeout_s, began_s + _REPORTED_AFTER_S
        failures, is_reported = FailedAttempts(_CONNECT_BACKOFF), False
        while True:
            until_s = deadline_s if is_reported else min(deadline_s, reported_at_s)
            attempt_s = max(0.1, min(failures.next_wait_s(), until_s - time.monotonic()))
            try:
                # A lasting error is reported below, once.
                with WAITS.on("a broker to answer", is_quiet=True):
                    found = self._metadata(timeout_s=attempt_s)
                if not found.brokers:
                    raise self._connection.unavailable("the cluster tells of no broker")
                self._require_recent(min(found.brokers))
                return str(found.cluster_id)
            except BrokerUnavailable as error:
                now_s = time.monotonic()
                if now_s >= deadline_s:
                    raise BrokerUnavailable(f"{error}; gave up after {timeout_s:g} s") from error
                if now_s >= reported_at_s and not is_reported:
                    _log.warning("%s; waiting for it, up to %g s", error, timeout_s)
                    is_reported = True

    def _require_recent(self, broker_id: int) -> None:
        """Raise BrokerTooOld, before anything is done, for a broker that lacks what every part of the loop needs.

        Raises BrokerUnavailable when the broker does not answer: that says nothing of its age. Another client asks next
        then: this one has metadata, and may still wait for ever for a connection to the broker that they name.
        """
        resource, client = ConfigResource(ResourceType.BROKER, str(broker_id)), self._client.now()
        asked = client.describe_configs([resource], request_timeout=_LIMIT_TIMEOUT_S)
        try:
            self._answer(asked[resource], _LIMIT_TIMEOUT_S + 1.0, "whether it is recent enough")
        except TimeoutError as error:
            self._client.replace(client)
            raise self._connection.unavailable("it does not tell what it understands") from error
        except KafkaException as error:
            found = self._error(error_of(error))
            if isinstance(found, BrokerTooOld):
                raise found from error
            if is_silence(error):
                self._client.replace(client)
                raise self._connection.unavailable(str(found)) from error
            # Most users may not describe a broker's settings; that it understood the question is enough.

    def cluster_id(self) -> str:
        return str(self._metadata().cluster_id)

    def broker_count(self) -> int:
        if count := len(self._metadata().brokers):
            return count
        raise self._connection.unavailable("the cluster tells of no broker")

    def topic_names(self) -> frozenset[str]:
        return names_in(self._metadata())

    def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        found = self._listed(None if names is None else frozenset(names), REQUEST_TIMEOUT_S)
        listed = sorted(found)
        ids, settings = self._ids(listed), self._settings_of(listed)
        with self._lock:
            self._limits.update({name: _limit_in(settings.get(name, {})) for name in listed})
        return {
            name: TopicDescription(
                name=name,
                partitions=len(topic.partitions),
                replication=min((len(p.replicas) for p in topic.partitions.values()), default=1),
                settings=settings.get(name, {}),
                topic_id=ids.get(name, ""),
            )
            for name, topic in found.items()
        }

    def create_topic(
        self, name: str, *, partitions: int, replication: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic. Raises TopicExists, NotAuthorized, and TransportError for what the broker refuses."""
        new = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dict(settings or {}))
        try:
            asked = self._client.ask(lambda client: client.create_topics([new], request_timeout=REQUEST_TIMEOUT_S))
            self._result(asked[name], name)
        except KafkaException as error:
            found = error_of(error)
            if found.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                raise TopicExists(name) from error
            raise self._error(found, name) from error
        self._wait(lambda: name in self._metadata().topics)

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises NotAuthorized."""
        try:
            asked = self._client.ask(lambda client: client.delete_topics([name], request_timeout=REQUEST_TIMEOUT_S))
            self._result(asked[name], name)
        except KafkaException as error:
            raise self._error(error_of(error), name) from error
        self.forget(name)
        self._wait(lambda: name not in self._metadata().topics)

    def groups(self, names: Iterable[str] | None = None) -> dict[str, GroupView]:
        """Return these groups, or all that there are; those that may not be described are left out.

        Raises BrokerUnavailable, NotAuthorized.
        """
        client = self._client.now()
        try:
            address = self._connection.address
            wanted = group_names(client, address) if names is None else sorted(set(names))
            return describe_groups(client, wanted, address)
        except TimeoutError as error:
            self._client.replace(client)
            raise self._connection.unavailable("no answer about groups") from error
        except KafkaException as error:
            raise self._error(error_of(error)) from error

    def hidden(self, names: Iterable[str]) -> frozenset[str]:
        """Return those of these topics that this user may not see: it is not told whether they exist."""
        return hidden_topics(self.ask_ids, names, self._connection.address)

    def acls_of(self, principal: str) -> frozenset[Acl]:
        """Return the ACLs of a user. Raises NotAuthorized, BrokerUnavailable."""
        return self._about_acls(lambda client: read_acls(client, principal, self._connection.address))

    def create_acls(self, acls: Collection[Acl]) -> None:
        """Create these ACLs; those that exist stay. Raises NotAuthorized, BrokerUnavailable, AclsHaveNoEffect."""
        self._about_acls(lambda client: write_acls(client, acls, self._connection.address))

    def _about_acls(self, question: Callable[[AdminClient], T]) -> T:
        try:
            return question(self._client.now())
        except TimeoutError as error:
            raise self._connection.unavailable("no answer about ACLs") from error
        except KafkaException as error:
            raise self._error(error_of(error)) from error

    # For producers and consumers

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        """Return a partition's bounds. Raises UnknownTopic, BrokerUnavailable, NotAuthorized.

        Connections of their own ask: on a consumer's, a broker answers after the fetch that it holds.
        """
        return self._answer_to(partial(self._bounds_at, partition))

    def _bounds_at(self, partition: TopicPartition, timeout_s: float) -> Watermarks:
        asked = [self._questions.ask({partition: at}, timeout_s) for at in (FIRST, NEXT)]
        low, high = (self._told(answer)[partition] for answer in asked)
        return Watermarks(low=low, high=high)

    def offsets_since(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the offset of the first record at or after each time, or the one that the next record gets.

        Raises UnknownTopic, BrokerUnavailable, NotAuthorized.
        """
        if not times_ms:
            return {}
        # The ends are asked for first: a record that comes between the two answers must not be left out.
        ends = self._answer_to(partial(self._offsets_at, dict.fromkeys(times_ms, NEXT)))
        # Times before the epoch have other meanings for a broker: -1 is the end.
        since_ms = {partition: max(0, ms) for partition, ms in times_ms.items()}
        found = self._answer_to(partial(self._offsets_at, since_ms))
        return {partition: ends[partition] if offset < 0 else offset for partition, offset in found.items()}

    def _answer_to(self, ask: Callable[[float], T]) -> T:
        try:
            return answer_to(ask, _BOUNDS_TIMEOUT_S, _ASK_AGAIN_S)
        except KafkaException as error:
            if is_silence(error):
                raise self._connection.unavailable("no answer about the bounds of partitions") from error
            raise self._error(error_of(error)) from error

    def _offsets_at(self, times_ms: Mapping[TopicPartition, int], timeout_s: float) -> dict[TopicPartition, int]:
        return self._told(self._questions.ask(times_ms, timeout_s))

    def _told(self, asked: Future[Offsets]) -> dict[TopicPartition, int]:
        """Wait for the offsets. Raises KafkaException for an error that passes, and without an answer."""
        answer = self._result(asked, "the bounds of partitions")
        offsets: dict[TopicPartition, int] = {}
        for partition, told in answer.items():
            if isinstance(told, KafkaError):
                if passes(told) or is_unanswered(told):
                    raise KafkaException(told)
                found = self._error(told, partition.topic)
                if not isinstance(found, UnknownTopic):
                    raise found
                raise unknown_partition(self.ask_ids, partition, self._connection.address)
            offsets[partition] = told
        return offsets

    def ask_bounds(self, partitions: Sequence[TopicPartition]) -> tuple[Future[Offsets], Future[Offsets]]:
        """Ask for the partitions' first and for their next offsets; the futures have them when they come."""
        firsts, ends = (self._questions.ask(dict.fromkeys(partitions, at), _VIEW_TIMEOUT_S) for at in (FIRST, NEXT))
        return firsts, ends

    def limit_of(self, topic: str) -> int:
        """Return the bytes of the largest record of a topic. Raises UnknownTopic, NotAuthorized, BrokerUnavailable."""
        with self._lock:
            if topic in self._limits:
                return self._limits[topic]
            missing_at_s = self._missing_at_s.get(topic)
        if missing_at_s is not None and time.monotonic() - missing_at_s < _MISSING_FOR_S:
            raise UnknownTopic(topic)
        if topic not in self._listed({topic}, _LIMIT_TIMEOUT_S):
            with self._lock:
                self._missing_at_s[topic] = time.monotonic()
            raise unlisted(self.ask_ids, topic, self._connection.address)
        limit = _limit_in(self._settings_of([topic]).get(topic, {}))
        with self._lock:
            self._limits[topic] = limit
            self._missing_at_s.pop(topic, None)
        return limit

    def forget(self, topic: str) -> None:
        """Look the topic up again at the next question about it."""
        with self._lock:
            self._limits.pop(topic, None)

    # Requests

    def _listed(self, names: Collection[str] | None, timeout_s: float) -> Mapping[str, TopicMetadata]:
        """Return the topics of these names that exist, or all; asks again while one has an error that passes.

        Raises BrokerUnavailable, with what the broker said, for one whose error stays.
        """
        try:
            return answer_to(lambda left_s: topics_in(self._metadata(left_s), names), timeout_s, _ASK_AGAIN_S)
        except KafkaException as error:
            raise self._error(error_of(error)) from error

    def _metadata(self, timeout_s: float = REQUEST_TIMEOUT_S) -> ClusterMetadata:
        # Of all topics: asking for one may create it, where the broker does such things.
        client = self._client.now()
        call = in_thread(lambda: client.list_topics(timeout=timeout_s))
        try:
            found = self._answer(call, timeout_s + 1.0, "what topics there are")
        except TimeoutError as error:
            self._client.not_answered()
            raise self._connection.unavailable(f"no metadata in {timeout_s:g} s") from error
        except KafkaException as error:
            client.poll(0)
            if is_silence(error):
                self._client.not_answered()
            self._connection.check()
            found_error = self._error(error_of(error))
            if isinstance(found_error, BrokerUnavailable):
                raise self._connection.unavailable(error_of(error).str()) from error
            raise found_error from error
        self._client.answered()
        self._connection.is_back()
        return found

    def ask_ids(self, names: Sequence[str]) -> Mapping[str, Future[Any]]:
        """Ask for the topics' descriptions, which have their ids; the futures have them when they come."""
        wanted = TopicCollection(list(names))
        return self._client.ask(lambda client: client.describe_topics(wanted, request_timeout=_IDS_TIMEOUT_S))

    def _ids(self, names: list[str]) -> dict[str, str]:
        if not names:
            return {}
        ids: dict[str, str] = {}
        for name, future in self.ask_ids(names).items():
            try:
                found = str(self._result(future, name).topic_id)
            except (KafkaException, TransportError) as error:
                _log.debug("%s has no id: %s", name, error)
                continue
            ids[name] = "" if found == NO_ID else found
        return ids

    def _settings_of(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the topics' settings; none for topics that this user may not describe."""
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        if not resources:
            return {}
        settings: dict[str, dict[str, str]] = {}
        asked = self._client.ask(lambda client: client.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S))
        for resource, future in asked.items():
            try:
                entries = self._result(future, resource.name)
            except KafkaException as error:
                found = self._error(error_of(error), resource.name)
                if isinstance(found, NotAuthorized | UnknownTopic):
                    _log.debug("the broker does not tell the settings of %s: %s", resource.name, found)
                    continue
                raise found from error
            settings[resource.name] = {
                entry.name: entry.value
                for entry in entries.values()
                if entry.value is not None
                and (entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value or entry.name in _ALWAYS_TOLD)
            }
        return settings

    def _answer(self, future: Future[T], timeout_s: float, what: str) -> T:
        return result_of(future, timeout_s, what, address=self._connection.address)

    def _result(self, future: Future[T], what: str) -> T:
        try:
            return self._answer(future, REQUEST_TIMEOUT_S + 1.0, what)
        except TimeoutError as error:
            raise self._connection.unavailable(f"no answer about {what}") from error

    def _wait(self, condition: Callable[[], bool]) -> None:
        """Until all that the cluster tells agrees with what it was asked to do."""
        came_true(condition, REQUEST_TIMEOUT_S)

    def _error(self, error: KafkaError, topic: str | None = None) -> Exception:
        return transport_error(error, self._connection.address, topic)


def _limit_in(settings: Mapping[str, str]) -> int:
    return int(settings.get("max.message.bytes", _DEFAULT_LIMIT))
