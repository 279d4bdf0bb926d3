"""The partitions of an audit without a group: all of them, also those of topics that are created later."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from afl.core.clock import MonotonicClock
from afl_stream.acls import not_listed
from afl_stream.audit.followed_topics import FollowedTopics
from afl_stream.transport import Admin, Consumer, Record, Start, TopicDescription, TopicPartition, is_another_topic

log = logging.getLogger(__name__)

#: How often the names of topics are asked for. A new facet is followed within this time.
NAMES_INTERVAL_S: Final = 2.0
#: How often known topics are described: partitions may be added, and a topic deleted and recreated.
DESCRIPTIONS_INTERVAL_S: Final = 10.0
#: Consecutive looks without a topic after which it is gone: one broker may not know it yet.
LOOKS_THAT_MISS: Final = 2


class OwnAssignment:
    """Assigns every partition of the audited topics to one consumer, without a group: nothing is committed.

    The first look begins where it is told to; a topic that appears later is read from its first record. Belongs to the
    consumer's thread.
    """

    def __init__(
        self,
        admin: Admin,
        consumer: Consumer,
        followed: FollowedTopics,
        start: Start | int,
        clock_s: MonotonicClock,
    ) -> None:
        """Prepare the first look.

        A `start` that is a number is a time, in ms since the epoch.
        """
        self._admin = admin
        self._consumer = consumer
        self._followed = followed
        self._start = start
        self._clock_s = clock_s
        self._topics: dict[str, TopicDescription] = {}
        #: Topics that are not there now, with how often in a row they were missed.
        self._missed: dict[str, int] = {}
        #: The next offset of each partition that has been read.
        self._next: dict[TopicPartition, int] = {}
        self._names_at_s = self._descriptions_at_s = clock_s()

    def note(self, records: Iterable[Record]) -> None:
        """Remember the offsets behind these records."""
        for record in records:
            self._next[record.topic_partition] = record.offset + 1

    def look_soon(self, missing: str | None = None) -> None:
        """Check all topics at the next call: something has happened to a topic, or the broker does not know it."""
        self._names_at_s = self._descriptions_at_s = self._clock_s()
        if missing in self._topics:
            self._missed[missing] = LOOKS_THAT_MISS - 1

    def look_when_due(self) -> frozenset[TopicPartition]:
        """Follow the topics that exist now; return the partitions whose topic is gone or was recreated.

        Raises TopicMissing for a required topic that is gone, and what the transport raises.
        """
        now_s = self._clock_s()
        if now_s < self._names_at_s:
            return frozenset()
        names = {name for name in self._admin.topic_names() if name in self._followed}
        ended = self._leave_missing(names)
        if now_s >= self._descriptions_at_s:
            wanted: Collection[str] = names
            self._descriptions_at_s = now_s + DESCRIPTIONS_INTERVAL_S
        else:
            wanted = names - self._topics.keys()
        if wanted:
            ended |= self._follow(self._admin.topics(wanted))
        self._start = Start.EARLIEST
        self._names_at_s = now_s + NAMES_INTERVAL_S
        return frozenset(ended)

    def _leave_missing(self, names: Collection[str]) -> set[TopicPartition]:
        self._missed = {topic: self._missed.get(topic, 0) + 1 for topic in self._topics if topic not in names}
        gone = [topic for topic, looks in self._missed.items() if looks >= LOOKS_THAT_MISS]
        left: set[TopicPartition] = set()
        for topic in gone:
            if topic in self._followed.required:
                raise not_listed(self._admin, topic, "the audit", "--role audit")
            log.warning("topic %s does not exist any more; the audit continues without it", topic)
            del self._missed[topic]
            left |= self._drop(topic)
        return left

    def _drop(self, topic: str) -> set[TopicPartition]:
        del self._topics[topic]
        partitions = {partition for partition in self._consumer.assignment() if partition.topic == topic}
        self._consumer.unassign(sorted(partitions))
        return partitions

    def _follow(self, described: Mapping[str, TopicDescription]) -> set[TopicPartition]:
        changed: set[TopicPartition] = set()
        for topic, found in described.items():
            known = self._topics.get(topic)
            if known is not None and is_another_topic(known.topic_id, found.topic_id):
                log.warning("topic %s was deleted and recreated; the audit starts at its first record", topic)
                changed |= self._drop(topic)
                for partition in changed:
                    self._next.pop(partition, None)
                known = None
            first_new = 0 if known is None else known.partitions
            new = [TopicPartition(topic, number) for number in range(first_new, found.partitions)]
            self._consumer.assign_more(self._starts(new))
            topic_id = found.topic_id or ("" if known is None else known.topic_id)
            self._topics[topic] = replace(found, topic_id=topic_id)
        return changed

    def _starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | Start]:
        """Return where to begin: behind what was read before, else at the start that was asked for."""
        start = self._start
        starts: dict[TopicPartition, int | Start] = {p: self._next[p] for p in partitions if p in self._next}
        new = [partition for partition in partitions if partition not in starts]
        if isinstance(start, Start):
            starts.update(dict.fromkeys(new, start))
        elif new:
            starts.update(self._consumer.offsets_for_times(dict.fromkeys(new, start)))
        return starts
