"""A topic that is read whole: appended to with acknowledgement, read to its end as it is now."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

from afl.core.stopping import PROCESS_STOP
from afl_stream.errors import SchemaUnavailable
from afl_stream.transport import (
    REFUSALS,
    Consumer,
    Producer,
    TopicPartition,
    Transport,
    TransportError,
    produce_acknowledged,
)

#: How long an announcement or a read of the whole topic may take before the caller is told to wait and try again.
DEFAULT_TIMEOUT_S: Final = 10.0
READ_RECORDS: Final = 500
#: How often a read that waits looks at the word to stop.
_SLICE_S: Final = 0.2


@contextmanager
def waited_for(what: str) -> Iterator[None]:
    """Have what the transport raises inside tell that `what` is away for now: SchemaUnavailable. REFUSALS stay as they
    are, because no waiting mends them."""
    try:
        yield
    except REFUSALS:
        raise
    except TransportError as error:
        raise SchemaUnavailable(what, str(error)) from error


class TopicLog:
    """All partitions of one topic, as a log; keeps the SchemaLog port. Producer and reader open when first needed.

    Threads may share it: a lock lets one in at a time.
    """

    def __init__(self, transport: Transport, topic: str, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self._transport = transport
        self._topic = topic
        self._timeout_s = timeout_s
        self._lock = Lock()
        self._producer: Producer | None = None
        self._reader: Consumer | None = None
        self._positions: dict[TopicPartition, int] = {}

    def append(self, key: bytes, value: bytes) -> None:
        """Append a record and return when it is acknowledged. Raises SchemaUnavailable, and REFUSALS as they are."""
        with self._lock, waited_for(self._topic):
            if self._producer is None:
                self._producer = self._transport.producer()
            produce_acknowledged(self._producer, self._topic, value, key=key, timeout_s=self._timeout_s)

    def read_to_end(self) -> list[tuple[bytes | None, bytes | None]]:
        """Return what was appended since the last call, up to the end as it is now. Raises as `append` does."""
        with self._lock, waited_for(self._topic):
            try:
                return self._read_to_end()
            except TransportError:
                self._forget_reader()
                raise

    def close(self) -> None:
        """Release what was opened."""
        with self._lock:
            self._forget_reader()
            if self._producer is not None:
                self._producer.close()
                self._producer = None

    def _read_to_end(self) -> list[tuple[bytes | None, bytes | None]]:
        reader, positions = self._open_reader()
        ends = {where: reader.watermarks(where).high for where in positions}
        deadline_s = time.monotonic() + self._timeout_s
        records: list[tuple[bytes | None, bytes | None]] = []
        while any(positions[where] < end for where, end in ends.items()):
            remaining_s = deadline_s - time.monotonic()
            if remaining_s <= 0:
                self._forget_reader()
                raise SchemaUnavailable(self._topic, f"{self._topic} was not read in {self._timeout_s:g} s")
            if PROCESS_STOP.is_set():
                raise SchemaUnavailable(self._topic, "the process was told to end")
            for record in reader.consume(READ_RECORDS, min(remaining_s, _SLICE_S)):
                records.append((record.key, record.value))
            # Not by the offsets of records: what ends the log may be no record.
            positions = {where: max(position, reader.position(where)) for where, position in positions.items()}
        self._positions = positions
        return records

    def _open_reader(self) -> tuple[Consumer, dict[TopicPartition, int]]:
        """The reader, and a copy of where it stands: kept only when all was read."""
        if self._reader is None:
            found = self._transport.admin().topics([self._topic]).get(self._topic)
            partitions = [TopicPartition(self._topic, n) for n in range(found.partitions if found else 0)]
            if not partitions:
                raise TransportError(f"there is no topic {self._topic}; run: afl-stream topics apply")
            reader = self._transport.consumer(None)
            positions = {where: self._start_of(reader, where) for where in partitions}
            reader.assign(positions)
            self._reader, self._positions = reader, positions
        return self._reader, dict(self._positions)

    def _start_of(self, reader: Consumer, where: TopicPartition) -> int:
        """Where reading goes on: the beginning, if the log no longer has what came next or is another log."""
        bounds = reader.watermarks(where)
        position = self._positions.get(where, bounds.low)
        return position if bounds.low <= position <= bounds.high else bounds.low

    def _forget_reader(self) -> None:
        if self._reader is not None:
            reader, self._reader = self._reader, None
            reader.close()
