"""Dead letters as they are found on their topics: each with its place, its record, and why it was given up."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from afl_stream.errors import StreamError
from afl_stream.transport import Headers, Record, TopicPartition
from afl_stream.wire.dead_letters import DlqHeader, dlq_header, original_headers

Default = TypeVar("Default")

_PLACE: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})\[(?P<partition>[0-9]{1,9})\]@(?P<offset>[0-9]{1,18})\Z")


class BadPlace(StreamError, ValueError):
    """A text that is not the place of a dead letter."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r:.300} is not the place of a dead letter; expected TOPIC[PARTITION]@OFFSET")
        self.text = text


@dataclass(frozen=True, slots=True, order=True)
class LetterPlace:
    """The place of a dead letter. As a text, it is what people name it by: `afl.dlq.control[0]@17`."""

    topic: str
    partition: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> LetterPlace:
        """Return the place that a text names. Raises BadPlace."""
        found = _PLACE.match(text)
        if found is None:
            raise BadPlace(text)
        return cls(found["topic"], int(found["partition"]), int(found["offset"]))

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}"


class Hop(StrEnum):
    """The part of a record's way on which it became a dead letter. Values are printed: never change one."""

    #: An event of a facet, on its way to an agent.
    EVENTS = "events"
    #: An answer, on its way to an evaluator.
    CONTROL = "control"
    #: A command: a start, a cancellation, ...
    COMMANDS = "commands"
    #: An external event.
    EXTERNAL = "external"
    #: A record of event-driven workflows, subscriptions and bridges.
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterSubject:
    """What a letter's record is about; "" where it does not say.

    `record_type` is the kind of the record: `Event`, `StepContinue`, `StartWorkflow`. Only events name a `facet`.
    """

    hop: Hop
    workflow_id: str = ""
    step_id: str = ""
    facet: str = ""
    record_type: str = ""


class NoteKind(StrEnum):
    """What a note beside a letter says. Values stand in headers: never change one."""

    #: A replay has begun.
    INTENDED = "intended"
    #: A replay is done.
    DONE = "done"
    #: The letter needs nothing more: lists leave it out.
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One dead letter.

    `topic`, `partition`, `offset` and `timestamp_ms` are those of the original record, as far as the letter says: -1
    and "" where it does not. `key`, `value` and `headers` are the original's own; `is_value_omitted` where the value
    was too large for the letter. `at_ms` is when the letter was written. `is_replayed`: its record was sent to its
    topic again; `replayed_from` is the letter that the record itself had been replayed from before. `is_dropped`: it
    was marked as needing nothing more, at `dropped_at_ms` and for the reason `dropped_because`.
    """

    place: LetterPlace
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    reason: str
    error_class: str
    error: str
    attempt: int | None
    tries: int | None
    group: str
    agent: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    at_ms: int
    is_value_omitted: bool = False
    is_replayed: bool = False
    replayed_from: str = ""
    is_dropped: bool = False
    dropped_at_ms: int = 0
    dropped_because: str = ""

    @property
    def is_open(self) -> bool:
        """Return whether it was neither replayed nor dropped."""
        return not (self.is_replayed or self.is_dropped)


@dataclass(frozen=True, slots=True)
class LetterNote:
    """A note beside a letter: what it says, when it was written, and the reason that was given."""

    place: LetterPlace
    kind: NoteKind
    at_ms: int
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """A choice of dead letters; each part that is given must fit.

    `topics` are original topics or topics of dead letters, `reasons` the stable codes, `since_ms` and `until_ms` bound
    when the letter was written (ms since the epoch, the second one excluded), `key` is the record's own: of events the
    step id, of answers and commands the workflow id. `text` must occur in the error's text, whatever the case.
    `replayed`, `dropped`: only those that were, or only those that were not. `hops`, `workflow_id`, `step_id` and
    `facet` are about the record's subject, which `DeadLetters.find` knows.
    """

    topics: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()
    key: bytes | None = None
    text: str = ""
    since_ms: int | None = None
    until_ms: int | None = None
    replayed: bool | None = None
    dropped: bool | None = None
    hops: frozenset[Hop] = frozenset()
    workflow_id: str = ""
    step_id: str = ""
    facet: str = ""

    def takes(self, letter: DeadLetter) -> bool:
        """Return whether a letter is among the chosen ones, as far as its headers and its key tell."""
        return (
            (not self.topics or letter.topic in self.topics or letter.place.topic in self.topics)
            and (not self.reasons or letter.reason in self.reasons)
            and (self.key is None or letter.key == self.key)
            and (self.text.casefold() in letter.error.casefold())
            and (self.since_ms is None or letter.at_ms >= self.since_ms)
            and (self.until_ms is None or letter.at_ms < self.until_ms)
            and (self.replayed is None or letter.is_replayed is self.replayed)
            and (self.dropped is None or letter.is_dropped is self.dropped)
        )

    @property
    def asks_for_subject(self) -> bool:
        """Return whether a letter's subject decides too."""
        return bool(self.hops or self.workflow_id or self.step_id or self.facet)

    def takes_subject(self, subject: LetterSubject) -> bool:
        """Return whether a letter of this subject is among the chosen ones."""
        return (
            (not self.hops or subject.hop in self.hops)
            and (not self.workflow_id or subject.workflow_id == self.workflow_id)
            and (not self.step_id or subject.step_id == self.step_id)
            and (not self.facet or subject.facet == self.facet)
        )


