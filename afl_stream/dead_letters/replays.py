"""Replays of dead letters: their records are sent to their topics again, each once, whatever dies meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from afl.core.probes import Probe
from afl_stream.acls import unlisted
from afl_stream.dead_letters.letters import DeadLetter, LetterPlace, NoteKind
from afl_stream.errors import StreamError
from afl_stream.reading.log_ranges import read_ranges
from afl_stream.transport import (
    Headers,
    Producer,
    TopicPartition,
    Transport,
    Watermarks,
    flush_unless_stopped,
)
from afl_stream.wire.dead_letters import DlqHeader
from afl_stream.wire.headers import header

#: How much earlier than its note a record of a replay may be dated: brokers' and producers' clocks differ.
_CLOCKS_MS: Final = 60_000


class NotReplayable(StreamError):
    """A dead letter does not hold all of its record, or does not say where it was."""

    def __init__(self, place: LetterPlace, why: str) -> None:
        super().__init__(f"dead letter {place} cannot be replayed: {why}")
        self.place = place


class NotSent(StreamError):
    """A record of a replay, or a note, was not acknowledged; the call may be repeated."""

    def __init__(self, topic: str, why: str) -> None:
        super().__init__(f"{topic}: {why}; repeat the call, which sends nothing twice")
        self.topic = topic


class Replays:
    """Sends the records of dead letters to their topics again.

    A replay is in this order:
      1. a note of the intention is written beside the letter                                     (replay.intended)
      2. the record goes to its topic as it was, with a mark that names the letter                (replay.produced)
      3. a note that it is done is written                                                        (replay.done)

    Each is acknowledged before the next. A letter that has the second note is not replayed again. After a crash between
    1 and 3 the topic is read from the time of the first note on: only if no record there has the mark is 2 done again.
    """

    def __init__(self, transport: Transport, producer: Producer, *, timeout_s: float, probe: Probe) -> None:
        self._transport = transport
        self._producer = producer
        self._timeout_s = timeout_s
        self._probe = probe

    def check(self, letter: DeadLetter) -> None:
        """Raise NotReplayable for a letter whose record cannot be made again, UnknownTopic when its topic is gone."""
        if letter.is_value_omitted:
            raise NotReplayable(letter.place, "its value was too large for the topic of dead letters, and is not in it")
        if not letter.topic:
            raise NotReplayable(letter.place, f"it has no header {DlqHeader.TOPIC.value}")
        if letter.topic not in self._transport.admin().topic_names():
            raise unlisted(self._transport.admin(), letter.topic)

    def replay(self, letter: DeadLetter, intended_ms: int | None) -> bool:
        """Replay a letter; return False if an earlier replay had sent the record.

        `intended_ms` is when the first note of an earlier replay was written; None: there is none. Raises NotSent and
        what the transport raises.
        """
        is_sent = intended_ms is not None and self._is_sent(letter, intended_ms)
        if intended_ms is None:
            self._note(letter, NoteKind.INTENDED)
            self._probe("replay.intended")
        if not is_sent:
            mark = (DlqHeader.REPLAYED_FROM.value, str(letter.place).encode())
            # Without a key nothing but its partition says where it belongs.
            partition = letter.partition if letter.key is None and letter.partition >= 0 else None
            self._send(letter.topic, letter.key, letter.value, (*letter.headers, mark), partition)
            self._probe("replay.produced")
        self._note(letter, NoteKind.DONE)
        self._probe("replay.done")
        return not is_sent

    def _is_sent(self, letter: DeadLetter, since_ms: int) -> bool:
        """Return whether the record is on its topic, with the mark of this letter."""
        topic, mark = letter.topic, str(letter.place)
        found = self._transport.admin().topics([topic]).get(topic)
        if found is None:
            raise unlisted(self._transport.admin(), topic)
        partitions = [TopicPartition(topic, number) for number in range(found.partitions)]
        ranges = self._since(partitions, since_ms - _CLOCKS_MS)
        return any(
            header(record.headers, DlqHeader.REPLAYED_FROM) == mark
            for records in read_ranges(self._transport, ranges, self._timeout_s)
            for record in records
        )

    def _since(self, partitions: list[TopicPartition], at_ms: int) -> Mapping[TopicPartition, Watermarks]:
        reader = self._transport.consumer(None)
        try:
            starts = reader.offsets_for_times({partition: max(0, at_ms) for partition in partitions})
            ends = {partition: reader.watermarks(partition) for partition in partitions}
        finally:
            reader.close()
        return {
            partition: Watermarks(low=max(starts.get(partition, end.low), end.low), high=end.high)
            for partition, end in ends.items()
        }

    def drop(self, letter: DeadLetter, because: str) -> None:
        """Write the note that a letter needs nothing more. Raises NotSent and what the transport raises.

        A crash before the note is acknowledged leaves the letter as it was, or dropped; the same call again is safe.
        """
        self._note(letter, NoteKind.DROPPED, because)
        self._probe("drop.noted")

    def _note(self, letter: DeadLetter, said: NoteKind, because: str = "") -> None:
        headers: Headers = (
            (DlqHeader.REPLAY.value, said.value.encode()),
            (DlqHeader.REPLAYED_FROM.value, str(letter.place).encode()),
        )
        if because:
            headers += ((DlqHeader.DROPPED_BECAUSE.value, because.encode("utf-8", "backslashreplace")),)
        self._send(letter.place.topic, letter.key, None, headers, letter.place.partition)

    def _send(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, partition: int | None
    ) -> None:
        outcome: list[Exception | None] = []
        self._producer.produce(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            on_delivery=lambda error, _place, _offset: outcome.append(error),
        )
        flush_unless_stopped(self._producer, self._timeout_s)
        if not outcome:
            raise NotSent(topic, f"no acknowledgement in {self._timeout_s:g} s")
        if outcome[0] is not None:
            raise outcome[0]
