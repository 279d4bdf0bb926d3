"""The transport port: what the loop needs of a log of records, whichever broker keeps it.

Three adapters keep one contract suite (tests/contract/transport_contract.py): embedded (in process), its guests, and
Kafka. Threading: any thread may use a `Producer` and an `Admin`; a `Consumer` belongs to the thread that polls it, and
its callbacks (assignment, revocation) run inside `poll`, `consume` and `close` on that thread.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple, Protocol, runtime_checkable

from afl.core.errors import AFLError
from afl.core.process.stopping import PROCESS_STOP, Stop

#: How often a flush that waits checks for a request to stop.
_FLUSH_SLICE_S: Final = 0.2

#: A header's value may be null.
Headers = tuple[tuple[str, bytes | None], ...]


class UnreadableHeaders(tuple[tuple[str, bytes | None], ...]):
    """Empty headers in place of those that the client library cannot decode.

    A header's name is any bytes on the wire, and text in every client. The record itself is read like any other; its
    decoder finds it unreadable.
    """

    __slots__ = ()


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class Record(NamedTuple):
    """One record as it was read: `offset` is its place in the partition, `timestamp_ms` since the epoch."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int = 0

    @property
    def topic_partition(self) -> TopicPartition:
        return _partition_of(self.topic, self.partition)


#: A process reads few partitions, and each record is asked for its own.
_partition_of: Final = lru_cache(maxsize=10_000)(TopicPartition)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """A group's committed position: the next offset to read, and the text that travels with it."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermarks:
    """A partition's bounds: the first offset still there, and the offset that the next record gets."""

    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    """The broker's reports to a reader besides records, without a wait.

    `bounds`: of the assigned partitions, as last reported; `is_reported`: whether there was any report since the first
    question. `unfetched`: the number of records of unpaused partitions that no reply to a fetch has reported yet, and
    `most_unfetched`: where most of them are, in words. `unanswered_s`: for how long the broker owes an answer.
    """

    bounds: Mapping[TopicPartition, Watermarks] = field(default_factory=dict)
    is_reported: bool = False
    unfetched: int = 0
    most_unfetched: str = ""
    unanswered_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic as the broker describes it; `settings` are the topic's own (retention.ms, cleanup.policy, ...).

    `topic_id` changes when a topic is deleted and recreated under the same name; "": the broker tells no id.
    """

    name: str
    partitions: int
    replication: int = 1
    settings: Mapping[str, str]
    topic_id: str = ""


def is_another_topic(known_id: str, found_id: str) -> bool:
    """Return whether a topic was deleted and recreated under its name. An unknown id, "", decides nothing."""
    return bool(known_id and found_id) and known_id != found_id


class Assignor(StrEnum):
    """The assignment of a group's partitions.

    RANGE gives one member the same partition of each co-partitioned topic.
    """

    RANGE = "range"
    COOPERATIVE_STICKY = "cooperative-sticky"


class Start(StrEnum):
    """The start of a group without a committed offset."""

    EARLIEST = "earliest"
    LATEST = "latest"


#: Called with the error (None: the record is durable) and where the record stands (-1 when it failed).
DeliveryCallback = Callable[[Exception | None, TopicPartition, int], None]


@runtime_checkable
class RebalanceListener(Protocol):
    """The callbacks of a consumer's owner for a rebalance. They run inside the consumer's own calls."""

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """Take assigned partitions; return the offsets to start from. Others start at their committed offset."""

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Give up partitions that are about to be revoked: they are still ours, offsets may be committed."""

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Drop lost partitions (fenced, or their topic was deleted): nothing may be committed for them.

        Those of a recreated topic are assigned again at once, as partitions of another topic.
        """


class Producer(Protocol):
    """A port that writes records: idempotent, acknowledged by all replicas."""

    def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> None:
        """Queue a record; its partition is murmur2 of the key unless one is named, round robin without a key.

        Raises UnknownTopic when the topic does not exist, RecordTooLarge when the record exceeds the topic's limit,
        QueueFull when the local queue has no room (call `poll`, try again).
        """

    def poll(self, timeout_s: float = 0.0) -> int:
        """Run the callbacks of finished deliveries, and return how many ran."""

    def flush(self, timeout_s: float) -> int:
        """Wait until all queued records are delivered or failed; return how many are still queued."""

    def close(self) -> None: ...


class Consumer(Protocol):
    """A port that reads records as a member of a group, or without one."""

    def subscribe(
        self, topics: Sequence[str], *, pattern: str | None = None, listener: RebalanceListener | None = None
    ) -> None:
        """Join the group for these topics, or for all topics that the regular expression `pattern` matches.

        It matches from the first character on; new topics are found while running.
        """

    def assign(self, positions: Mapping[TopicPartition, int | Start]) -> None:
        """Read these partitions and no others, without a group.

        Each starts at its offset, or where the log begins or ends at the time of the first fetch.
        """

    def assign_more(self, positions: Mapping[TopicPartition, int | Start]) -> None:
        """Read these partitions too, without a group; partitions that are read already continue where they are.

        One that is named and read already starts again where it is told to.
        """

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop reading these partitions, without a group. Their pauses are forgotten."""

    def poll(self, timeout_s: float) -> Record | None:
        """Return the next record, or None after `timeout_s`.

        Raises OffsetOutOfRange, BrokerUnavailable, and UnknownTopic once for a subscribed topic that does not exist;
        maybe also for one that a pattern had found.
        """

    def consume(self, max_records: int, timeout_s: float) -> list[Record]:
        """Wait up to `timeout_s` for one record, then return what is there, at most `max_records`.

        The records of a partition are in the order of their offsets.
        """

    def assignment(self) -> frozenset[TopicPartition]: ...

    def seek(self, partition: TopicPartition, offset: int) -> None: ...

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Deliver nothing of these partitions until `resume`; membership and position stay.

        A rebalance that revokes a partition forgets its pause.
        """

    def resume(self, partitions: Sequence[TopicPartition]) -> None: ...

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset], *, wait: bool = False) -> None:
        """Commit. Raises Fenced when this member has lost one of them (with `wait`; else on_lost reports it)."""

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """Return the group's committed offsets; partitions without one are left out.

        So are commits for an earlier topic of the name, as far as these partitions are this member's.
        """

    def watermarks(self, partition: TopicPartition) -> Watermarks: ...

    def offsets_for_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the offset of each partition's first record that is not older than the time, ms since the epoch.

        Where there is none, the offset that the next record gets. Raises UnknownTopic, BrokerUnavailable.
        """

    def position(self, partition: TopicPartition) -> int:
        """Return the next offset to read: behind what was delivered, and at the log's end behind markers too.

        Markers end transactions and are not delivered. Below 0 when nothing was delivered and no end was met since
        reading began.
        """

    def view(self) -> BrokerView:
        """Return the broker's reports on the assigned partitions; asks again regularly, never waits, raises nothing."""

    def close(self) -> None:
        """Leave the group (on_revoked runs for what is held) and release everything."""


