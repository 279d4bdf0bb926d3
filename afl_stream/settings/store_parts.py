"""The files of a SQLite store that several evaluator processes share: each has the partitions of one of them.

A file `store-kafka.sqlite3` in four parts is `store-kafka-1-of-4.sqlite3` to `store-kafka-4-of-4.sqlite3`, and
`store-kafka.parts` says so. That small file is what counts: parts that it does not name are left from an earlier
division, or from one that was not finished.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from afl.core.process.private_files import make_private_file
from afl_stream.errors import StreamError
from afl_stream.limits import MAX_STORE_FILES

_PARTS_SUFFIX: Final = ".parts"
_PART: Final = re.compile(r"([1-9][0-9]{0,2})/([1-9][0-9]{0,2})\Z")


@dataclass(frozen=True, slots=True)
class StorePart:
    """One of the parts of a store: `number` of `count`, from 1. It has the partitions p with p % count = number - 1."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number} of {self.count}"

    @property
    def as_option(self) -> str:
        """The part as `parse` reads it."""
        return f"{self.number}/{self.count}"

    def owns(self, partition: int) -> bool:
        """Return whether a control partition, and what is keyed into it, belongs to this part."""
        return partition % self.count == self.number - 1

    def partitions(self, control_partitions: int) -> frozenset[int]:
        """Return the numbers of this part's partitions."""
        return frozenset(filter(self.owns, range(control_partitions)))

    @classmethod
    def parse(cls, text: str) -> StorePart | None:
        """Read `2/4`; None for any other text."""
        found = _PART.match(text)
        if found is None or int(found[1]) > int(found[2]):
            return None
        return cls(int(found[1]), int(found[2]))


@dataclass(frozen=True, slots=True)
class StoreParts:
    """How a store is divided: into `count` files, under an id that no other division has."""

    count: int
    id: str

    @classmethod
    def new(cls, count: int) -> StoreParts:
        """Return a new division."""
        return cls(count, uuid.uuid4().hex[:16])

    def all(self) -> list[StorePart]:
        """Return the parts in order."""
        return [StorePart(number, self.count) for number in range(1, self.count + 1)]


class StorePartsUnreadable(StreamError):
    """The file that says how a store is divided cannot be read, or is missing beside its parts."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path}: {reason}; it would say into how many files the store is divided, as "
            '{"count": 4, "id": "..."}. Put it back from a copy of the folder; nothing was read'
        )
        self.path = path


def part_path(base: Path, part: StorePart) -> Path:
    """Return the file of a part of the store whose only file would be `base`."""
    return base.with_name(f"{base.stem}-{part.number}-of-{part.count}{base.suffix}")


def parts_pattern(base: Path, parts: StoreParts) -> str:
    """Return all files of a divided store as a shell matches them."""
    return str(base.with_name(f"{base.stem}-*-of-{parts.count}{base.suffix}"))


def possible_files(base: Path) -> list[Path]:
    """Return the files that are called like the store, or like a part of it, whether they count or not."""
    parts = base.parent.glob(f"{_escaped(base.stem)}-*-of-*{_escaped(base.suffix)}")
    return [*([base] if base.exists() else []), *sorted(parts)]


def parts_path(base: Path) -> Path:
    """Return the file that says how the store is divided."""
    return base.with_name(f"{base.stem}{_PARTS_SUFFIX}")


def parts_of(base: Path) -> StoreParts | None:
    """Return how the store is divided; None: it is, or would be, the file `base` alone. Raises StorePartsUnreadable."""
    path = parts_path(base)
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        if not base.exists() and possible_files(base):
            raise StorePartsUnreadable(path, "there is no such file beside the parts of a store") from None
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise StorePartsUnreadable(path, str(error)) from error
    try:
        found = json.loads(text)
        count, parts_id = found["count"], found["id"]
    except (ValueError, KeyError, TypeError) as error:
        raise StorePartsUnreadable(path, f"it holds {text[:100]!r}") from error
    if type(count) is not int or not 1 <= count <= MAX_STORE_FILES or not isinstance(parts_id, str) or not parts_id:
        raise StorePartsUnreadable(path, f"it holds {text[:100]!r}")
    return StoreParts(count, parts_id) if count > 1 else None


def write_parts(base: Path, parts: StoreParts) -> None:
    """Say durably that the store is divided so: whole, or not at all."""
    path = parts_path(base)
    new = path.with_name(f"{path.name}.new")
    make_private_file(new)
    with open(new, "w", encoding="utf-8") as file:
        json.dump(asdict(parts), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _escaped(text: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", text)
