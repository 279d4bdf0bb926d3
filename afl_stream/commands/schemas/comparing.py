"""What keeps two schemas of one subject from being used side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from afl_stream.registry.compatibility_levels import LEVELS
from afl_stream.wire.avro.compatibility import incompatibilities


class KnownSchema(NamedTuple):
    """An earlier schema: what it is called, and its text."""

    label: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFinding:
    """A place where an earlier schema and the new one do not fit. `direction`: which of them would read."""

    against: str
    direction: str
    path: str
    why: str

    def sentence(self) -> str:
        """Return the finding for people."""
        place = self.path or "the record"
        if self.direction == "backward":
            return f"{place}: records of {self.against} cannot be read with the new schema: {self.why}"
        return f"{place}: new records cannot be read with {self.against}: {self.why}"

    def document(self) -> dict[str, Any]:
        """Return the finding for programs."""
        return {"against": self.against, "direction": self.direction, "path": self.path, "why": self.why}


def compared(new: str, known: Sequence[KnownSchema], level: str) -> list[SchemaFinding]:
    """Return what a compatibility level forbids about a new schema beside earlier ones, oldest first.

    Raises Unreadable for a text that is not an Avro schema.
    """
    reads_old, is_read_by_old, is_transitive = LEVELS[level]
    others: Iterable[KnownSchema] = known if is_transitive else known[-1:]
    findings: list[SchemaFinding] = []
    for other in others:
        if reads_old:
            findings += _found(other.label, "backward", new, other.text)
        if is_read_by_old:
            findings += _found(other.label, "forward", other.text, new)
    return findings


def _found(label: str, direction: str, reader: str, writer: str) -> Iterator[SchemaFinding]:
    for path, why in incompatibilities(reader, writer):
        yield SchemaFinding(against=label, direction=direction, path=path, why=why)