class Admin(Protocol):
    """A port to topics and the cluster."""

    def cluster_id(self) -> str:
        """Return the cluster's id: positions in the store belong to one cluster. Raises BrokerUnavailable."""

    def broker_count(self) -> int | None:
        """Return how many brokers can hold copies of a topic now; None when topics have no copies.

        Raises BrokerUnavailable.
        """

    def topic_names(self) -> frozenset[str]:
        """Return the names of all topics, in one request. Raises BrokerUnavailable."""

    def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        """Return the topics of these names that exist, or all topics. Raises BrokerUnavailable."""

    def create_topic(
        self, name: str, *, partitions: int, replication: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic. Raises TopicExists."""

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises UnknownTopic."""


class Transport(Protocol):
    """A port to one cluster, as one process sees it."""

    def producer(self) -> Producer: ...

    def consumer(
        self,
        group: str | None,
        *,
        client_id: str = "",
        assignor: Assignor = Assignor.COOPERATIVE_STICKY,
        start: Start = Start.EARLIEST,
    ) -> Consumer:
        """Return a new consumer; without a group only `assign` is allowed and nothing can be committed."""

    def admin(self) -> Admin: ...

    def close(self) -> None: ...


class TransportError(AFLError):
    """Something the transport could not do."""


class UnknownTopic(TransportError):
    """A topic does not exist."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"topic {topic} does not exist; `afl-stream topics plan` shows what is missing, `apply` creates it"
        )
        self.topic = topic


class TopicExists(TransportError):
    """A topic of this name exists already."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic} already exists")
        self.topic = topic


