"""Detection of topics that were deleted, or recreated under their name, while they are read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from threading import Event as Flag
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.process.stopping import PROCESS_STOP, Stop
from afl_stream.acls import hidden_topic
from afl_stream.kafka.errors import error_of, is_silence, passes
from afl_stream.kafka.waits import result_of
from afl_stream.transport import NotAuthorized, TopicPartition, TransportError, UnknownTopic, is_another_topic

_log = logging.getLogger(__name__)

#: How often the ids are asked for.
INTERVAL_S: Final = 2.0
#: The answers of a broker that gives topics no ids.
NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"

#: The answers of a broker that refuses to tell, where waiting does not help: the name has to do.
_UNTOLD: Final = frozenset({
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError._UNSUPPORTED_FEATURE,
})  # fmt: skip

#: Ask for the descriptions of topics; does not wait.
AskIds = Callable[[Sequence[str]], Mapping[str, "Future[Any]"]]
#: How long a question about a topic that is not listed may take.
_HIDDEN_TIMEOUT_S: Final = 5.0


def hidden_topics(ask: AskIds, names: Iterable[str], address: str = "") -> frozenset[str]:
    """Return those of these topics that the user may not see; not known is not hidden.

    A broker lists such topics no more than those that do not exist. Only a question for one by its name tells them
    apart, and does not tell whether it exists.
    """
    wanted = sorted(set(names))
    hidden = set()
    try:
        for name, answer in ask(wanted).items() if wanted else ():
            try:
                result_of(answer, _HIDDEN_TIMEOUT_S, f"whether topic {name} is hidden", address=address)
            except KafkaException as error:
                if error_of(error).code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    hidden.add(name)
    except (TimeoutError, KafkaException, TransportError) as error:
        _log.debug("it is not known whether topics are hidden: %s", error)
    return frozenset(hidden)


def unlisted(ask: AskIds, topic: str, address: str = "") -> UnknownTopic | NotAuthorized:
    """Return the error for a topic that the broker does not list."""
    return hidden_topic(topic) if topic in hidden_topics(ask, [topic], address) else UnknownTopic(topic)


def unknown_partition(ask: AskIds, partition: TopicPartition, address: str = "") -> KafkaException | TransportError:
    """Return the error for a partition that its leader says it does not know: it is missing, if a description says so.

    A broker that stood still, or has just started, may not know a partition of its own for a moment: the error of one
    that is described, or that has no leader yet, is a KafkaException that passes; without an answer nothing is known.
    """
    try:
        (answer,) = ask([partition.topic]).values()
        described = result_of(answer, _HIDDEN_TIMEOUT_S, f"whether {partition} exists", address=address)
    except KafkaException as error:
        if error_of(error).code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return hidden_topic(partition.topic)
        if passes(error_of(error)) or is_silence(error):
            return error
        _log.debug("%s is not described: %s", partition, error)
    except TimeoutError:
        return KafkaException(KafkaError(KafkaError._TIMED_OUT))
    except TransportError as error:
        # Such as that this process was told to end.
        return error
    else:
        if any(found.id == partition.partition for found in described.partitions):
            return KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    return UnknownTopic(partition.topic)


class TopicChanges(NamedTuple):
    """Topics that were recreated under the same name, and topics that do not exist."""

    recreated: frozenset[str]
    gone: frozenset[str]


class TopicIds:
    """The ids of the topics that one consumer reads or waits for.

    librdkafka silently continues in a recreated topic at the old one's offset, which would skip the new topic's first
    records. It reports a deleted topic in one of the group protocols only. `look` does not wait for an answer. Belongs
    to the thread of its consumer.
    """

    def __init__(self, ask: AskIds, monotonic_s: MonotonicClock = monotonic_s, *, address: str = "") -> None:
        self._ask = ask
        self._address = address
        self._monotonic_s = monotonic_s
        self._known: dict[str, str] = {}
        self._asked: Mapping[str, Future[Any]] = {}
        self._next_s = 0.0
        #: Missing in the last answer. One broker may not know a new topic yet.
        self._missed: set[str] = set()

    def look(self, topics: Callable[[], Collection[str]]) -> TopicChanges | None:
        """Return which of these topics are gone or recreated since the first question; None: there is no news."""
        if self._asked:
            if not all(answer.done() for answer in self._asked.values()):
                return None
            answers, self._asked = self._asked, {}
            return self._compare(answers, topics())
        now_s = self._monotonic_s()
        if now_s >= self._next_s:
            self._next_s = now_s + INTERVAL_S
            names = topics()
            self._known = {name: found for name, found in self._known.items() if name in names}
            if names:
                try:
                    self._asked = self._ask(sorted(names))
                except KafkaException as error:
                    _log.debug("the ids of topics are not known: %s", error)
        return None

    def now(self, names: Collection[str], timeout_s: float, stop: Stop = PROCESS_STOP) -> dict[str, str | None]:
        """Return the current ids of these topics: "" where the broker tells none, None where the topic does not exist.

        Waits for the answers. Raises TimeoutError, Stopping, and KafkaException for what may pass.
        """
        deadline_s = self._monotonic_s() + timeout_s
        found: dict[str, str | None] = {}
        for name, answer in self._ask(sorted(names)).items() if names else ():
            try:
                remaining_s = max(0.0, deadline_s - self._monotonic_s())
                told = result_of(answer, remaining_s, f"the id of topic {name}", stop, address=self._address)
                topic_id = str(told.topic_id)
                found[name] = "" if topic_id == NO_ID else topic_id
            except KafkaException as error:
                code = error_of(error).code()
                if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    found[name] = None
                elif code in _UNTOLD:
                    found[name] = ""
                else:
                    raise
        for name, told_id in found.items():
            if told_id and is_another_topic(self._known.setdefault(name, told_id), told_id):
                # Known changes are reported as usual, with the next answer.
                self.soon()
        return found

    def others(self, ids: Mapping[str, str], timeout_s: float) -> TopicChanges:
        """Return which topics with these ids are gone or recreated, as far as answers come in time."""
        try:
            # Also in a process that was told to end: that is when it matters most.
            found = self.now(ids, timeout_s, Flag())
        except (TimeoutError, KafkaException) as error:
            _log.debug("the ids of topics are not known: %s", error)
            found = {}
        return TopicChanges(
            frozenset(topic for topic, told in found.items() if is_another_topic(ids[topic], told or "")),
            frozenset(topic for topic, told in found.items() if told is None),
        )

    def unlisted(self, topic: str) -> UnknownTopic | NotAuthorized:
        """Return the error for a topic that the broker does not list."""
        return unlisted(self._ask, topic, self._address)

    def soon(self) -> None:
        """Ask at the next occasion: something seems to have happened to a topic."""
        self._next_s = 0.0

    def _compare(self, answers: Mapping[str, Future[Any]], topics: Collection[str]) -> TopicChanges | None:
        changed: set[str] = set()
        missed: set[str] = set()
        for name, answer in answers.items():
            if name not in topics:
                continue
            error = answer.exception()
            if error is not None:
                if isinstance(error, KafkaException) and error_of(error).code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    missed.add(name)
                continue  # Else not told right now.
            found = str(answer.result().topic_id)
            if found == NO_ID:
                continue
            if is_another_topic(self._known.setdefault(name, found), found):
                self._known[name] = found
                changed.add(name)
        gone, self._missed = missed & self._missed, missed
        return TopicChanges(frozenset(changed), frozenset(gone)) if changed or gone else None
