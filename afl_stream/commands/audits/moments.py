"""Moments as people type them: a date, a time, or how long ago."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import click

from afl.core.clock import epoch_ms
from afl_stream.settings.durations import duration_ms

#: Examples for help and messages.
EXAMPLES: Final = "2026-11-30, 2026-11-30T08:15, 2026-11-30T08:15:00Z, or 90m, 12h, 7d ago"


def moment_ms(text: str, now_ms: int) -> int | None:
    """Return the moment in ms since the epoch; None for another text. A time without a zone is of this machine's."""
    ago_ms = duration_ms(text)
    if ago_ms is not None:
        return now_ms - ago_ms
    try:
        return int(datetime.fromisoformat(text.strip()).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


class Moment(click.ParamType[int]):
    """A moment, in ms since the epoch."""

    name = "moment"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = value if isinstance(value, int) else moment_ms(str(value), epoch_ms())
        if found is None:
            self.fail(f"{value!r}: expected a time such as {EXAMPLES}", param, ctx)
        return found


class Begin(click.ParamType[object]):
    """Where a reader begins: `beginning`, `latest`, or a moment."""

    name = "begin"
    words: Final = ("beginning", "latest")

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if isinstance(value, int) or value in self.words:
            return value if isinstance(value, int) else str(value)
        found = moment_ms(str(value), epoch_ms())
        if found is None:
            self.fail(f"{value!r}: expected `beginning`, `latest`, or a time such as {EXAMPLES}", param, ctx)
        return found
