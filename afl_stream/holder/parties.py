"""What guests may ask for, at the holder: of a producer, of a consumer, and of an admin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from afl_stream.embedded.transport import EmbeddedAdmin, EmbeddedConsumer, EmbeddedProducer
from afl_stream.holder import contents
from afl_stream.holder.error_forms import error_out
from afl_stream.transport import BrokerUnavailable, TopicPartition, TransportError

#: A request: its head and the bytes behind it; what it returns is sent back.
Action = Callable[[Mapping[str, Any], bytes], tuple[Any, bytes]]

#: How long a consumer waits for records within one request: so soon is a guest missed that has died meanwhile.
LONGEST_WAIT_S: Final = 0.25
#: Most records of one answer.
MOST_RECORDS: Final = 10_000
#: How long the file may take to take a guest's records.
_WRITE_TIMEOUT_S: Final = 30.0


class Party(Protocol):
    """One party's requests, by their names."""

    @property
    def actions(self) -> Mapping[str, Action]: ...


class ProducerParty:
    """Writes a guest's records: an answer says that all of them are on disk, or which are not and why."""

    def __init__(self, producer: EmbeddedProducer) -> None:
        self._producer = producer
        self.actions: Mapping[str, Action] = {"produce": self._produce}

    def _produce(self, head: Mapping[str, Any], body: bytes) -> tuple[Any, bytes]:
        records = contents.new_records_in(head["records"], body)
        outcomes: list[Any] = [None] * len(records)
        for number, record in enumerate(records):

            def settle(error: Exception | None, where: TopicPartition, offset: int, number: int = number) -> None:
                outcomes[number] = [where.partition, offset] if error is None else {"error": error_out(error)}

            try:
                self._producer.produce(
                    record.topic,
                    record.value,
                    key=record.key,
                    headers=record.headers,
                    partition=record.partition,
                    on_delivery=settle,
                )
            except TransportError as error:
                outcomes[number] = {"error": error_out(error)}
        self._producer.flush(_WRITE_TIMEOUT_S)
        late = {"error": error_out(BrokerUnavailable(f"the log took nothing in {_WRITE_TIMEOUT_S:g} s"))}
        return [late if outcome is None else outcome for outcome in outcomes], b""


class AdminParty:
    """Tells of topics and groups, and makes and deletes topics."""

    def __init__(self, admin: EmbeddedAdmin) -> None:
        self._admin = admin
        self.actions: Mapping[str, Action] = {
            "cluster_id": lambda _head, _body: (self._admin.cluster_id(), b""),
            "topic_names": lambda _head, _body: (sorted(self._admin.topic_names()), b""),
            "topics": lambda head, _body: (contents.topics_out(self._admin.topics(head["names"]).values()), b""),
            "groups": lambda head, _body: (contents.groups_out(self._admin.groups(head["names"]).values()), b""),
            "create_topic": self._create_topic,
            "delete_topic": self._delete_topic,
        }

    def _create_topic(self, head: Mapping[str, Any], _body: bytes) -> tuple[Any, bytes]:
        self._admin.create_topic(
            head["name"], partitions=head["partitions"], replication=head["replication"], settings=head["settings"]
        )
        return None, b""

    def _delete_topic(self, head: Mapping[str, Any], _body: bytes) -> tuple[Any, bytes]:
        self._admin.delete_topic(head["name"])
        return None, b""


#: Calls the guest's listener with partitions, and returns what that returns.
Call = Callable[[str, Sequence[Any]], Mapping[str, Any]]


class ConsumerParty:
    """Reads for a guest, which is asked and told at each step of a rebalance."""

    def __init__(self, consumer: EmbeddedConsumer, call: Call) -> None:
        self.consumer = consumer
        self._call = call
        self.actions: Mapping[str, Action] = {
            "subscribe": self._subscribe,
            "assign": self._assign,
            "unassign": self._unassign,
            "consume": self._consume,
            "seek": self._seek,
            "pause": self._pause,
            "resume": self._resume,
            "commit": self._commit,
            "committed": self._committed,
            "position": lambda head, _body: (consumer.position(contents.partition_in(head["partition"])), b""),
            "watermarks": self._watermarks,
            "offsets_for_times": self._offsets_for_times,
            "view": lambda _head, _body: (contents.view_out(consumer.view()), b""),
            "close": self._close,
        }

    # The guest's listener

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        returned = self._call("assigned", contents.partitions_out(partitions))["returns"]
        return None if returned is None else contents.numbers_in(returned)

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._call("revoked", contents.partitions_out(partitions))

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._call("lost", contents.partitions_out(partitions))

    # Its requests

    def _subscribe(self, head: Mapping[str, Any], _body: bytes) -> tuple[Any, bytes]:
        self.consumer.subscribe([str(topic) for topic in head["topics"]], pattern=head["pattern"], listener=self)
        return None, b""

    def _assign(self, head: Mapping[str, Any], _body: bytes) -> tuple[Any, bytes]:
        """Assign, and say where reading begins: a guest goes on there with another holder."""
        starts = contents.starts_in(head["starts"])
        (self.consumer.assign_more if head["more"] else self.consumer.assign)(starts)
        return contents.numbers_out({partition: self.consumer.position(partition) for partition in starts}), b""

    def _unassign(self, head: Mapping[str, Any], _body: bytes) -> tuple[Any, bytes]:
        self.consumer.unassign(contents.partitions_in(head["partitions"]))
        return None, b""

    def _consume(self, head: Mapping[str, Any], _body: bytes) -> tuple[Any, bytes]:
        limit, timeout_s = int(head["max_records"]), float(head["timeout_s"])
        records = self.consumer.consume(min(limit, MOST_RECORDS), min(timeout_s, LONGEST_WAIT_S))
        out = contents.Bytes()
        return contents.records_out(records, out), out.joined()

    def _seek(self, head: Mapping[str, Any], _body: bytes) -> tuple[Any, bytes]:
        self.consumer.seek(contents.partition_in(head["partition"]), int(head["offset"]))
        return None, b""

    def _pause(self, head: Mapping[str, Any], _body: bytes) -> tuple[Any, bytes]:
        self.consumer.pause(contents.partitions_in(head["partitions"]))
        return None, b""

    def _resume(self, head: Mapping[str, Any], _body: bytes) -> tuple[Any, bytes]:
        self.consumer.resume(contents.partitions_in(head["partitions"]))
        return None, b""

    def _close(self, _head: Mapping[str, Any], _body: bytes) -> tuple[Any, bytes]:
        self.consumer.close()
        return None, b""

    def _commit(self, head: Mapping[str, Any], _body: bytes) -> tuple[Any, bytes]:
        self.consumer.commit(contents.committed_in(head["offsets"]), wait=bool(head["wait"]))
        return None, b""

    def _committed(self, head: Mapping[str, Any], _body: bytes) -> tuple[Any, bytes]:
        return contents.committed_out(self.consumer.committed(contents.partitions_in(head["partitions"]))), b""

    def _watermarks(self, head: Mapping[str, Any], _body: bytes) -> tuple[Any, bytes]:
        return contents.bounds_out(self.consumer.watermarks(contents.partition_in(head["partition"]))), b""

    def _offsets_for_times(self, head: Mapping[str, Any], _body: bytes) -> tuple[Any, bytes]:
        return contents.numbers_out(self.consumer.offsets_for_times(contents.numbers_in(head["times"]))), b""