class RecordTooLarge(TransportError):
    """A record exceeds the limit of its topic."""

    def __init__(self, topic: str, size: int, limit: int | None = None) -> None:
        """Build the message. `limit` None: the broker says only that the record is too large."""
        over = "over what the topic takes" if limit is None else f"over the topic's limit of {limit:,} bytes"
        super().__init__(f"a record of {size:,} bytes for {topic} is {over}")
        self.topic, self.size, self.limit = topic, size, limit


class QueueFull(TransportError):
    """The producer's local queue has no room until deliveries finish."""


class BrokerUnavailable(TransportError):
    """No broker answers right now; the call may succeed later."""


class Stopping(BrokerUnavailable):
    """The process was told to end, so it no longer waits for a broker's answer."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is not waited for: the process was told to end")


class NotAuthorized(TransportError):
    """The broker does not allow this user an operation on a `resource`; `needs` is the right, where that is known."""

    def __init__(self, resource: str, detail: str, needs: str = "") -> None:
        needed = needs and f": {needs} on {resource}"
        super().__init__(f"not allowed: {resource} ({detail}); an ACL for this user is missing{needed}")
        self.resource = resource


class AuthenticationFailed(TransportError):
    """The broker refuses the credentials, or the mechanism."""

    def __init__(self, address: str, detail: str) -> None:
        super().__init__(f"{address} refuses the credentials: {detail}; see the settings security.protocol and sasl.*")
        self.address = address


class BrokerTooOld(TransportError):
    """The broker lacks a feature that is needed."""

    def __init__(self, address: str, lacking: str, remedy: str) -> None:
        super().__init__(f"the broker at {address} is too old: {lacking}; {remedy}")
        self.address = address


class WrongCluster(TransportError):
    """The cluster is another one than expected. `where` says who expects it, `what_...` what kind of cluster it is."""

    def __init__(
        self,
        expected: str,
        found: str,
        where: str,
        remedy: str = "",
        *,
        what_expected: str = "cluster",
        what_found: str = "cluster",
    ) -> None:
        said = f"{where} belongs to {what_expected} {expected}, and this is {what_found} {found}; nothing was read"
        super().__init__(f"{said}. {remedy}" if remedy else said)
        self.expected, self.found = expected, found


#: Errors that waiting does not overcome: the caller stops and reports them.
REFUSALS = (NotAuthorized, AuthenticationFailed, BrokerTooOld, WrongCluster)


class OffsetOutOfRange(TransportError):
    """A position is out of range: records between it and the log were lost, or it is another log."""

    def __init__(self, partition: TopicPartition, offset: int, bounds: Watermarks) -> None:
        super().__init__(
            f"{partition.topic}[{partition.partition}]: position {offset} is out of range: the log holds "
            f"{bounds.low} to {bounds.high}"
        )
        self.partition, self.offset, self.bounds = partition, offset, bounds


class Fenced(TransportError):
    """A member committed for partitions that it does not own any more."""

    def __init__(self, partitions: Sequence[TopicPartition]) -> None:
        listing = ", ".join(f"{p.topic}[{p.partition}]" for p in partitions)
        super().__init__(f"no longer the owner of {listing}")
        self.partitions = tuple(partitions)


def flush_unless_stopped(producer: Producer, timeout_s: float, stop: Stop = PROCESS_STOP) -> int:
    """Wait until all records are delivered or failed, or the process is told to end; return how many are queued."""
    deadline_s = time.monotonic() + timeout_s
    while (remaining_s := deadline_s - time.monotonic()) > 0 and not stop.is_set():
        if not (left := producer.flush(min(remaining_s, _FLUSH_SLICE_S))):
            return left
    return producer.flush(0)


def produce_acknowledged(
    producer: Producer, topic: str, value: bytes, *, key: bytes, headers: Headers = (), timeout_s: float
) -> None:
    """Produce one record and return when it is acknowledged.

    Raises BrokerUnavailable when that takes too long, and the error that the delivery failed with.
    """
    outcome: list[Exception | None] = []
    producer.produce(
        topic, value, key=key, headers=headers, on_delivery=lambda error, _where, _offset: outcome.append(error)
    )
    flush_unless_stopped(producer, timeout_s)
    if not outcome:
        if PROCESS_STOP.is_set():
            raise BrokerUnavailable(f"{topic}: no acknowledgement before the process was told to end")
        raise BrokerUnavailable(f"{topic}: no acknowledgement in {timeout_s:g} s")
    if outcome[0] is not None:
        raise outcome[0]
