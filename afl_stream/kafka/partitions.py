"""The partitions that one client reads: where reading begins, where it moves to, and which are paused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException, Message
from confluent_kafka import Consumer as Client
from confluent_kafka import TopicPartition as KafkaPartition

from afl_stream.kafka.errors import error_of
from afl_stream.transport import Start, TopicPartition

#: The log's beginning and its end, in Kafka's words.
LOGICAL: Final = {Start.EARLIEST: OFFSET_BEGINNING, Start.LATEST: OFFSET_END}


def offsets_of(positions: Mapping[TopicPartition, int | Start]) -> dict[TopicPartition, int]:
    """Return where to begin, in Kafka's words."""
    return {partition: LOGICAL[at] if isinstance(at, Start) else at for partition, at in positions.items()}


def kafka_partitions_of(partitions: Iterable[TopicPartition]) -> list[KafkaPartition]:
    """Return the partitions as confluent-kafka names them."""
    return [KafkaPartition(partition.topic, partition.partition) for partition in partitions]


def is_end(message: Message[Any, Any]) -> bool:
    """Return whether a message is not a record but the report of a log's end."""
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF


class Partitions:
    """Assigns partitions to a client. Belongs to the thread of its consumer; raises what the client raises."""

    def __init__(self, client: Client, *, incremental: bool) -> None:
        """Take the client. `incremental`: partitions come and go one by one; else only all of them at once."""
        self._client = client
        self._incremental = incremental
        self.paused: set[TopicPartition] = set()
        #: Where reading of each began, or went on after the last move.
        self._begun: dict[TopicPartition, int] = {}
        #: The log ends that were met since then: behind transaction markers, which are never delivered.
        self._ends: dict[TopicPartition, int] = {}

    def assign_all(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read these partitions and no others, without a group."""
        self._incremental = True
        self._client.assign(
            [KafkaPartition(partition.topic, partition.partition, offset) for partition, offset in starts.items()]
        )
        self._begun, self._ends = {}, {}
        self.resume_assigned(starts)

    def assign_more(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read these partitions too, without a group."""
        self._incremental = True
        if starts:
            self._client.incremental_assign(
                [KafkaPartition(w.topic, w.partition, offset) for w, offset in starts.items()]
            )

    def end(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop reading these partitions, without a group."""
        if partitions:
            self.resume([partition for partition in partitions if partition in self.paused])
            self._client.incremental_unassign(kafka_partitions_of(partitions))

    def assign(self, partitions: Iterable[TopicPartition], starts: Mapping[TopicPartition, int]) -> None:
        """Read the partitions that the group has assigned, from the log's beginning where no start is given."""
        assigned = [KafkaPartition(w.topic, w.partition, starts.get(w, OFFSET_BEGINNING)) for w in partitions]
        if self._incremental:
            self._client.incremental_assign(assigned)
        else:
            self._client.assign(assigned)

    def resume_assigned(self, starts: Mapping[TopicPartition, int]) -> None:
        """Resume these newly assigned partitions: the client would remember that they were paused."""
        self._begun.update(starts)
        self.resume([partition for partition in starts if partition in self.paused])

    def move(self, partition: TopicPartition, offset: int) -> None:
        """Continue at another offset."""
        try:
            self._client.seek(KafkaPartition(partition.topic, partition.partition, offset))
        except KafkaException as error:
            if error_of(error).code() != KafkaError._STATE:
                raise
            self._restart(partition, offset)
        self._begun[partition] = offset
        self._ends.pop(partition, None)

    def _restart(self, partition: TopicPartition, offset: int) -> None:
        """Assign a partition again that is not being read: its reading has not begun, or an error ended it."""
        assigned = [KafkaPartition(partition.topic, partition.partition, offset)]
        if self._incremental:
            self._client.incremental_unassign(kafka_partitions_of([partition]))
            self._client.incremental_assign(assigned)
            return
        # The group takes an assignment as a whole only; the others continue where they are.
        others = [tp for tp in self._client.assignment() if (tp.topic, tp.partition) != partition]
        for other in self._client.position(others) if others else ():
            topic_partition = TopicPartition(other.topic, other.partition)
            # Without a position nothing was read since it began, or since it was moved.
            next_offset = other.offset if other.offset >= 0 else self._begun.get(topic_partition, OFFSET_BEGINNING)
            assigned.append(KafkaPartition(topic_partition.topic, topic_partition.partition, next_offset))
        self._client.assign(assigned)

    def position(self, partition: TopicPartition) -> int:
        """Return the offset behind the last delivered record, or behind the log's end if that was met since the last
        move.

        Below 0 when neither has happened.
        """
        return max(self._client.position(kafka_partitions_of([partition]))[0].offset, self._ends.get(partition, -1))

    def note_end(self, end: Message[Any, Any]) -> None:
        """Note that the end of a log was met: all records before it were delivered."""
        partition = TopicPartition(end.topic() or "", end.partition())  # type: ignore[arg-type]  # an end is of a partition
        self._ends[partition] = end.offset() or 0

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Deliver nothing of these partitions until `resume`."""
        if partitions:
            self._client.pause(kafka_partitions_of(partitions))
            self.paused.update(partitions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            self._client.resume(kafka_partitions_of(partitions))
            self.paused.difference_update(partitions)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that these partitions are no longer read."""
        for partition in partitions:
            self._begun.pop(partition, None)
            self._ends.pop(partition, None)
