"""What every node of the syntax tree is, and the place in a text that it has."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import NamedTuple


class SourceLocation(NamedTuple):
    """A stretch of source text: 1-based lines and columns, the end column exclusive."""

    line: int
    column: int
    end_line: int | None = None
    end_column: int | None = None
    source_id: str | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ASTNode:
    """What every node has besides its own fields.

    Comparison and text are written once, here: generated for each of the classes they would take half of the time
    that a small file takes to compile.
    """

    node_id: str = field(default="", kw_only=True, compare=False)
    location: SourceLocation | None = field(default=None, kw_only=True, compare=False)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, item.name) == getattr(other, item.name) for item in fields(self) if item.compare)

    #: Nodes hold lists, so like those they have no hash.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = ", ".join(f"{item.name}={getattr(self, item.name)!r}" for item in fields(self) if item.compare)
        return f"{type(self).__name__}({parts})"
