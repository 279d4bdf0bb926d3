"""Lengths of time as people write them in settings and options: `30d`, `12h`, `45m`, `90s`."""

from __future__ import annotations

import re
from typing import Final

_DURATION: Final = re.compile(r"([0-9]{1,9})\s*([smhd])\Z", re.ASCII)
_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

#: Examples for an error message.
EXAMPLES: Final = "a time such as 30d, 12h, 45m or 90s"


def duration_ms(text: str) -> int | None:
    """Return a length of time in milliseconds; None for another text."""
    match = _DURATION.match(text.strip())
    return None if match is None else int(match[1]) * _MS[match[2]]
