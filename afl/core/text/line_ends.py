"""What ends a line of AFL text: LF, CR LF, or a CR alone. All that reads texts or counts their lines asks here."""

from __future__ import annotations

import re

_LONE_CR = re.compile(r"\r(?!\n)")


def with_line_feeds(text: str) -> str:
    """Return the text with a line feed in place of every CR that stands alone. Offsets and columns stay as they are."""
    return _LONE_CR.sub("\n", text) if "\r" in text else text
