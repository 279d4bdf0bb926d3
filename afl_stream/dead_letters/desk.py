"""The dead letters of a deployment: list them, look at one, replay chosen ones, or drop them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Self

from afl.core.probes import Probe, no_probe
from afl_stream.acls import unlisted
from afl_stream.dead_letters.letters import (
    DeadLetter,
    LetterFilter,
    LetterNote,
    LetterPlace,
    LetterSubject,
    NoteKind,
    in_order,
    letter_of,
    note_of,
)
from afl_stream.dead_letters.replays import NotReplayable, Replays
from afl_stream.dead_letters.subjects import subject_of
from afl_stream.errors import StreamError
from afl_stream.reading.log_ranges import read_ranges
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declared import Topology
from afl_stream.transport import Producer, Record, TopicPartition, Transport, Watermarks
from afl_stream.wire.codec import Codec
from afl_stream.wire.messages import Message

#: How long reading a topic, and one acknowledgement, may take.
TIMEOUT_S: Final = 60.0
_EVERY_LETTER: Final = LetterFilter()


class NoSuchLetter(StreamError):
    """There is no dead letter at a place: never, or not any more."""

    def __init__(self, place: LetterPlace) -> None:
        super().__init__(f"there is no dead letter {place}; it may be past the retention of its topic")
        self.place = place


@dataclass(frozen=True, slots=True)
class Replayed:
    """The outcome of one letter's replay. `was_sent`: by this call; else an earlier one had sent the record."""

    letter: DeadLetter
    was_sent: bool


@dataclass(frozen=True, slots=True)
class Dropped:
    """The outcome of dropping one letter. `was_noted`: by this call; else it had been dropped before."""

    letter: DeadLetter
    was_noted: bool


@dataclass(frozen=True, slots=True)
class _Found:
    """The content of topics: letters by place, and when the replay of each was first intended, and was done."""

    letters: Mapping[LetterPlace, DeadLetter]
    intended_ms: Mapping[LetterPlace, int]


