"""Deadlines of events by setting: `shop.Charge=2m, desk.*=1h`."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from afl_stream.settings.durations import EXAMPLES, duration_ms

#: What the setting has to be, in words.
DEADLINES_FORM: Final = (
    f"FACET=TIME, separated by commas: each facet or pattern once, and {EXAMPLES}: shop.Charge=2m, desk.*=1h"
)
_PATTERN: Final = re.compile(r"[A-Za-z0-9_.*?]+\Z", re.ASCII)
#: Facets whose deadline is remembered.
_REMEMBERED: Final = 10_000


class Deadlines:
    """The time that agents have for the events of a facet, where the program gives none."""

    def __init__(self, by_pattern: dict[str, int]) -> None:
        """Take milliseconds by the name or pattern of facets."""
        #: A name wins over a pattern, and a longer pattern over a shorter one.
        self._ordered = sorted(by_pattern.items(), key=lambda item: (_is_name(item[0]), len(item[0])), reverse=True)
        self.of = lru_cache(maxsize=_REMEMBERED)(self._find)

    def __bool__(self) -> bool:
        return bool(self._ordered)

    def _find(self, facet: str) -> int | None:
        """Return the time for an event of a facet, in milliseconds; None: there is no limit."""
        return next((time_ms for pattern, time_ms in self._ordered if fnmatchcase(facet, pattern)), None)


def deadlines_of(text: str) -> Deadlines | None:
    """Return the deadlines that a setting gives; None for a text that is none. An empty text gives none."""
    by_pattern: dict[str, int] = {}
    for entry in text.split(",") if text.strip() else ():
        pattern, _, time = (part.strip() for part in entry.partition("="))
        time_ms = duration_ms(time)
        if not _PATTERN.match(pattern) or not time_ms or pattern in by_pattern:
            return None
        by_pattern[pattern] = time_ms
    return Deadlines(by_pattern)


def _is_name(pattern: str) -> bool:
    return not {"*", "?"} & set(pattern)
