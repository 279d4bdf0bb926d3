"""Reports of a Kafka broker besides records: the ends of logs, and whether fetches get replies."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import Consumer as Client
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from afl.core.clock import MonotonicClock, monotonic_s
from afl_stream.kafka.errors import is_silence, is_unanswered
from afl_stream.kafka.offset_questions import Offsets
from afl_stream.kafka.topic_ids import AskIds
from afl_stream.transport import BrokerView, TopicPartition, Watermarks

_log = logging.getLogger(__name__)

#: How soon after an answer the broker is asked again.
_INTERVAL_S: Final = 1.0

#: Ask for the first and for the next offset of partitions; does not wait.
AskBounds = Callable[[Sequence[TopicPartition]], tuple["Future[Offsets]", "Future[Offsets]"]]


class KafkaView:
    """The view of one consumer. Belongs to its thread; no call waits.

    The bounds are asked for on connections of their own, so an answer says nothing about the consumer's own.
    Those are judged by the log's end that librdkafka noted from the last reply to a fetch: each reply has it, one
    without records too. Where that stays behind the end that the broker names, replies do not come. A position would
    not show this, since transaction markers have an offset and are not records.
    """

    def __init__(
        self,
        client: Client,
        ask_bounds: AskBounds,
        ask_ids: AskIds,
        monotonic_s: MonotonicClock = monotonic_s,
    ) -> None:
        self._client = client
        self._ask_bounds = ask_bounds
        self._ask_ids = ask_ids
        self._monotonic_s = monotonic_s
        self._bounds: dict[TopicPartition, Watermarks] = {}
        self._asked_bounds: tuple[Future[Offsets], Future[Offsets]] | None = None
        self._asked_ids: Mapping[str, Future[Any]] = {}
        self._next_s = 0.0
        #: When the first question was asked that has had no answer; None: all have.
        self._unanswered_since_s: float | None = None
        self._is_reported = False

    def look(
        self, held: Collection[TopicPartition], paused: Collection[TopicPartition], topics: Collection[str]
    ) -> BrokerView:
        """Return what is known now.

        `held`: the assigned partitions; `paused`: those of them that are paused; `topics`: the topics that are read, or
        waited for while no partition is assigned.
        """
        now_s = self._monotonic_s()
        futures: list[Future[Any]] = [*(self._asked_bounds or ()), *self._asked_ids.values()]
        if futures and all(future.done() for future in futures):
            self._take_answers(futures)
            futures = []
        if not futures and now_s >= self._next_s and (held or topics):
            self._ask(sorted(held), sorted(topics), now_s)
        self._bounds = {partition: bounds for partition, bounds in self._bounds.items() if partition in held}
        read = {partition: bounds for partition, bounds in self._bounds.items() if partition not in paused}
        unfetched = {partition: self._unfetched(partition, bounds) for partition, bounds in read.items()}
        most = max(unfetched, key=lambda partition: unfetched[partition], default=None)
        return BrokerView(
            bounds=dict(self._bounds),
            is_reported=self._is_reported,
            unfetched=sum(unfetched.values()),
            most_unfetched="" if most is None else f"{unfetched[most]} of them in {most.topic}[{most.partition}]",
            unanswered_s=0.0 if self._unanswered_since_s is None else now_s - self._unanswered_since_s,
        )

    def _ask(self, held: Sequence[TopicPartition], topics: Sequence[str], now_s: float) -> None:
        self._next_s = now_s + _INTERVAL_S
        try:
            if held:
                self._asked_bounds = self._ask_bounds(held)
            else:
                self._asked_ids = self._ask_ids(topics)
        except KafkaException as error:
            _log.debug("the broker cannot be asked: %s", error)
        if self._unanswered_since_s is None:
            self._unanswered_since_s = now_s

    def _take_answers(self, futures: Sequence[Future[Any]]) -> None:
        asked, self._asked_bounds, self._asked_ids = self._asked_bounds, None, {}
        is_silent = any(is_silence(future.exception()) for future in futures)
        if asked is not None and all(future.exception() is None for future in asked):
            firsts, ends = (future.result() for future in asked)
            for partition, low in firsts.items():
                high = ends[partition]
                if isinstance(low, int) and isinstance(high, int):
                    self._bounds[partition] = Watermarks(low=low, high=high)
                elif any(isinstance(told, KafkaError) and is_unanswered(told) for told in (low, high)):
                    is_silent = True
        if not is_silent:
            self._unanswered_since_s, self._is_reported = None, True

    def _unfetched(self, partition: TopicPartition, bounds: Watermarks) -> int:
        """Return how many records the log has that no reply has reported."""
        tp = KafkaPartition(partition.topic, partition.partition)
        try:
            _, high = self._client.get_watermark_offsets(tp, cached=True)
        except KafkaException as error:
            _log.debug("the fetched end of %s[%d] is not known: %s", *partition, error)
            return 0
        # Without a reply so far it counts from the beginning of the log.
        return max(0, bounds.high - max(high, bounds.low))
