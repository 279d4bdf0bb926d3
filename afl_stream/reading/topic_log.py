"""A topic that is read whole: appended to with acknowledgement, read to its current end."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Final

from afl.core.process.stopping import PROCESS_STOP
from afl_stream.errors import SchemaUnavailable
from afl_stream.transport import (
    REFUSALS,
    Consumer,
    Headers,
    Producer,
    TopicDescription,
    TopicPartition,
    Transport,
    TransportError,
    Watermarks,
    is_another_topic,
    produce_acknowledged,
)

_log = logging.getLogger(__name__)

#: Time limit of an announcement or a read of the whole topic, before the caller has to wait and try again.
DEFAULT_TIMEOUT_S: Final = 10.0
READ_RECORDS: Final = 500
#: How often a read that waits checks for a request to stop.
_SLICE_S: Final = 0.2
#: Asking for a topic's id costs requests, and topics are rarely recreated.
LOOK_INTERVAL_S: Final = 10.0


@contextmanager
def waited_for(what: str) -> Iterator[None]:
    """Turn errors of the transport inside into SchemaUnavailable: `what` cannot be reached now.

    REFUSALS stay as they are, because waiting does not help.
    """
    try:
        yield
    except REFUSALS:
        raise
    except TransportError as error:
        raise SchemaUnavailable(what, str(error)) from error


class TopicLog:
    """All partitions of one topic, as a log; keeps the SchemaLog port. Producer and reader open when first needed.

    Records are only deleted from such a topic when a later record of their key replaces them. A topic that has lost
    records (it was deleted and recreated, or retention removed records) is logged and read again from its beginning.

    Threads may share it: a lock lets one in at a time.
    """

    def __init__(
        self,
        transport: Transport,
        topic: str,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        look_interval_s: float = LOOK_INTERVAL_S,
    ) -> None:
        """Take the topic.

        `look_interval_s`: how often the reader asks whether the topic of this name is still the same one, when its log
        does not show it.
        """
        self.topic = topic
        #: How often it was found that the topic had lost records. After a change, records that were read before may be
        #: gone.
        self.losses = 0
        self._transport = transport
        self._timeout_s, self._look_interval_s = timeout_s, look_interval_s
        self._lock = Lock()
        self._producer: Producer | None = None
        self._reader: Consumer | None = None
        self._positions: dict[TopicPartition, int] = {}
        #: The first offset of each partition, as it was when reading began.
        self._lows: dict[TopicPartition, int] = {}
        self._topic_id = ""
        self._looked_s = 0.0
        #: When the end that was read to last was asked for; None: it has to be asked for again.
        self._end_asked_s: float | None = None
        #: The time of the oldest record that was read, ms since the epoch; None: the topic is empty.
        self._oldest_ms: int | None = None

    def append(self, key: bytes, value: bytes, headers: Headers = ()) -> None:
        """Append a record and return when it is acknowledged. Raises SchemaUnavailable, and REFUSALS as they are."""
        with self._lock, waited_for(self.topic):
            if self._producer is None:
                self._producer = self._transport.producer()
            produce_acknowledged(self._producer, self.topic, value, key=key, headers=headers, timeout_s=self._timeout_s)

    def read_to_end(self) -> list[tuple[bytes | None, bytes | None]]:
        """Return what was appended since the last call, up to the current end; all records when `losses` has changed.

        Raises as `append` does.
        """
        with self._lock, waited_for(self.topic):
            try:
                return self._read_to_end()
            except TransportError:
                self._forget_reader()
                raise

    def read_arrived(self, for_s: float) -> list[tuple[bytes | None, bytes | None]] | None:
        """Return what the broker has sent since the last call, without asking it for anything.

        The broker sends what is appended as soon as it is there. None when that does not do, so that the log has to be
        read to its end: it was not read to it in the last `for_s` seconds, or the reader has met an error.
        """
        with self._lock:
            asked_s, reader = self._end_asked_s, self._reader
            if asked_s is None or reader is None or time.monotonic() - asked_s >= for_s:
                return None
            arrived: list[tuple[bytes | None, bytes | None]] = []
            try:
                while records := reader.consume(READ_RECORDS, 0.0):
                    arrived.extend((record.key, record.value) for record in records)
                positions = {
                    partition: max(position, reader.position(partition))
                    for partition, position in self._positions.items()
                }
            except TransportError:
                # What was taken from it comes again: the next one begins at the positions.
                self._forget_reader()
                return None
            self._positions = positions
            return arrived

    def ask_again(self) -> None:
        """Have the next `read_arrived` say that the log has to be read to its end."""
        self._end_asked_s = None

    def lack(self, written_at_ms: int | None) -> str | None:
        """Return in words why the topic may have lost records since that time (None: now); None when it has lost none.

        The answer is as of the last read.
        """
        if cut := sorted((partition, low) for partition, low in self._lows.items() if low > 0):
            listed = ", ".join(f"{name}[{number}] before offset {low}" for (name, number), low in cut)
            return f"records of {listed} were deleted"
        if self.losses:
            return f"{self.topic} was deleted and recreated, or records of it were deleted"
        if self._oldest_ms is None:
            return f"{self.topic} is empty"
        if written_at_ms is not None and written_at_ms < self._oldest_ms:
            return f"{self.topic} has no record that is as old, so it was deleted and recreated"
        return None

    def close(self) -> None:
        """Close producer and reader."""
        with self._lock:
            self._forget_reader()
            if self._producer is not None:
                self._producer.close()
                self._producer = None

    def _read_to_end(self) -> list[tuple[bytes | None, bytes | None]]:
        self._end_asked_s, asked_s = None, time.monotonic()
        reader, positions = self._open_reader()
        bounds = {partition: reader.watermarks(partition) for partition in positions}
        if self._has_lost(bounds):
            self._begin_again()
            reader, positions = self._open_reader()
            bounds = {partition: reader.watermarks(partition) for partition in positions}
        deadline_s = time.monotonic() + self._timeout_s
        records: list[tuple[bytes | None, bytes | None]] = []
        while any(positions[partition] < found.high for partition, found in bounds.items()):
            remaining_s = deadline_s - time.monotonic()
            if remaining_s <= 0:
                self._forget_reader()
                raise SchemaUnavailable(self.topic, f"{self.topic} was not read in {self._timeout_s:g} s")
            if PROCESS_STOP.is_set():
                raise SchemaUnavailable(self.topic, "the process was told to end")
            for record in reader.consume(READ_RECORDS, min(remaining_s, _SLICE_S)):
                records.append((record.key, record.value))
                self._oldest_ms = min(record.timestamp_ms, self._oldest_ms or record.timestamp_ms)
            # The offsets of records would not do: a log may end without a record.
            positions = {
                partition: max(position, reader.position(partition)) for partition, position in positions.items()
            }
        self._positions, self._end_asked_s = positions, asked_s
        return records

    def _open_reader(self) -> tuple[Consumer, dict[TopicPartition, int]]:
        """Return the reader, and a copy of its positions, which is kept only when all was read."""
        if self._reader is None:
            found = self._described()
            partitions = [TopicPartition(self.topic, n) for n in range(found.partitions if found else 0)]
            if not partitions:
                self._refuse_hidden()
                raise TransportError(f"topic {self.topic} does not exist; run: afl-stream topics apply")
            if found is not None and self._is_another(found):
                self._begin_again()
            reader = self._transport.consumer(None)
            try:
                bounds = {partition: reader.watermarks(partition) for partition in partitions}
            except BaseException:
                reader.close()
                raise
            if self._positions and self._has_lost(
                {partition: bounds[partition] for partition in bounds if partition in self._lows}
            ):
                self._begin_again()
            positions = {partition: self._positions.get(partition, found.low) for partition, found in bounds.items()}
            reader.assign(positions)
            self._lows = {partition: self._lows.get(partition, found.low) for partition, found in bounds.items()}
            self._reader, self._positions = reader, positions
            self._topic_id = (found.topic_id if found else "") or self._topic_id
        return self._reader, dict(self._positions)

    def _refuse_hidden(self) -> None:
        """Raise NotAuthorized when this user may not see the topic, which may exist."""
        # Only here: an agent loads no module that it does not need.
        from afl_stream.acls import hidden_among, hidden_topic

        if hidden_among(self._transport.admin(), [self.topic]):
            raise hidden_topic(self.topic)

    def _has_lost(self, bounds: Mapping[TopicPartition, Watermarks]) -> bool:
        """Return whether the topic has lost records since it was read: by its log, or by its id."""
        if any(
            found.high < self._positions[partition] or found.low > self._lows[partition]
            for partition, found in bounds.items()
        ):
            return True
        now_s = time.monotonic()
        if now_s - self._looked_s < self._look_interval_s:
            return False
        found = self._described()
        return found is not None and (self._is_another(found) or found.partitions != len(bounds))

    def _described(self) -> TopicDescription | None:
        self._looked_s = time.monotonic()
        return self._transport.admin().topics([self.topic]).get(self.topic)

    def _is_another(self, found: TopicDescription) -> bool:
        return is_another_topic(self._topic_id, found.topic_id)

    def _begin_again(self) -> None:
        """Forget what was read: the topic does not hold it any more."""
        _log.error(
            "%s lacks records that it had: it was deleted and recreated, or its cleanup.policy is not compact; it "
            "is read again from its beginning",
            self.topic,
        )
        self._forget_reader()
        self.losses += 1
        self._positions, self._lows = {}, {}
        self._topic_id, self._oldest_ms = "", None

    def _forget_reader(self) -> None:
        if self._reader is not None:
            reader, self._reader = self._reader, None
            reader.close()
