"""The records of one partition that were read and not decoded yet, and what the first of them waits for."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from afl.core.backoff import Backoff
from afl.core.clock import MonotonicClock
from afl.core.text.warning_limits import LimitedLog
from afl_stream.errors import NewerFormat, SchemaGone, SchemaUnavailable
from afl_stream.transport import Record

log = logging.getLogger(__name__)

T = TypeVar("T")

_WAITS: Final = "%s; %s[%d] waits"


class RecordQueue:
    """Decodes records in their order. One that cannot be decoded now holds up those behind it, and no other partition.

    One whose schema is away is tried again after a while, longer each time. One of a newer format waits for an upgrade
    of this program: the partition is paused_reason for good.
    """

    __slots__ = (
        "_backoff",
        "_clock_s",
        "_failures",
        "_warnings",
        "is_away",
        "paused_reason",
        "records",
        "retry_at_s",
        "waits_for",
    )

    def __init__(self, backoff: Backoff, clock_s: MonotonicClock, warnings: LimitedLog) -> None:
        self._backoff = backoff
        self._clock_s = clock_s
        self._warnings = warnings
        self._failures = 0
        self.records: deque[Record] = deque()
        #: When to try again to decode the first of them.
        self.retry_at_s = float("-inf")
        #: Why the first of them waits for its schema.
        self.waits_for: str | None = None
        #: Whether it waits because no schema can be asked for now, and not because its own is gone.
        self.is_away = False
        #: Why nothing of this partition is decoded until an operator acts.
        self.paused_reason: str | None = None

    @property
    def is_held_up(self) -> bool:
        """Return whether the first record has to wait longer."""
        return self.paused_reason is not None or self.retry_at_s > self._clock_s()

    @property
    def problem(self) -> str | None:
        """The problem that an operator should know of, in words."""
        return self.paused_reason or self.waits_for

    def decode_first(self, decode: Callable[[Record], T]) -> T | None:
        """Return what `decode` gives for the first record; None: it has to wait, which is noted."""
        record = self.records[0]
        try:
            return decode(record)
        except (SchemaUnavailable, NewerFormat) as error:
            self._note_wait(record, error)
        return None

    def decode_below(self, offset: int, decode: Callable[[Record], T]) -> list[tuple[Record, T]]:
        """Take out the records below an offset with what `decode` gives for each, up to one that has to wait."""
        records = self.records
        decoded: list[tuple[Record, T]] = []
        try:
            while records and (record := records[0]).offset < offset:
                decoded.append((record, decode(record)))
                records.popleft()
        except (SchemaUnavailable, NewerFormat) as error:
            if decoded:
                self._failures = 0
            self._note_wait(record, error)
        else:
            self._failures, self.waits_for = 0, None
        return decoded

    def _note_wait(self, record: Record, error: SchemaUnavailable | NewerFormat) -> None:
        if isinstance(error, SchemaUnavailable):
            self._failures += 1
            self.retry_at_s = self._clock_s() + self._backoff.wait_s(self._failures)
            self.waits_for, self.is_away = _at(record, error), not isinstance(error, SchemaGone)
            self._warnings.warning(f"waits for schemas of {record.topic}", _WAITS, error, *record.topic_partition)
        else:
            self.paused_reason = _at(record, error)
            log.error("%s; the partition is paused", self.paused_reason)

    def remove_first(self) -> None:
        """Take the first record out: it is done with."""
        self.records.popleft()
        self._failures, self.waits_for = 0, None


def _at(record: Record, error: Exception) -> str:
    return f"{record.topic}[{record.partition}] offset {record.offset}: {error}"
