"""Headers that name the sensitive values of a record, for readers that know no program, such as agents and audits."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from afl_stream.transport import Headers

#: On a record with values: the names of those that are sensitive, separated by commas.
SENSITIVE_HEADER: Final = "afl_sensitive"
#: On an event: the names of its facet's sensitive returns. An agent repeats them on its answer as SENSITIVE_HEADER.
RETURNS_HEADER: Final = "afl_sensitive_returns"

_NONE: Final[frozenset[str]] = frozenset()


def mark_headers(names: Collection[str], returns: Collection[str] = ()) -> Headers:
    """Return the headers that name these; none where there is nothing to name."""
    marked = ((SENSITIVE_HEADER, names), (RETURNS_HEADER, returns))
    return tuple((header, ",".join(sorted(found)).encode()) for header, found in marked if found)


def marked_names(headers: Iterable[tuple[str, bytes | None]], header: str = SENSITIVE_HEADER) -> frozenset[str]:
    """Return the names that such a header has; none without it."""
    for name, content in headers:
        if name == header and content:
            return frozenset(content.decode("utf-8", "replace").split(","))
    return _NONE
