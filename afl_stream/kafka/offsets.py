"""Committed offsets of a group: commits, look-ups, and retries of commits that were refused in passing."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer as Client
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.process.long_waits import WAITS
from afl.core.process.stopping import PROCESS_STOP
from afl.core.text.warning_limits import LimitedLog
from afl_stream.kafka.errors import FENCED, Connection, error_of, transport_error
from afl_stream.kafka.topic_ids import TopicChanges, TopicIds
from afl_stream.kafka.waits import LONGEST_CALL_S
from afl_stream.offset_owner import TOPIC_RECREATED, with_topic, without_topic
from afl_stream.outage import broker_at
from afl_stream.transport import (
    BrokerUnavailable,
    CommittedOffset,
    Fenced,
    Stopping,
    TopicPartition,
    TransportError,
    is_another_topic,
)

_log = logging.getLogger(__name__)

#: How long one request may take.
REQUEST_TIMEOUT_S: Final = 10.0
#: Wait before a commit that was refused is tried again.
_AGAIN_S: Final = 1.0
#: Time limit of a look for recreated topics.
_LOOK_S: Final = 1.0


class GroupOffsets:
    """The committed offsets of one member's group. Belongs to the thread of its consumer."""

    def __init__(
        self,
        group: str | None,
        connection: Connection,
        ids: TopicIds,
        monotonic_s: MonotonicClock = monotonic_s,
    ) -> None:
        self._group = group
        self._warnings = LimitedLog(_log)
        self._connection = connection
        self._ids = ids
        self._monotonic_s = monotonic_s
        self._client: Client
        #: The last commit of each assigned partition, and the refused ones among them.
        self._last: dict[TopicPartition, CommittedOffset] = {}
        self._refused: dict[TopicPartition, CommittedOffset] = {}
        self._again_at_s = 0.0
        #: The topic id that each assigned partition is read of; "" where the broker tells none.
        self._id_of: dict[TopicPartition, str] = {}
        #: Partitions of recreated topics: what is committed for them belongs to the earlier topic.
        self._of_another_topic: set[TopicPartition] = set()

    def use(self, client: Client) -> None:
        """Commit through this client, whose `on_commit` is this object's."""
        self._client = client

    def on_commit(self, error: KafkaError | None, tps: Sequence[KafkaPartition]) -> None:
        """Take librdkafka's report of a commit without `wait`."""
        for tp in tps:
            refused = error if error is not None else tp.error
            if refused is None or refused.code() == KafkaError._NO_OFFSET:
                continue
            text = "group %s: a commit for %s[%d] failed: %s"
            self._warnings.warning("commits that failed", text, self._group, tp.topic, tp.partition, refused)
            partition = TopicPartition(tp.topic, tp.partition)
            last = self._last.get(partition)
            if last is not None and last.offset == tp.offset:
                self._refused[partition] = last
                self._again_at_s = self._monotonic_s() + _AGAIN_S

    def commit_again(self) -> None:
        """Retry refused commits of partitions that are still held: a rebalance or an outage ends some time.

        Call this with every read.
        """
        if self._refused and self._monotonic_s() >= self._again_at_s:
            try:
                self.commit(dict(self._refused), wait=False)
            except TransportError as error:
                self._again_at_s = self._monotonic_s() + _AGAIN_S
                _log.debug("group %s: not committed yet: %s", self._group, error)

    def note_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Note that these partitions are assigned, and of which topic ids.

        Commits for them carry the topic's id; commits for an earlier topic of that name do not count. Raises
        BrokerUnavailable.
        """
        if self._group is None or not partitions:
            return
        try:
            ids = self._ids.now({partition.topic for partition in partitions}, REQUEST_TIMEOUT_S)
        except TimeoutError as error:
            raise self._connection.unavailable("the broker does not tell the ids of topics") from error
        except KafkaException as error:
            raise self._reading_error(error_of(error)) from error
        self._id_of.update({partition: ids.get(partition.topic) or "" for partition in partitions})

    def others(self, partitions: Iterable[TopicPartition]) -> TopicChanges:
        """Return which of these partitions' topics are gone or recreated, as far as that is known soon."""
        ids = {partition.topic: known for partition in partitions if (known := self._id_of.get(partition))}
        return self._ids.others({} if self._connection.is_down else ids, _LOOK_S)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that these partitions were revoked."""
        for partition in partitions:
            self._id_of.pop(partition, None)
            self._last.pop(partition, None)
            self._refused.pop(partition, None)

    def note_recreated(self, partitions: Sequence[TopicPartition]) -> None:
        """Log that their topic was recreated: nothing is committed for the new one yet."""
        for topic in sorted({partition.topic for partition in partitions}):
            _log.warning(TOPIC_RECREATED, self._group, topic)
        self._of_another_topic.update(partitions)

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset], *, wait: bool) -> None:
        """Commit. Raises Fenced, BrokerUnavailable, NotAuthorized, UnknownTopic."""
        if self._group is None:
            raise TransportError("a consumer without a group cannot commit")
        tps = [
            KafkaPartition(w.topic, w.partition, at.offset, metadata=with_topic(self._id_of.get(w, ""), at.metadata))
            for w, at in offsets.items()
        ]
        done: list[KafkaPartition] | None = None
        try:
            if wait:
                done = self._client.commit(offsets=tps, asynchronous=False)
            else:
                self._client.commit(offsets=tps, asynchronous=True)
        except KafkaException as error:
            raise self._commit_error(error_of(error), list(offsets)) from error
        for tp in done or ():
            if tp.error is not None:
                raise self._commit_error(tp.error, list(offsets), tp.topic)
        self._last.update(offsets)
        for partition in offsets:
            self._refused.pop(partition, None)
        self._of_another_topic.difference_update(offsets)

    def _commit_error(
        self, error: KafkaError, partitions: Sequence[TopicPartition], topic: str | None = None
    ) -> Exception:
        if error.code() in FENCED:
            return Fenced(partitions)
        if error.code() == KafkaError.REBALANCE_IN_PROGRESS:
            return self._rebalancing()
        return transport_error(error, self._connection.address, topic, self._group)

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets, without commits for an earlier topic of that name.

        Raises BrokerUnavailable, NotAuthorized.
        """
        asked = [partition for partition in partitions if partition not in self._of_another_topic]
        if self._group is None or not asked:
            return {}
        tps = [KafkaPartition(partition.topic, partition.partition) for partition in asked]
        found = self._ask_committed(tps)
        offsets: dict[TopicPartition, CommittedOffset] = {}
        for tp in found:
            if tp.error is not None:
                raise self._reading_error(tp.error, tp.topic)
            if tp.offset >= 0:
                partition = TopicPartition(tp.topic, tp.partition)
                topic_id, metadata = without_topic(tp.metadata or "")
                if self._is_of(partition, topic_id, tp.offset):
                    offsets[partition] = CommittedOffset(offset=tp.offset, metadata=metadata)
        return offsets

    def _ask_committed(self, tps: list[KafkaPartition]) -> list[KafkaPartition]:
        """Ask in short calls, because a call cannot be interrupted: between them a request to stop is noticed."""
        deadline_s = self._monotonic_s() + REQUEST_TIMEOUT_S
        with WAITS.on(f"{broker_at(self._connection.address)}: what group {self._group} has committed"):
            while True:
                if PROCESS_STOP.is_set():
                    raise Stopping(f"what group {self._group} has committed")
                try:
                    return list(self._client.committed(tps, timeout=LONGEST_CALL_S))
                except KafkaException as error:
                    found = error_of(error)
                    if found.code() != KafkaError._TIMED_OUT or self._monotonic_s() >= deadline_s:
                        raise self._reading_error(found) from error

    def _is_of(self, partition: TopicPartition, topic_id: str, offset: int) -> bool:
        """Return whether a commit for a topic of this id is for the topic that exists now."""
        found = self._id_of.get(partition, "")
        if not is_another_topic(topic_id, found):
            return True
        _log.warning(
            "group %s: %s was deleted and recreated; offset %d of partition %d was committed for the earlier one "
            "(id %s), and nothing of this one (id %s) was read",
            self._group, partition.topic, offset, partition.partition, topic_id, found,
        )  # fmt: skip
        return False

    def _reading_error(self, error: KafkaError, topic: str | None = None) -> Exception:
        # Asked between two generations: the next answer is the right one.
        if error.code() in FENCED or error.code() == KafkaError.REBALANCE_IN_PROGRESS:
            return self._rebalancing()
        return transport_error(error, self._connection.address, topic, self._group)

    def _rebalancing(self) -> BrokerUnavailable:
        return BrokerUnavailable(f"{self._connection.address}: group {self._group} is rebalancing")
