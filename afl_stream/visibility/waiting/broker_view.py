"""What a broker tells of one run: where its events are, who reads them, and what lies unread or dead-lettered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from afl.core.clock import epoch_ms
from afl.core.errors import AFLError
from afl_stream.dead_letters.desk import DeadLetters
from afl_stream.dead_letters.letters import DeadLetter, LetterFilter
from afl_stream.group_members import DescribesGroups, GroupView
from afl_stream.partitioner import partition_for
from afl_stream.presence.listing import read_presence
from afl_stream.presence.records import FailedTry, Presence
from afl_stream.programs.definitions import Definitions
from afl_stream.reading.log_ranges import read_ranges
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declared import Topology
from afl_stream.transport import Record, TopicPartition, Transport, Watermarks
from afl_stream.wire.messages import Event, Message, StartWorkflow, StepContinue, StepFailed, StepUpdate

T = TypeVar("T")

#: How long reading one topic may take; and the most records of a partition that are looked through, newest first.
_READ_S: Final = 5.0
_MOST_RECORDS: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPlace:
    """The place of an event on its topic, and how far its group is.

    `offset` None: no such event is there. `committed` is the group's next unfinished offset, `end` the topic's next.
    """

    partition: TopicPartition
    offset: int | None
    committed: int
    end: int

    @property
    def lag(self) -> int:
        """Return how many offsets of the partition the group has not finished."""
        return max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """The records of a partition that the evaluators have not applied: how many offsets, and those of the run."""

    partition: TopicPartition
    behind: int
    found: tuple[tuple[int, Message], ...]


class BrokerView:
    """Asks one broker, and keeps going: what cannot be found out is noted in `unknown`. Close it after use."""

    def __init__(self, config: StreamConfig, transport: Transport) -> None:
        self._config = config
        self._transport = transport
        self.topology = Topology(config)
        self._schemas = DeploymentCodec(config, transport, self.topology)
        self.codec = self._schemas.codec
        self.definitions = Definitions(transport, self.codec, self.topology.definitions())
        #: What could not be found out, and why.
        self.unknown: list[str] = []
        self._groups: dict[str, GroupView | None] = {}
        self._failed_tries: dict[str, list[tuple[Presence, FailedTry]]] | None = None

    def close(self) -> None:
        """Release what the view has opened; the transport is the caller's."""
        self.definitions.close()
        self._schemas.close()

    def asked(self, what: str, question: Callable[[], T]) -> T | None:
        """Return the answer to a question; where the broker has none, note that, and return None."""
        try:
            return question()
        except AFLError as error:
            note = f"{what} could not be found out: {error}"
            if note not in self.unknown:
                self.unknown.append(note)
            return None

    # --- topics and groups --------------------------------------------------------------------------------------

    def partitions_of(self, topic: str) -> int:
        """Return how many partitions a topic has; 0: there is no such topic. Raises BrokerUnavailable."""
        found = self._transport.admin().topics([topic]).get(topic)
        return 0 if found is None else found.partitions

    def group(self, name: str) -> GroupView | None:
        """Return a group with its members; None where the broker does not tell."""
        if name not in self._groups:
            admin = self._transport.admin()
            found = None
            if isinstance(admin, DescribesGroups):
                found = self.asked(f"members of group {name}", lambda: admin.groups([name]).get(name))
            self._groups[name] = found
        return self._groups[name]

    def readers_of(self, topic: str, *, but: str) -> list[GroupView]:
        """Return the other groups whose members have partitions of a topic, and may do its work: audits do none."""
        admin = self._transport.admin()
        if not isinstance(admin, DescribesGroups):
            return []
        found = self.asked("other groups", admin.groups) or {}
        audit = f"{self._config.prefix}audit"
        return [
            view
            for name, view in sorted(found.items())
            if name not in (but, audit) and not name.startswith(f"{audit}.") and view.readers_of(topic)
        ]

    def failed_try(self, step_id: str, attempt: int) -> tuple[Presence, FailedTry] | None:
        """Return the last failed try at the event of a step's attempt that an agent announces, and that agent.

        Raises what reading the topic of presence raises.
        """
        if self._failed_tries is None:
            self._failed_tries = {}
            now_ms = epoch_ms()
            for member in read_presence(self._transport, self.topology.presence()):
                for failed in () if member.is_gone(now_ms) else member.retrying:
                    self._failed_tries.setdefault(failed.step_id, []).append((member, failed))
        found = [entry for entry in self._failed_tries.get(step_id, ()) if entry[1].attempt == attempt]
        return max(found, key=lambda entry: entry[1].failed_at, default=None)

    # --- records ------------------------------------------------------------------------------------------------

    def event_place(self, facet: str, step_id: str, attempt: int, group: str) -> EventPlace | None:
        """Return where the event of a step's attempt is; None where its topic does not exist. Raises what reading
        raises.
        """
        topic = self.topology.facet(facet)
        count = self.partitions_of(topic)
        if not count:
            return None
        partition = TopicPartition(topic, partition_for(step_id.encode(), count))
        bounds, committed = self._bounds(partition), self._committed(group, partition)
        offset = None
        for record in self._records(partition, bounds):
            message = self._message(record) if record.key == step_id.encode() else None
            if isinstance(message, Event) and message.attempt == attempt:
                offset = record.offset
        return EventPlace(
            partition=partition,
            offset=offset,
            committed=bounds.low if committed is None else committed,
            end=bounds.high,
        )

    def unread(self, topic: str, workflow_id: str, positions: Mapping[TopicPartition, int] | None) -> Unread:
        """Return what of a run lies on its partition of control, commands or external and is not applied yet.

        `positions` are the store's; None: the group's committed offsets, which follow them.
        """
        count = self.partitions_of(topic)
        partition = TopicPartition(topic, partition_for(workflow_id.encode(), max(count, 1)))
        if not count:
            return Unread(partition=partition, behind=0, found=())
        bounds = self._bounds(partition)
        if positions is None:
            start = self._committed(self.topology.evaluator_group, partition)
        else:
            start = positions.get(partition)
        left = Watermarks(low=max(bounds.low, start or 0), high=bounds.high)
        found = [
            (record.offset, message)
            for record in self._records(partition, left)
            if record.key == workflow_id.encode() and (message := self._message(record)) is not None
        ]
        return Unread(partition=partition, behind=max(0, left.high - left.low), found=tuple(found))

    def letters(self, topic: str, key: str) -> list[DeadLetter]:
        """Return the dead letters of a topic whose record has this key, from the oldest to the newest."""
        letters_topic = self.topology.dlq(topic)
        if not self.partitions_of(letters_topic):
            return []
        with DeadLetters(self._config, self._transport, topology=self.topology, timeout_s=_READ_S) as desk:
            return desk.find(LetterFilter(key=key.encode(), replayed=False), [letters_topic])

    def message_of(self, letter: DeadLetter) -> Message | None:
        """Return the message in a letter; None where it cannot be read."""
        return self._decoded(letter.value, letter.headers)

    def _records(self, partition: TopicPartition, bounds: Watermarks) -> list[Record]:
        first = max(bounds.low, bounds.high - _MOST_RECORDS)
        if first > bounds.low:
            name = f"{partition.topic}[{partition.partition}]"
            self.unknown.append(f"{name} was looked through from offset {first} on: it has more records than that")
        ranges = {partition: Watermarks(low=first, high=bounds.high)}
        return [record for records in read_ranges(self._transport, ranges, _READ_S) for record in records]

    def _message(self, record: Record) -> Message | None:
        return self._decoded(record.value, record.headers)

    def _decoded(self, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> Message | None:
        try:
            return self.codec.decode(value, tuple(headers), json_allowed=True)
        except AFLError:
            return None

    def _bounds(self, partition: TopicPartition) -> Watermarks:
        reader = self._transport.consumer(None)
        try:
            return reader.watermarks(partition)
        finally:
            reader.close()

    def _committed(self, group: str, partition: TopicPartition) -> int | None:
        reader = self._transport.consumer(group)
        try:
            found = reader.committed([partition]).get(partition)
        finally:
            reader.close()
        return None if found is None else found.offset


def is_answer_of(message: Message | None, step_id: str) -> bool:
    """Return whether a message answers a step."""
    return isinstance(message, StepContinue | StepFailed | StepUpdate) and message.step_id == step_id


def is_start_of(message: Message, workflow_id: str) -> bool:
    """Return whether a message asks for a run to be started."""
    return isinstance(message, StartWorkflow) and message.workflow_id == workflow_id
