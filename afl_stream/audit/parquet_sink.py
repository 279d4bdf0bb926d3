"""Audit lines as Parquet, in a folder of files that are written whole. Needs the extra `parquet` (pyarrow)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.process.private_files import make_private_file, make_private_folder
from afl_stream.audit.chain import HashChain, SealedLine
from afl_stream.audit.sinks import LastWritten
from afl_stream.errors import StreamError
from afl_stream.transport import TopicPartition

if TYPE_CHECKING:
    from types import ModuleType

#: Lines of one file, and how long lines wait for a file that they do not fill.
_MOST_LINES: Final = 50_000
_LONGEST_WAIT_S: Final = 60.0
#: The key of a file's metadata that says how far the lines go, and its form.
_METADATA: Final = b"afl.audit"
_FORMAT: Final = 1
_COLUMNS: Final = {
    "kind": "string", "topic": "string", "partition": "int32", "offset": "int64", "time_ms": "int64",
    "workflow": "string", "step": "string", "facet": "string", "line": "string", "chain": "string",
}  # fmt: skip


class ParquetMissing(StreamError):
    """The library that writes Parquet is not installed."""

    def __init__(self) -> None:
        super().__init__("Parquet needs pyarrow, which is not installed: pip install 'afl-stream[parquet]'")


class ParquetUnreadable(StreamError):
    """A file of a folder of audit lines cannot be read as one."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} is not a Parquet file of audit lines: {why}")
        self.path = path


class AuditParquet:
    """Files `part-00000001.parquet`, ... of a folder: each with the lines behind those of the file before it.

    A file is written under another name, made durable, and renamed: it is there whole, or not at all. Its metadata says
    how far the lines go up to its end. Lines are collected until they fill a file, or have waited for a minute; offsets
    move past them only then, so a crash loses none.
    """

    def __init__(
        self, folder: Path, *, most_lines: int = _MOST_LINES, longest_wait_s: float = _LONGEST_WAIT_S,
        clock_s: MonotonicClock = monotonic_s,
    ) -> None:  # fmt: skip
        """Open or create the folder. Raises ParquetMissing, ParquetUnreadable and OSError."""
        self._arrow = _arrow()
        make_private_folder(folder)
        self._folder, self._most_lines, self._longest_wait_s = folder, most_lines, longest_wait_s
        self._clock_s = clock_s
        for unfinished in folder.glob("*.unfinished"):
            unfinished.unlink()
        files = parquet_files(folder)
        self._count = 0 if not files else int(files[-1].stem.removeprefix("part-"))
        known: Any = _metadata(files[-1]) if files else {"head": "", "ends": []}
        self._written = {TopicPartition(t, n): LastWritten(offset, at) for t, n, offset, at in known["ends"]}
        self._chain = HashChain(known["head"])
        self._lines: list[tuple[bytes, str]] = []
        self._since_s = 0.0

    def write(self, lines: Iterable[bytes]) -> None:
        if not self._lines:
            self._since_s = self._clock_s()
        self._lines += [(line, self._chain.add(line)) for line in lines]

    def is_due(self) -> bool:
        waited_s = self._clock_s() - self._since_s
        return not self._lines or len(self._lines) >= self._most_lines or waited_s >= self._longest_wait_s

    def sync(self, ends: Mapping[TopicPartition, LastWritten]) -> None:
        """Write a file of the lines; without lines there is nothing to keep. Raises OSError.

        In this order:
          1. a file of another name is written and made durable   (a crash: the next start removes it)
          2. it gets its name                                     (a crash: its lines are written, and not again)
        """
        if not self._lines:
            return
        merged = {**self._written, **ends}
        name = f"part-{self._count + 1:08}.parquet"
        unfinished = self._folder / f"{name}.unfinished"
        make_private_file(unfinished)
        known = {
            "format": _FORMAT,
            "head": self._chain.head,
            "ends": [[*partition, *end] for partition, end in merged.items()],
        }
        table = self._table(known)
        with unfinished.open("r+b") as file:
            self._parquet().write_table(table, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(self._folder / name)
        _sync_folder(self._folder)
        self._count, self._written = self._count + 1, merged
        self._lines.clear()

    def written(self, *, whole: bool = False) -> dict[TopicPartition, LastWritten]:  # noqa: ARG002 - it knows all at once
        return dict(self._written)

    def asking_steps(self) -> Iterable[str]:
        return ()

    def close(self) -> None:
        """Do nothing: files are whole, and lines without a file are read again."""

    def _parquet(self) -> Any:
        import pyarrow.parquet

        return pyarrow.parquet

    def _table(self, known: Mapping[str, object]) -> Any:
        entries = [json.loads(line) for line, _ in self._lines]
        columns: dict[str, list[object]] = {
            name: [entry.get(name) for entry in entries] for name in _COLUMNS if name not in ("line", "chain")
        }
        columns["line"] = [line[:-1].decode() for line, _ in self._lines]
        columns["chain"] = [value for _, value in self._lines]
        schema = self._arrow.schema([(name, getattr(self._arrow, kind)()) for name, kind in _COLUMNS.items()])
        schema = schema.with_metadata({_METADATA: json.dumps(known).encode()})
        return self._arrow.table(columns, schema=schema)


def parquet_files(folder: Path) -> list[Path]:
    """Return the files of a folder of audit lines, in order."""
    return sorted(folder.glob("part-*.parquet"))


def lines_of_parquet(folder: Path) -> Iterator[SealedLine]:
    """Return the lines of a folder's files, in order. Raises ParquetMissing and ParquetUnreadable."""
    _arrow()
    import pyarrow.parquet

    for path in parquet_files(folder):
        _metadata(path)
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=["line", "chain"]):
                for line, chain in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                    yield SealedLine(f"{line}\n".encode(), chain)


def _metadata(path: Path) -> dict[str, Any]:
    import pyarrow
    import pyarrow.parquet

    try:
        found = (pyarrow.parquet.read_schema(path).metadata or {}).get(_METADATA)
    except pyarrow.ArrowException as error:
        raise ParquetUnreadable(path, str(error)) from error
    if found is None:
        raise ParquetUnreadable(path, "its metadata says nothing about an audit")
    known: dict[str, Any] = json.loads(found)
    if known["format"] > _FORMAT:
        raise ParquetUnreadable(path, f"it has format {known['format']}, and this release reads {_FORMAT}")
    return known


def _arrow() -> ModuleType:
    try:
        import pyarrow
    except ImportError as error:
        raise ParquetMissing from error
    return pyarrow  # type: ignore[no-any-return]  # it has no types


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
