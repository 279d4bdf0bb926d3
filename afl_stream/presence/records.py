"""The presence record of one process: a JSON object, which programs in any language can write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from afl.core.clock import has_waited

#: The form of these records. Readers take what they know of newer ones.
FORM: Final = 1
#: A process that has missed so many announcements counts as gone.
MISSED: Final = 3
#: Bounds of what is taken from the records of others.
_MOST_CHARS: Final = 1_000
_MOST_NAMES: Final = 10_000
_LONGEST_INTERVAL_S: Final = 86_400
#: Events that are tried again, of one process.
MOST_FAILED_TRIES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTry:
    """A handler's last failed try at an event that is tried again. Times are ms since the epoch."""

    step_id: str
    attempt: int
    #: How many tries there were.
    tries: int
    error: str
    failed_at: int
    next_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """What one process says of itself. Only `id`, `kind`, `seen_at` and `interval_s` have to be there."""

    #: The key of its record: unique to this run of the process.
    id: str
    #: `evaluator`, `agent`, `audit`, or another word.
    kind: str
    #: When it was announced, ms since the epoch, and after how many seconds it is announced again.
    seen_at: int
    interval_s: int
    name: str = ""
    host: str = ""
    language: str = ""
    version: str = ""
    groups: tuple[str, ...] = ()
    facets: tuple[str, ...] = ()
    partitions: int | None = None
    #: Records behind what is committed, and events that are worked on.
    lag: int | None = None
    in_flight: int | None = None
    handled: int | None = None
    failed: int | None = None
    started_at: int | None = None
    ready: bool = True
    reasons: tuple[str, ...] = ()
    retrying: tuple[FailedTry, ...] = ()

    def is_gone(self, now_ms: int) -> bool:
        """Return whether it has missed too many announcements."""
        return has_waited(self.seen_at, now_ms, MISSED * self.interval_s * 1_000)


def encode(presence: Presence) -> bytes:
    """Return the record's value."""
    document = {"presence": FORM, **{name: value for name, value in asdict(presence).items() if value is not None}}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def decode(key: bytes | None, value: bytes | None) -> Presence | None:
    """Return what a record says; None for a tombstone, and for what is no presence record."""
    if not key or not value:
        return None
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    reader = _Reader(document)
    kind, seen_at, interval_s = reader.text("kind"), reader.count("seen_at"), reader.count("interval_s")
    if not kind or seen_at is None or not interval_s:
        return None
    return Presence(
        id=key.decode("utf-8", "replace")[:_MOST_CHARS],
        kind=kind,
        seen_at=seen_at,
        interval_s=min(interval_s, _LONGEST_INTERVAL_S),
        name=reader.text("name"),
        host=reader.text("host"),
        language=reader.text("language"),
        version=reader.text("version"),
        groups=reader.texts("groups"),
        facets=reader.texts("facets"),
        partitions=reader.count("partitions"),
        lag=reader.count("lag"),
        in_flight=reader.count("in_flight"),
        handled=reader.count("handled"),
        failed=reader.count("failed"),
        started_at=reader.count("started_at"),
        ready=document.get("ready", True) is not False,
        reasons=reader.texts("reasons"),
        retrying=reader.failed_tries("retrying"),
    )


class _Reader:
    """The members of a document from elsewhere: what has another type counts as missing."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def text(self, name: str) -> str:
        found = self._document.get(name)
        return found[:_MOST_CHARS] if isinstance(found, str) else ""

    def texts(self, name: str) -> tuple[str, ...]:
        found = self._document.get(name)
        if not isinstance(found, list):
            return ()
        return tuple(text[:_MOST_CHARS] for text in found[:_MOST_NAMES] if isinstance(text, str))

    def failed_tries(self, name: str) -> tuple[FailedTry, ...]:
        found = self._document.get(name)
        if not isinstance(found, list):
            return ()
        readers = [_Reader(entry) for entry in found[:MOST_FAILED_TRIES] if isinstance(entry, dict)]
        return tuple(
            FailedTry(
                step_id=reader.text("step_id"),
                attempt=reader.count("attempt") or 0,
                tries=reader.count("tries") or 0,
                error=reader.text("error"),
                failed_at=reader.count("failed_at") or 0,
                next_at=reader.count("next_at") or 0,
            )
            for reader in readers
        )

    def count(self, name: str) -> int | None:
        found = self._document.get(name)
        return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 1 << 53 else None