def letter_of(record: Record, *, is_replayed: bool = False, dropped: LetterNote | None = None) -> DeadLetter:
    """Return the dead letter in a record of a topic of dead letters. `dropped` is the note that says so."""

    def said(name: DlqHeader) -> str:
        return dlq_header(record.headers, name) or ""

    reason = said(DlqHeader.REASON)
    return DeadLetter(
        place=place_of(record),
        topic=said(DlqHeader.TOPIC),
        partition=_number(said(DlqHeader.PARTITION), -1),
        offset=_number(said(DlqHeader.OFFSET), -1),
        timestamp_ms=_number(said(DlqHeader.TIMESTAMP), -1),
        reason=reason,
        error_class=said(DlqHeader.ERROR_CLASS),
        error=said(DlqHeader.ERROR),
        attempt=_number(said(DlqHeader.ATTEMPT), None),
        tries=_number(said(DlqHeader.TRIES), None),
        group=said(DlqHeader.GROUP),
        agent=said(DlqHeader.AGENT),
        key=record.key,
        value=record.value,
        headers=original_headers(record.headers),
        at_ms=record.timestamp_ms,
        is_value_omitted=bool(said(DlqHeader.VALUE_OMITTED)),
        is_replayed=is_replayed,
        replayed_from=said(DlqHeader.REPLAYED_FROM),
        is_dropped=dropped is not None,
        dropped_at_ms=0 if dropped is None else dropped.at_ms,
        dropped_because="" if dropped is None else dropped.because,
    )


def place_of(record: Record) -> LetterPlace:
    """Return where a record stands."""
    return LetterPlace(record.topic, record.partition, record.offset)


def note_of(record: Record) -> LetterNote | None:
    """Return the note in a record of a topic of dead letters; None: the record is a letter."""
    said = dlq_header(record.headers, DlqHeader.REPLAY)
    if said is None:
        return None
    try:
        place = LetterPlace.parse(dlq_header(record.headers, DlqHeader.REPLAYED_FROM) or "")
        because = dlq_header(record.headers, DlqHeader.DROPPED_BECAUSE) or ""
        return LetterNote(place, NoteKind(said), record.timestamp_ms, because)
    except ValueError:
        return None


def in_order(letters: Iterable[DeadLetter]) -> list[DeadLetter]:
    """Return letters from the oldest to the newest."""
    return sorted(letters, key=lambda letter: (letter.at_ms, letter.place))


def _number(text: str, default: Default) -> int | Default:
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else default
