"""Whether audit lines are as they were written, and whether offsets are missing among them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from afl_stream.audit.chain import ChainReport, SealedLine, check_chain, lines_of_file
from afl_stream.audit.sqlite_sink import is_database, lines_of_database
from afl_stream.errors import StreamError
from afl_stream.transport import TopicPartition

#: Unexplained gaps that a report names; the others are counted.
MOST_GAPS = 100


class NoAuditLines(StreamError):
    """There is nothing to verify at a path."""

    def __init__(self, path: Path, found: str) -> None:
        super().__init__(f"{path} {found}; expected a file that `afl-stream audit --file` has written")
        self.path = path


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingOffsets:
    """Offsets of a partition that have no line, and no line says why."""

    partition: TopicPartition
    expected: int
    found: int
    line: int


@dataclass(slots=True, kw_only=True)
class OffsetReport:
    """What the offsets of the lines tell. `explained` counts offsets by the reason that a line gives.

    `is_filtered`: an audit has left records out, so that missing offsets mean nothing.
    """

    explained: dict[str, int] = field(default_factory=dict)
    missing: list[MissingOffsets] = field(default_factory=list)
    missing_count: int = 0
    is_filtered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of `verify`. `torn_bytes`: the file ends within a line."""

    chain: ChainReport
    offsets: OffsetReport
    torn_bytes: int
    missing_heads: tuple[str, ...]

    @property
    def is_sealed(self) -> bool:
        """Return whether a chain value covers the lines. Without one, nothing tells whether they were changed."""
        return bool(self.chain.head)

    @property
    def is_intact(self) -> bool:
        """Return whether a chain covers the lines, and nothing speaks against them."""
        return self.is_sealed and not (self.chain.break_count or self.missing_heads or self.offsets.missing_count)


def verify(path: Path, heads: Iterable[str] = ()) -> Verification:
    """Check the lines at a path. Each of `heads`, chain values that were kept elsewhere, must be that of some line.

    Raises NoAuditLines, AuditDatabaseRefused, ParquetMissing, ParquetUnreadable and OSError.
    """
    wanted = tuple(heads)
    torn: list[int] = []
    offsets = _Offsets()
    chain = check_chain(offsets.watched(_lines_at(path, torn)), wanted)
    if not chain.lines:
        raise NoAuditLines(path, "has no lines")
    if not (chain.head or offsets.has_entries):
        raise NoAuditLines(path, "has no line of an audit")
    return Verification(
        chain=chain,
        offsets=offsets.report(),
        torn_bytes=sum(torn),
        missing_heads=tuple(head for head in wanted if head not in chain.heads),
    )


def _lines_at(path: Path, torn: list[int]) -> Iterator[SealedLine]:
    if not path.exists():
        raise NoAuditLines(path, "does not exist")
    if path.is_dir():
        from afl_stream.audit.parquet_sink import lines_of_parquet

        return lines_of_parquet(path)
    return lines_of_database(path) if is_database(path) else lines_of_file(_whole_lines(path, torn))


def _whole_lines(path: Path, torn: list[int]) -> Iterator[bytes]:
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line
            else:
                torn.append(len(line))


class _Offsets:
    """Follows the offsets of each partition through the lines."""

    def __init__(self) -> None:
        self._next: dict[TopicPartition, int] = {}
        self._report = OffsetReport()
        #: Whether a line was that of an audit: a JSON object with its kind.
        self.has_entries = False

    def report(self) -> OffsetReport:
        """Return what was found."""
        return self._report

    def watched(self, lines: Iterable[SealedLine]) -> Iterator[SealedLine]:
        """Return the lines, and look at each."""
        for number, sealed in enumerate(lines, 1):
            self._look(sealed.line, number)
            yield sealed

    def _look(self, line: bytes, number: int) -> None:
        try:
            entry = json.loads(line)
            kind = entry["kind"]
            self.has_entries = True
            if kind == "filter":
                self._report.is_filtered = True
                return
            partition = TopicPartition(str(entry["topic"]), int(entry["partition"]))
            if kind in ("gap", "lost"):
                begin, end = int(entry["expected_offset"]), int(entry["found_offset"])
                reason = str(entry.get("reason", "retention"))
                self._report.explained[reason] = self._report.explained.get(reason, 0) + end - begin
                self._expect(partition, begin, number)
                self._next[partition] = end
                return
            offset = int(entry["offset"])
        except (ValueError, KeyError, TypeError):
            return  # Not a line about a record.
        self._expect(partition, offset, number)
        # The last one, not the highest: a recreated topic counts from 0 again.
        self._next[partition] = offset + 1

    def _expect(self, partition: TopicPartition, offset: int, number: int) -> None:
        expected = self._next.get(partition, offset)
        if offset <= expected or self._report.is_filtered:
            return
        self._report.missing_count += offset - expected
        if len(self._report.missing) < MOST_GAPS:
            missing = MissingOffsets(partition=partition, expected=expected, found=offset, line=number)
            self._report.missing.append(missing)
