"""Moments as people write them: ages, and times of the calendar."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from afl_stream.settings.durations import duration_ms

#: The forms that `moment_ms` reads, for messages.
TIME_FORMS: Final = "an age such as 2h or 30d, or a time such as 2030-01-31, 2030-01-31T08:00 or 2030-01-31T08:00+01:00"
#: The latest moment that a store and JSON hold exactly.
_LATEST_MS: Final = 1 << 53


def moment_ms(text: str, now_ms: int) -> int | None:
    """Return a moment, ms since the epoch; None for a text that is none.

    `2h` is two hours before `now_ms`. A time without a zone is of this machine, as lists show them.
    """
    age_ms = duration_ms(text)
    if age_ms is not None:
        return max(0, now_ms - age_ms)
    try:
        found = int(datetime.fromisoformat(text).timestamp() * 1_000)
    except (ValueError, OverflowError, OSError):
        return None
    return min(max(0, found), _LATEST_MS)
