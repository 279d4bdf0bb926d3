"""The line ends of AFL text: LF, CR LF, or a CR alone. All code that reads texts or counts lines uses this module."""

from __future__ import annotations

import re

_LONE_CR = re.compile(r"\r(?!\n)")


def with_line_feeds(text: str) -> str:
    """Return the text with a line feed for every CR that stands alone. Offsets and columns stay the same."""
    return _LONE_CR.sub("\n", text) if "\r" in text else text
