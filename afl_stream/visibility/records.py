"""What the topics still hold of one run: the events that were published for it, and who answered them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from afl.core.errors import AFLError
from afl.engine.model.store import StepDocument, WorkflowRow
from afl_stream.dead_letters import DeadLetter, DeadLetters, LetterFilter
from afl_stream.errors import SchemaUnavailable, Unreadable
from afl_stream.partitioner import partition_for
from afl_stream.reading.log_ranges import NotReadInTime, read_ranges
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.sensitive.redaction import ENCRYPTED, REDACTED
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declared import Topology
from afl_stream.transport import Record, TopicPartition, Transport, TransportError, Watermarks
from afl_stream.wire.codec import Codec
from afl_stream.wire.messages import Event, Message, StepContinue, StepFailed, StepUpdate

#: How long the reading of a run's records may take, and how many records of a partition are looked at.
TIMEOUT_S: Final = 10.0
MAX_RECORDS: Final = 100_000
#: Records this much older or newer than the run are looked at too: clocks differ, and a last answer may be late.
_AROUND_MS: Final = 60_000
_ANSWERS: Final = {StepContinue: "continue", StepFailed: "fail", StepUpdate: "update"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedEvent:
    """An event of a step, and where it stands in its topic."""

    step_id: str
    event_id: str
    facet: str
    attempt: int
    topic: str
    partition: int
    offset: int
    #: The time of its record, ms since the epoch.
    at_ms: int

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {"kind": "event", **asdict(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer to a step, who gave it, and where it stands in the control topic.

    `answer` is `continue`, `fail` or `update`. Of several answers to one attempt the first counts. `refused` says why
    an evaluator took it for a dead letter; its place is then that of the record, as far as the letter says it.
    """

    step_id: str
    event_id: str | None
    answer: str
    attempt: int | None
    agent: str | None
    group: str | None
    error: str
    topic: str
    partition: int
    offset: int
    at_ms: int
    refused: str = ""
    #: The place of the dead letter, as TOPIC[PARTITION]@OFFSET.
    letter: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {"kind": "answer", **asdict(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecords:
    """The records of one run in order of time, and in words what could not be read."""

    events: tuple[PublishedEvent, ...] = ()
    answers: tuple[Answer, ...] = ()
    gaps: tuple[str, ...] = ()

    def in_order(self) -> list[PublishedEvent | Answer]:
        """Return events and answers in order of their times."""
        return sorted([*self.events, *self.answers], key=lambda found: (found.at_ms, isinstance(found, Answer)))

    def answers_of(self, step_id: str) -> list[Answer]:
        """Return the answers to a step, the oldest first."""
        return [answer for answer in self.answers if answer.step_id == step_id]

    def to_dict(self) -> dict[str, object]:
        """Return them as JSON has them."""
        return {"records": [found.to_dict() for found in self.in_order()], "gaps": list(self.gaps)}


@dataclass(slots=True)
class _Found:
    events: list[PublishedEvent] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)


class RunRecordReader:
    """Reads what the topics hold of runs, without a group; nothing is committed. For one thread.

    Of a topic it reads the partition of the run's key, and there the records of the run's time: at most `max_records`
    of a partition, in `timeout_s` for all.
    """

    def __init__(
        self,
        config: StreamConfig,
        transport: Transport,
        *,
        timeout_s: float = TIMEOUT_S,
        max_records: int = MAX_RECORDS,
    ) -> None:
        self._config, self._transport = config, transport
        self._topology = Topology(config)
        self._timeout_s, self._max_records = timeout_s, max_records

    def read(self, row: WorkflowRow, steps: Sequence[StepDocument]) -> RunRecords:
        """Return the records of a run, of which these are the steps. A fault of the broker is a gap, in words."""
        found = _Found()
        try:
            codec = DeploymentCodec(self._config, self._transport, self._topology)
            try:
                self._read_topics(row, steps, codec.codec, found)
                self._read_letters(row, codec.codec, found)
            finally:
                codec.close()
        except NotReadInTime as error:
            found.gaps.append(str(error))
        except (TransportError, SchemaUnavailable) as error:
            found.gaps.append(f"the topics could not be read: {error}")
        found.events.sort(key=lambda event: (event.at_ms, event.offset))
        found.answers[:] = _without_sensitive(found.answers, steps)
        found.answers.sort(key=lambda answer: (answer.at_ms, answer.offset))
        return RunRecords(events=tuple(found.events), answers=tuple(found.answers), gaps=tuple(found.gaps))

    def _read_topics(self, row: WorkflowRow, steps: Sequence[StepDocument], codec: Codec, found: _Found) -> None:
        asking = {step.id.encode(): step for step in steps if step.attempt}
        control = self._topology.control()
        starts: dict[TopicPartition, int] = {}
        described = self._transport.admin().topics(
            {control, *(self._topology.facet(step.facet_name) for step in asking.values())}
        )
        wanted = [(control, row.id.encode(), row.created_at_ms)]
        wanted += [(self._topology.facet(step.facet_name), key, step.created_at_ms) for key, step in asking.items()]
        for topic, key, at_ms in wanted:
            if topic not in described:
                continue
            place = TopicPartition(topic, partition_for(key, described[topic].partitions))
            starts[place] = min(starts.get(place, at_ms), at_ms)
        for topic in sorted({topic for topic, _, _ in wanted} - set(described)):
            found.gaps.append(f"topic {topic} does not exist")
        for records in read_ranges(self._transport, self._ranges(row, starts, found), self._timeout_s):
            for record in records:
                if record.topic == control:
                    if record.key == row.id.encode():
                        _take_answer(record, _message(codec, record), row.id, found)
                elif record.key in asking:
                    _take_event(record, _message(codec, record), found)

    def _ranges(
        self, row: WorkflowRow, starts: Mapping[TopicPartition, int], found: _Found
    ) -> dict[TopicPartition, Watermarks]:
        if not starts:
            return {}
        reader = self._transport.consumer(None)
        try:
            bounds = {place: reader.watermarks(place) for place in starts}
            low = reader.offsets_for_times({place: max(at_ms - _AROUND_MS, 0) for place, at_ms in starts.items()})
            high = {place: bounds[place].high for place in starts}
            if row.ended_at_ms:
                ends = reader.offsets_for_times(dict.fromkeys(starts, row.ended_at_ms + _AROUND_MS))
                high = {place: min(end, high[place]) for place, end in ends.items()}
        finally:
            reader.close()
        ranges = {}
        for place in starts:
            first = max(low[place], bounds[place].low)
            if bounds[place].low and first == bounds[place].low:
                found.gaps.append(f"{_shown(place)}: its records before offset {first:,} are gone")
            last = min(high[place], first + self._max_records)
            if last < high[place]:
                found.gaps.append(
                    f"{_shown(place)}: {high[place] - first:,} records in the run's time, "
                    f"of which the first {self._max_records:,} were looked at"
                )
            ranges[place] = Watermarks(low=first, high=last)
        return ranges

    def _read_letters(self, row: WorkflowRow, codec: Codec, found: _Found) -> None:
        """Add the answers that an evaluator refused: they are dead letters of the control topic."""
        control = self._topology.control()
        topic = self._topology.dlq(control)
        if topic not in self._transport.admin().topic_names():
            return
        with DeadLetters(self._config, self._transport, topology=self._topology, timeout_s=self._timeout_s) as letters:
            chosen = LetterFilter(key=row.id.encode(), since_ms=max(row.created_at_ms - _AROUND_MS, 0))
            for letter in letters.find(chosen, [topic]):
                try:
                    message = letters.message_of(letter, codec)
                except Unreadable:
                    continue
                _take_refused(letter, message, found)


def _message(codec: Codec, record: Record) -> Message | None:
    """Return a record's message; None for one that nobody can read: it is a dead letter, and told there."""
    try:
        return codec.decode(record.value, record.headers, json_allowed=True)
    except AFLError as error:
        if isinstance(error, SchemaUnavailable):
            raise
        return None


def _take_event(record: Record, message: Message | None, found: _Found) -> None:
    if isinstance(message, Event):
        found.events.append(
            PublishedEvent(
                step_id=message.step_id,
                event_id=message.id,
                facet=message.event_type,
                attempt=message.attempt,
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                at_ms=record.timestamp_ms,
            )
        )


def _take_answer(record: Record, message: Message | None, workflow_id: str, found: _Found) -> None:
    if isinstance(message, StepContinue | StepFailed | StepUpdate) and message.step_id.startswith(f"{workflow_id}:"):
        found.answers.append(
            _answer(message, TopicPartition(record.topic, record.partition), record.offset, record.timestamp_ms)
        )


def _take_refused(letter: DeadLetter, message: Message, found: _Found) -> None:
    if not isinstance(message, StepContinue | StepFailed | StepUpdate):
        return
    place = TopicPartition(letter.topic, letter.partition)
    at_ms = letter.timestamp_ms if letter.timestamp_ms > 0 else letter.at_ms
    refused = f"{letter.reason}: {letter.error}"
    # The record itself may still be in the control topic, where it was read as an answer like any other.
    found.answers[:] = [
        one for one in found.answers if (one.topic, one.partition, one.offset) != (*place, letter.offset)
    ]
    found.answers.append(_answer(message, place, letter.offset, at_ms, refused=refused, letter=str(letter.place)))


def _answer(
    message: StepContinue | StepFailed | StepUpdate,
    place: TopicPartition,
    offset: int,
    at_ms: int,
    *,
    refused: str = "",
    letter: str = "",
) -> Answer:
    error = f"{message.error.type}: {message.error.message}" if isinstance(message, StepFailed) else ""
    return Answer(
        step_id=message.step_id,
        event_id=message.event_id,
        answer=_ANSWERS[type(message)],
        attempt=message.attempt,
        agent=message.agent,
        group=message.group,
        error=error,
        topic=place.topic,
        partition=place.partition,
        offset=offset,
        at_ms=at_ms,
        refused=refused,
        letter=letter,
    )


def _without_sensitive(answers: Sequence[Answer], steps: Sequence[StepDocument]) -> list[Answer]:
    """Return the answers without the texts of failures that may quote what is hidden of their steps.

    Shown is what the step keeps, and what its agent has hidden something in; agents of others hide nothing.
    """
    hiding = {step.id: step for step in steps if REDACTED in step.params.values() or ENCRYPTED in step.params.values()}
    return [
        answer
        if answer.step_id not in hiding or _is_told(answer.error, hiding[answer.step_id])
        else replace(answer, error=f"{answer.error.partition(': ')[0]}: {REDACTED}")
        for answer in answers
    ]


def _is_told(error: str, step: StepDocument) -> bool:
    kept = step.error
    return not error or REDACTED in error or (kept is not None and error == f"{kept.type}: {kept.message}")


def _shown(place: TopicPartition) -> str:
    return f"{place.topic}[{place.partition}]"
