"""An audit that reads on until it is told to stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from afl_stream.audit.audit import Audit

#: Turns without a record after which all is read.
_EMPTY_TURNS: Final = 2


def follow(audit: Audit, should_stop: Callable[[], bool]) -> None:
    """Run an audit until it is told to stop, then read to the end, and close it."""
    empty = 0
    try:
        while empty < _EMPTY_TURNS:
            before = audit.counts
            lines = audit.turn(audit.config.poll_timeout_s)
            moved = lines or audit.counts.repeated != before.repeated
            empty = 0 if moved or not should_stop() else empty + 1
    finally:
        audit.close()
