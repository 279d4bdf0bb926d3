"""Audit lines at the end of a file: JSON, one line for each record, each with its place in the hash chain."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final

from afl.core.process.private_files import make_private_file, protect
from afl_stream.audit.chain import HashChain, split_line
from afl_stream.audit.sinks import LastWritten, note_line
from afl_stream.transport import TopicPartition

#: Bytes at a file's end that are read for the written offsets. A batch's lines take a small part of them.
TAIL_BYTES: Final = 16 * 1024 * 1024
_COPIED_BYTES: Final = 1024 * 1024


class AuditFile:
    """Lines at the end of a file. Opening the file removes a line that a crash has torn.

    Which records it has is read from its lines: what is whole was written, whatever was committed.
    """

    def __init__(self, path: Path) -> None:
        """Raise OSError when the file can neither be opened nor created."""
        make_private_file(path)
        protect(path)
        self._file = open(path, "a+b")  # noqa: SIM115 - open as long as the audit runs
        self._is_dirty = False
        self._asking: list[str] = []
        self._written: dict[TopicPartition, LastWritten] = {}
        self._chain = self._read_tail()

    def write(self, lines: Iterable[bytes]) -> None:
        self._file.write(b"".join(map(self._chain.sealed, lines)))
        self._file.flush()
        self._is_dirty = True

    def is_due(self) -> bool:
        return True

    def sync(self, ends: Mapping[TopicPartition, LastWritten]) -> None:  # noqa: ARG002 - its lines tell
        if self._is_dirty:
            os.fsync(self._file.fileno())
            self._is_dirty = False

    def written(self, *, whole: bool = False) -> dict[TopicPartition, LastWritten]:
        if not whole:
            return dict(self._written)
        self._file.seek(0)
        written: dict[TopicPartition, LastWritten] = {}
        for line in self._file:
            note_line(written, line)
        return written

    def asking_steps(self) -> Iterable[str]:
        return self._asking

    def close(self) -> None:
        self._file.close()

    def _read_tail(self) -> HashChain:
        """Read what the last lines tell; return the chain behind the last whole one."""
        size = self._file.seek(0, io.SEEK_END)
        start = max(0, size - TAIL_BYTES)
        self._file.seek(start)
        tail = self._file.read()
        whole = tail.rfind(b"\n") + 1
        if whole < len(tail):
            self._file.truncate(start + whole)
        lines = [line + b"\n" for line in tail[:whole].split(b"\n")[:-1]]
        for line in lines[1 if start else 0 :]:  # The first of a part of a file is part of a line.
            step = note_line(self._written, line)
            if step is not None:
                self._asking.append(step)
        head, behind = _last_value(lines)
        if not head and start:
            self._file.seek(0)
            head, behind = _last_value(self._file)
        return HashChain(head, _parts(self._file, start + whole - behind if head else 0))


def _last_value(lines: Iterable[bytes]) -> tuple[str, int]:
    """Return the last chain value of these lines, "" without one, and how many bytes are behind its line."""
    head, behind = "", 0
    for line in lines:
        value = split_line(line).value
        head, behind = (head, behind + len(line)) if value is None else (value, 0)
    return head, behind


def _parts(file: BinaryIO, start: int) -> Iterator[bytes]:
    """Return the bytes of a file from there on, which no chain value covers yet."""
    file.seek(start)
    return iter(lambda: file.read(_COPIED_BYTES), b"")
