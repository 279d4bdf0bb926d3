"""The offsets where reading continues: the store's positions, compared with the logs that the broker has now.

A stored position belongs to one cluster, one topic (by id, not only by name) and one partition. A position that no
longer fits raises an error that names the lost range, unless the operator has chosen to continue without it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from afl.engine.model.store import Batch, Position, PositionMove
from afl.stores.public.persistence import EngineStore
from afl_stream.errors import StreamError
from afl_stream.settings.store_files import is_of_embedded_log
from afl_stream.transport import (
    Admin,
    BrokerUnavailable,
    Consumer,
    Record,
    TopicPartition,
    UnknownTopic,
    Watermarks,
    WrongCluster,
    is_another_topic,
)

_log = logging.getLogger(__name__)

#: How an operator gives lost records up. The last of the remedies, because it cannot be undone.
CONTINUE_WITHOUT = (
    'Only to give the records up: evaluator.lost_records = "continue" (AFL_EVALUATOR_LOST_RECORDS=continue) '
    "continues from the log's beginning"
)


class RecordsLost(StreamError):
    """Reading cannot continue where the store left off. `fact` says in words what was found."""

    #: What to check before records are given up.
    _look_first = "Check that this store and this cluster belong together (afl-stream config shows both)"

    def __init__(self, partition: TopicPartition, position: int, fact: str) -> None:
        said = f"{partition.topic}[{partition.partition}]: {fact}; nothing was skipped"
        super().__init__(f"{said}. {self._look_first}. {CONTINUE_WITHOUT}")
        self.partition, self.position, self.fact = partition, position, fact


class StoredOffsetOutOfRange(RecordsLost):
    """The stored position is out of range: records between it and the log are lost, or this is another log."""

    def __init__(self, partition: TopicPartition, position: int, low: int, high: int) -> None:
        if position < low:
            lost = f"records {position} to {low - 1} are gone: retention was faster, or they were deleted"
        else:
            lost = f"the log ends at {high}: its end was lost, or the topic was deleted and recreated"
        super().__init__(partition, position, f"the store has read up to {position}, but {lost}")
        self.low, self.high = low, high


class TopicRecreated(RecordsLost):
    """The topic was recreated since the store has read from it."""

    def __init__(self, partition: TopicPartition, position: int, earlier_id: str, found_id: str) -> None:
        super().__init__(
            partition,
            position,
            f"the topic was deleted and recreated; of the earlier one (id {earlier_id}) the store has read up to "
            f"{position}, and what came after that is gone; of this one (id {found_id}) nothing was read",
        )
        self.earlier_id, self.found_id = earlier_id, found_id


_OWN_STORE: Final = "leave store.path and store.url out, or name another store there"
#: The remedy for a store of another log: by whether that log, and whether this log is an embedded one.
_REMEDIES: Final = {
    (True, False): (
        f"The embedded log is that of `afl-stream dev`, and a cluster needs a store of its own: {_OWN_STORE}."
    ),
    (False, True): (
        "If the cluster is meant, name it: --bootstrap or AFL_KAFKA_BOOTSTRAP. The embedded log needs a store of its "
        f"own: {_OWN_STORE}."
    ),
    (True, True): (
        "A recreated embedded log is another log: log and store belong together. Put the log of this store back, or "
        "move this store away, too, with its runs; or name another one (store.path)."
    ),
    (False, False): (
        "Connect to that cluster (kafka.bootstrap). If it is gone for good, move this store away, with its runs; if "
        "both clusters are at work, name a store for each (store.path, store.url)."
    ),
}


def _log_or_cluster(is_embedded: bool) -> str:
    return "the embedded log" if is_embedded else "cluster"


def ends_of(records: Iterable[Record]) -> dict[TopicPartition, int]:
    """Return the offsets behind these records; the last one of each partition counts."""
    return {record.topic_partition: record.offset + 1 for record in records}


class StoredOffsets:
    """The positions of the partitions that one control loop owns."""

    def __init__(self, store: EngineStore, admin: Admin, cluster_id: str, *, continues_past_lost: bool) -> None:
        """Take the store and the broker.

        `continues_past_lost`: lost records are logged and reading continues at the log's beginning; else they are an
        error.
        """
        self._store = store
        self._admin = admin
        self._cluster_id = cluster_id
        self._continues_past_lost = continues_past_lost
        self._positions: dict[TopicPartition, Position] = {}
        #: The next offset to read, as the store has it.
        self._next: dict[TopicPartition, int] = {}
        #: Where the log ended when the partition was last taken.
        self._ends: dict[TopicPartition, int] = {}

    def check_cluster(self) -> None:
        """Raise WrongCluster when the store has read only another cluster, unless lost records are allowed."""
        positions = sorted(self._store.positions())
        if (
            not positions
            or self._continues_past_lost
            or any(position.cluster_id == self._cluster_id for position in positions)
        ):
            return
        other = positions[-1]
        is_other_embedded, is_embedded = is_of_embedded_log(other.topic_id), self._admin.broker_count() is None
        raise WrongCluster(
            other.cluster_id,
            self._cluster_id,
            f"the store {self._store.location()}",
            f"{_REMEDIES[is_other_embedded, is_embedded]} {CONTINUE_WITHOUT}",
            what_expected=_log_or_cluster(is_other_embedded),
            what_found=_log_or_cluster(is_embedded),
        )

    def take(self, partitions: Sequence[TopicPartition], consumer: Consumer) -> dict[TopicPartition, int]:
        """Take over assigned partitions, and return where to read each of them from.

        In this order:
          1. compare what the store has with the broker's topics and logs,
          2. write in one commit what is new to the store: where a partition begins, which topic a position is of.

        A crash between them leaves it to the next owner. From 2 on, a recreated topic, and records that are deleted
        before they were read, are noticed even if this owner reads nothing.

        Raises TopicRecreated, StoredOffsetOutOfRange, UnknownTopic, BrokerUnavailable, and PositionLost when another
        owner was faster.
        """
        topics = self._admin.topics({partition.topic for partition in partitions})
        stored = self._store.positions()
        moves: dict[TopicPartition, PositionMove] = {}
        for partition in partitions:
            found = topics.get(partition.topic)
            if found is None:
                raise UnknownTopic(partition.topic)
            position = Position(self._cluster_id, *partition, found.topic_id)
            bounds = _bounds_of_listed(consumer, partition)
            self._ends[partition] = bounds.high
            moves[partition] = self._continued(partition, position, stored, bounds)
        new_moves = [move for move in moves.values() if move.replaces is not None or move.next_offset != move.expected]
        if new_moves:
            self._store.commit_batch(Batch(positions=new_moves))
        for partition, move in moves.items():
            self._positions[partition], self._next[partition] = move.position, move.next_offset
        return {partition: self._next[partition] for partition in partitions}

    def ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where the logs of these partitions ended when they were last taken."""
        return {partition: self._ends[partition] for partition in partitions if partition in self._ends}

    def _continued(
        self, partition: TopicPartition, position: Position, stored: Mapping[Position, int], bounds: Watermarks
    ) -> PositionMove:
        """Return how reading continues there, as a move from the stored position to the start."""
        known = {p: n for p, n in stored.items() if p[:3] == position[:3]}
        if position not in known and not position.topic_id and len(known) == 1:
            # The broker tells no ids (any more): the name has to do.
            (position,) = known
        earlier = max((p for p in known if p.topic_id), key=known.__getitem__, default=None)
        unknown = position._replace(topic_id="")
        if position in known:
            before = position
        elif earlier is not None:
            self._report(TopicRecreated(partition, known[earlier], earlier.topic_id, position.topic_id), bounds)
            return PositionMove(position=position, expected=known[earlier], next_offset=bounds.low, replaces=earlier)
        elif unknown in known:
            before = unknown
        else:
            self._report_other_clusters(partition, stored, bounds)
            return PositionMove(position=position, expected=None, next_offset=bounds.low)
        next_offset = known[before]
        if not bounds.low <= next_offset <= bounds.high:
            self._report(StoredOffsetOutOfRange(partition, next_offset, bounds.low, bounds.high), bounds)
            next_offset = bounds.low
        replaces = None if before == position else before
        return PositionMove(position=position, expected=known[before], next_offset=next_offset, replaces=replaces)

    def _report(self, error: RecordsLost, bounds: Watermarks) -> None:
        """Raise the error, or log it if reading continues without lost records."""
        if not self._continues_past_lost:
            raise error
        partition = error.partition
        _log.error(
            "%s[%d]: %s; continuing at offset %d, the log's beginning, as evaluator.lost_records says",
            *partition,
            error.fact,
            bounds.low,
        )

    def _report_other_clusters(
        self, partition: TopicPartition, stored: Mapping[Position, int], bounds: Watermarks
    ) -> None:
        for position, next_offset in sorted(stored.items()):
            if position.cluster_id != self._cluster_id and position[1:3] == partition:
                _log.error(
                    "%s[%d]: the store has read cluster %s up to %d, and what came after that there is not read; "
                    "continuing in cluster %s at offset %d, as evaluator.lost_records says",
                    *partition,
                    position.cluster_id,
                    next_offset,
                    self._cluster_id,
                    bounds.low,
                )

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop revoked partitions."""
        for partition in partitions:
            self._positions.pop(partition, None)
            self._next.pop(partition, None)

    def owned(self) -> list[TopicPartition]:
        """Return the owned partitions in order."""
        return sorted(self._next)

    def of_topic(self, topic: str) -> list[TopicPartition]:
        """Return the owned partitions of one topic."""
        return [partition for partition in self.owned() if partition.topic == topic]

    def next_offset(self, partition: TopicPartition) -> int | None:
        """Return the offset of the next record to handle; None: the partition is not ours."""
        return self._next.get(partition)

    def is_recreated(self, topic: str) -> bool:
        """Return whether the topic was recreated since this reader began, or may have been."""
        found = self._admin.topics([topic]).get(topic)
        if found is None or not found.topic_id:
            return False
        held = {self._positions[partition].topic_id for partition in self.of_topic(topic)}
        # If the earlier topic was unknown, taking the partition again tells.
        return any(not known or is_another_topic(known, found.topic_id) for known in held)

    def moves(self, ends: Mapping[TopicPartition, int]) -> list[PositionMove]:
        """Return the moves to these next offsets, for the batch that has handled the records before them."""
        return [
            PositionMove(position=self._positions[partition], expected=self._next[partition], next_offset=next_offset)
            for partition, next_offset in ends.items()
        ]

    def moved(self, ends: Mapping[TopicPartition, int]) -> None:
        """Note that the moves are in the store. Partitions that were revoked meanwhile stay dropped."""
        for partition, next_offset in ends.items():
            if partition in self._next:
                self._next[partition] = next_offset


def _bounds_of_listed(consumer: Consumer, partition: TopicPartition) -> Watermarks:
    """Return the bounds of a partition whose topic the broker has just listed. Raises BrokerUnavailable.

    A broker that starts or stops may know a topic one moment and not the next, and brokers may disagree: one lists it,
    and another, asked for its description, does not know it yet. If it was deleted in between, the next look does not
    list it.
    """
    try:
        return consumer.watermarks(partition)
    except UnknownTopic as error:
        raise BrokerUnavailable(f"topic {partition.topic} is listed, and its bounds are not known: {error}") from error
