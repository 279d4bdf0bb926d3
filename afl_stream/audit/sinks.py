"""The port that audit lines are written to, and the sink that is a stream."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import BinaryIO, NamedTuple, Protocol

from afl.core.text.printable import ascii_json
from afl_stream.transport import TopicPartition


class LastWritten(NamedTuple):
    """The end of a partition's written lines: the offset of the last record, and the latest time of any."""

    offset: int
    time_ms: int


class AuditSink(Protocol):
    """The port that audit lines are written to."""

    def write(self, lines: Iterable[bytes]) -> None:
        """Take whole lines. They may wait for the next `sync`."""

    def is_due(self) -> bool:
        """Return whether what was taken should be made durable now. A sink may collect lines for a while."""

    def sync(self, ends: Mapping[TopicPartition, LastWritten]) -> None:
        """Return when all lines that were taken are durable. `ends` is how far they go, dropped records included."""

    def written(self, *, whole: bool = False) -> dict[TopicPartition, LastWritten]:
        """Return what is known to be written, by partition: from the end of the sink, or from the `whole` of it."""

    def asking_steps(self) -> Iterable[str]:
        """Return the steps of the newest events that are written, oldest first."""

    def close(self) -> None: ...


class AuditStream:
    """Lines into a binary stream that the caller opened, such as stdout. It does not remember what was written.

    With `in_ascii` other characters are JSON's escapes: for a terminal or a reader that takes no UTF-8.
    """

    def __init__(self, stream: BinaryIO, *, in_ascii: bool = False) -> None:
        self._stream = stream
        self._in_ascii = in_ascii

    def write(self, lines: Iterable[bytes]) -> None:
        text = b"".join(lines)
        self._stream.write(ascii_json(text.decode()).encode() if self._in_ascii else text)

    def is_due(self) -> bool:
        return True

    def sync(self, ends: Mapping[TopicPartition, LastWritten]) -> None:  # noqa: ARG002 - the port's signature
        self._stream.flush()

    def written(self, *, whole: bool = False) -> dict[TopicPartition, LastWritten]:  # noqa: ARG002 - the port's signature
        return {}

    def asking_steps(self) -> Iterable[str]:
        return ()

    def close(self) -> None:
        self._stream.flush()


def note_line(written: dict[TopicPartition, LastWritten], line: bytes) -> str | None:
    """Note where a line's record was; return the step that asks if it is an event."""
    try:
        entry = json.loads(line)
        partition = TopicPartition(str(entry["topic"]), int(entry["partition"]))
        before = written.get(partition, LastWritten(-1, -1))
        offset, time_ms = int(entry["offset"]), int(entry["time_ms"])
    except (ValueError, KeyError, TypeError):
        return None  # A line of someone else, or one about a gap.
    # The last offset, not the highest: a recreated topic counts from 0 again.
    written[partition] = LastWritten(offset, max(time_ms, before.time_ms))
    return str(entry["step"]) if entry.get("kind") == "event" and "step" in entry else None
