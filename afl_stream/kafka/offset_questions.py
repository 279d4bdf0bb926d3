"""Questions to the brokers for offsets: the first of a log, the next, or the first since a time."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import groupby
from typing import Final, NamedTuple

from confluent_kafka import Consumer as Client
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from afl.core.clock import MonotonicClock, monotonic_s
from afl_stream.kafka.admin_client import RenewedClient
from afl_stream.kafka.error_codes import Decision, decision_of
from afl_stream.kafka.errors import error_of, is_silence
from afl_stream.kafka.waits import LONGEST_CALL_S
from afl_stream.transport import TopicPartition, TransportError

_log = logging.getLogger(__name__)

#: Times that stand for the first offset still there, and for the offset that the next record gets.
FIRST: Final = -2
NEXT: Final = -1

#: The answer for a time that no record reaches.
_NONE_SINCE: Final = -1

#: What the brokers said of each partition that was asked about. No record since a time: -1.
Offsets = dict[TopicPartition, int | KafkaError]


class _Question(NamedTuple):
    times_ms: Mapping[TopicPartition, int]
    deadline_s: float
    answer: Future[Offsets]


class OffsetQuestions:
    """Asks brokers for offsets of many partitions at once: one request to each leader. Any thread may ask.

    An admin client has a call for it, `list_offsets`. librdkafka 2.16 frees memory twice in it when its time is over
    while it still looks for the partitions' leaders, which ends the process. Its look-up of offsets by time puts the
    same request without this fault, but it is a consumer's, and it blocks. So a consumer that reads nothing and joins
    no group asks, on a thread that lives while there are questions, and puts them one after the other.

    The offset of the next record counts records of open transactions: it is the high watermark.
    """

    def __init__(self, make: Callable[[], Client], monotonic_s: MonotonicClock = monotonic_s) -> None:
        """`make` returns a new consumer; it is called with the first question."""
        self._make = make
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._clients: RenewedClient[Client] | None = None
        self._waiting: deque[_Question] = deque()
        self._is_answering = False
        self._is_closed = False

    def ask(self, times_ms: Mapping[TopicPartition, int], timeout_s: float) -> Future[Offsets]:
        """Ask for the offset at a time of each partition: milliseconds since the epoch, FIRST or NEXT. Does not wait.

        The answer has an error in place of the offset for each partition that the brokers tell none of. It raises
        KafkaException when no broker answered in time, TransportError after `close`.
        """
        question = _Question(times_ms, self._monotonic_s() + timeout_s, Future())
        with self._lock:
            self._waiting.append(question)
            if not self._is_answering:
                self._is_answering = True
                threading.Thread(target=self._answer_all, name="kafka-offsets", daemon=True).start()
        return question.answer

    def close(self) -> None:
        """End the client, once the question that it has at work is through. No other is put to it."""
        with self._lock:
            self._is_closed, clients = True, self._clients
        if clients is not None:
            clients.close()

    def _answer_all(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_answering = False
                    return
                question = self._waiting.popleft()
            try:
                question.answer.set_result(self._answer_of(question))
            except BaseException as error:  # noqa: BLE001 - raised by the call that waits
                question.answer.set_exception(error)

    def _answer_of(self, question: _Question) -> Offsets:
        if self._monotonic_s() >= question.deadline_s:
            # It waited for others that had no answer: to ask now would only keep the next ones waiting.
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        with self._lock:
            if self._is_closed:
                raise TransportError("this admin client is closed")
            clients = self._clients = self._clients or RenewedClient(self._make, self._monotonic_s)
        client = clients.now()
        try:
            found = self._look_up(client, question)
        except KafkaException:
            clients.not_answered()
            raise
        finally:
            # Hands on what librdkafka reports and logs; there is never a record.
            with suppress(KafkaException):
                client.poll(0)
        clients.answered()
        return found

    def _look_up(self, client: Client, question: _Question) -> Offsets:
        """Return the answer. Raises KafkaException where there was none, and for no other reason."""
        tps = [KafkaPartition(*partition, at) for partition, at in question.times_ms.items()]
        found = self._told(client, tps, question.deadline_s)
        unknown = [tp for tp in tps if _is_unknown(found[TopicPartition(tp.topic, tp.partition)])]
        if unknown:
            # Partitions that were added are unknown to a client that knew the topic, for a quarter of an hour. Of all
            # topics: asking for one may create it, where the broker does such things.
            client.list_topics(timeout=self._remaining_s(question.deadline_s))
            found |= self._told(client, unknown, question.deadline_s)
        return {partition: _answer(found[partition], at) for partition, at in question.times_ms.items()}

    def _told(self, client: Client, tps: Sequence[KafkaPartition], deadline_s: float) -> Offsets:
        """Return the answer; topic by topic where the brokers refuse a question about several for the sake of one."""
        try:
            return _offsets_in(self._asked(client, tps, deadline_s))
        except KafkaException as error:
            found = error_of(error)
            if is_silence(error) and not _is_unknown(found):
                raise
        by_topic = [list(group) for _, group in groupby(sorted(tps, key=_topic_of), _topic_of)]
        if len(by_topic) == 1:
            return {TopicPartition(tp.topic, tp.partition): found for tp in tps}
        offsets: Offsets = {}
        for of_one in by_topic:
            offsets |= self._told(client, of_one, deadline_s)
        return offsets

    def _asked(self, client: Client, tps: Sequence[KafkaPartition], deadline_s: float) -> list[KafkaPartition]:
        """Ask in short calls, because the end of the process waits for one."""
        while True:
            try:
                return client.offsets_for_times(list(tps), timeout=self._remaining_s(deadline_s))
            except KafkaException as error:
                if not is_silence(error) or _is_unknown(error_of(error)) or self._monotonic_s() >= deadline_s:
                    raise
                _log.debug("no answer about offsets yet: %s", error)

    def _remaining_s(self, deadline_s: float) -> float:
        # 0 would be a poll, and below 0 a wait without an end.
        return min(LONGEST_CALL_S, max(0.001, deadline_s - self._monotonic_s()))


def _topic_of(tp: KafkaPartition) -> str:
    return tp.topic


def _offsets_in(tps: Iterable[KafkaPartition]) -> Offsets:
    return {TopicPartition(tp.topic, tp.partition): tp.offset if tp.error is None else tp.error for tp in tps}


def _answer(found: int | KafkaError, at: int) -> int | KafkaError:
    """Return what was said of a partition, in the words of brokers."""
    if _is_unknown(found):
        return KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    if isinstance(found, int) and (found < _NONE_SINCE or (found == _NONE_SINCE and at < 0)):
        return KafkaError(KafkaError._TIMED_OUT)
    return found


def _is_unknown(answer: int | KafkaError) -> bool:
    """Return whether the client itself does not know the partition."""
    return isinstance(answer, KafkaError) and answer.code() < 0 and decision_of(answer) is Decision.UNKNOWN_TOPIC