class DeadLetters:
    """The dead letters of a deployment, on all of its topics of dead letters.

    Reading needs READ on these topics. A replay and a drop need WRITE on them too, and a replay READ and WRITE on the
    topics that it sends to. Letters are read anew at each call; nothing is committed. For one thread; close it after
    use.
    """

    def __init__(
        self,
        config: StreamConfig,
        transport: Transport,
        *,
        topology: Topology | None = None,
        codec: Codec | None = None,
        timeout_s: float = TIMEOUT_S,
        probe: Probe = no_probe,
    ) -> None:
        """Take the transport. `codec` reads what the records are about; without one, their headers and keys tell."""
        self._transport = transport
        self._codec = codec
        self._topology = topology if topology is not None else Topology(config)
        self._timeout_s = timeout_s
        self._probe = probe
        self._producer: Producer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def transport(self) -> Transport:
        """Return the transport whose topics are read."""
        return self._transport

    def close(self) -> None:
        """Release the producer. The transport stays open: it is the caller's."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def topics(self) -> list[str]:
        """Return the topics of dead letters that exist, by name. Raises BrokerUnavailable.

        A subscription's own `dead_letter_topic` is not among them; the methods below take it by name.
        """
        begins = self._topology.dlq("x").removesuffix("x")
        return sorted(name for name in self._transport.admin().topic_names() if name.startswith(begins))

    def facets(self) -> frozenset[str]:
        """Return the facets whose events have a topic. Raises BrokerUnavailable."""
        names = filter(self._topology.is_facet_topic, self._transport.admin().topic_names())
        return frozenset(facet for name in names for facet in self._topology.facets_of(name))

    def find(self, chosen: LetterFilter = _EVERY_LETTER, topics: Iterable[str] | None = None) -> list[DeadLetter]:
        """Return the chosen dead letters of these topics (None: of all), from the oldest to the newest.

        Raises UnknownTopic, NotReadInTime and BrokerUnavailable.
        """
        found = self._found(self._ranges(self.topics() if topics is None else topics, chosen.since_ms))
        return in_order(letter for letter in found.letters.values() if self._takes(chosen, letter))

    def get(self, place: LetterPlace | str) -> DeadLetter:
        """Return the dead letter at a place, as `afl.dlq.control[0]@17`. Raises NoSuchLetter and BadPlace."""
        place = place if isinstance(place, LetterPlace) else LetterPlace.parse(place)
        return _letter_at(self._found(self._ranges_of([place])), place)

    def subject_of(self, letter: DeadLetter) -> LetterSubject:
        """Return which run, step and facet a letter is about, as far as its record says."""
        return subject_of(letter, self._topology, self._codec)

    def message_of(self, letter: DeadLetter, codec: Codec | None = None) -> Message:
        """Return the message in a letter's record, as its readers would: by this codec, or the one that was given.

        Raises Unreadable, SchemaUnavailable; ValueError without any codec.
        """
        reader = codec if codec is not None else self._codec
        if reader is None:
            raise ValueError("a message is read with a codec: give one, or DeadLetters(codec=...)")
        return reader.decode(letter.value, letter.headers, json_allowed=True)

    def replay(self, places: Iterable[LetterPlace | str], *, again: bool = False) -> list[Replayed]:
        """Send the records of these letters to their topics again, exactly as they were, with a mark of the replay.

        They are sent in the order given, each acknowledged before the next. A letter that was replayed is not replayed
        again, also when the process that did it died half way; `again` replays it once more, and one that was dropped.
        Raises NoSuchLetter, BadPlace, NotReplayable and UnknownTopic before anything is sent; then NotSent and what the
        transport raises. Two processes must not replay the same letter at the same time.
        """
        found, letters = self._at(places)
        replays = self._replays()
        for letter in letters:
            if letter.is_dropped and not again:
                raise NotReplayable(letter.place, "it was dropped; it is replayed only when that is asked for (again)")
            replays.check(letter)
        return list(self._replayed(replays, letters, found, again))

    def drop(self, places: Iterable[LetterPlace | str], because: str = "") -> list[Dropped]:
        """Mark letters as needing nothing more, by a note beside each; `because` is kept in the note.

        Their records stay in the topic until its retention removes them, and `get` still returns them. Dropping twice
        does nothing. Raises NoSuchLetter and BadPlace before anything is written; then NotSent and what the transport
        raises.
        """
        _, letters = self._at(places)
        replays = self._replays()
        outcomes = []
        for letter in letters:
            if not letter.is_dropped:
                replays.drop(letter, because)
            outcomes.append(Dropped(replace(letter, is_dropped=True), was_noted=not letter.is_dropped))
        return outcomes

    def _at(self, places: Iterable[LetterPlace | str]) -> tuple[_Found, list[DeadLetter]]:
        """Return the letters at these places, each once, and what else their topics say of them."""
        wanted = [place if isinstance(place, LetterPlace) else LetterPlace.parse(place) for place in places]
        found = self._found(self._ranges_of(wanted))
        return found, [_letter_at(found, place) for place in dict.fromkeys(wanted)]

    def _replays(self) -> Replays:
        if self._producer is None:
            self._producer = self._transport.producer()
        return Replays(self._transport, self._producer, timeout_s=self._timeout_s, probe=self._probe)

    def _takes(self, chosen: LetterFilter, letter: DeadLetter) -> bool:
        return chosen.takes(letter) and (not chosen.asks_for_subject or chosen.takes_subject(self.subject_of(letter)))

    @staticmethod
    def _replayed(replays: Replays, letters: Sequence[DeadLetter], found: _Found, again: bool) -> Iterator[Replayed]:
        for letter in letters:
            if letter.is_replayed and not again:
                yield Replayed(letter, was_sent=False)
                continue
            # What an earlier replay has sent counts only while that replay is not done.
            intended_ms = None if letter.is_replayed else found.intended_ms.get(letter.place)
            was_sent = replays.replay(letter, intended_ms)
            yield Replayed(replace(letter, is_replayed=True), was_sent)

    def _found(self, ranges: Mapping[TopicPartition, Watermarks]) -> _Found:
        letters: dict[LetterPlace, Record] = {}
        intended_ms: dict[LetterPlace, int] = {}
        done: set[LetterPlace] = set()
        dropped: dict[LetterPlace, LetterNote] = {}
        for records in read_ranges(self._transport, ranges, self._timeout_s):
            for record in records:
                note = note_of(record)
                if note is None:
                    letters[LetterPlace(*record.topic_partition, record.offset)] = record
                elif note.kind is NoteKind.DONE:
                    done.add(note.place)
                    intended_ms.pop(note.place, None)
                elif note.kind is NoteKind.DROPPED:
                    dropped.setdefault(note.place, note)
                else:
                    intended_ms.setdefault(note.place, note.at_ms)
        return _Found(
            {
                place: letter_of(record, is_replayed=place in done, dropped=dropped.get(place))
                for place, record in letters.items()
            },
            intended_ms,
        )

    def _ranges(self, topics: Iterable[str], since_ms: int | None) -> Mapping[TopicPartition, Watermarks]:
        """Return what these topics hold; with a time, from the first record of that time on."""
        names = sorted(set(topics))
        described = self._transport.admin().topics(names)
        for name in names:
            if name not in described:
                raise unlisted(self._transport.admin(), name)
        partitions = [TopicPartition(name, number) for name in names for number in range(described[name].partitions)]
        reader = self._transport.consumer(None)
        try:
            held = {partition: reader.watermarks(partition) for partition in partitions}
            if since_ms is None:
                return held
            starts = reader.offsets_for_times(dict.fromkeys(partitions, max(0, since_ms)))
        finally:
            reader.close()
        return {
            partition: Watermarks(low=max(bounds.low, starts.get(partition, bounds.high)), high=bounds.high)
            for partition, bounds in held.items()
        }

    def _ranges_of(self, places: Iterable[LetterPlace]) -> Mapping[TopicPartition, Watermarks]:
        """Return what has to be read of these letters: their partitions, each from its first letter on.

        Notes stand in the partition of their letter, behind it. Raises UnknownTopic and NoSuchLetter.
        """
        first: dict[TopicPartition, LetterPlace] = {}
        for place in sorted(places):
            first.setdefault(place.topic_partition, place)
        described = self._transport.admin().topics(sorted({partition.topic for partition in first}))
        ranges = {}
        reader = self._transport.consumer(None)
        try:
            for partition, place in first.items():
                if partition.topic not in described:
                    raise unlisted(self._transport.admin(), partition.topic)
                if partition.partition >= described[partition.topic].partitions:
                    raise NoSuchLetter(place)
                bounds = reader.watermarks(partition)
                ranges[partition] = Watermarks(low=max(bounds.low, place.offset), high=bounds.high)
        finally:
            reader.close()
        return ranges


def _letter_at(found: _Found, place: LetterPlace) -> DeadLetter:
    letter = found.letters.get(place)
    if letter is None:
        raise NoSuchLetter(place)
    return letter
