"""Cron expressions in a time zone: croniter finds the times of the clock on the wall, and this module their instants.

A clock on the wall is set ahead and back, and what a job means then is not in its expression. The rule here:

  * An expression with hours of its own (`30 2 * * *`) names times of the day, and each fires once. One that does not
    exist, because the clock is set ahead over it, fires at the moment of the change; all of that hour are one firing.
    One that exists twice fires the first time.
  * An expression of every hour (`*/15 * * * *`) goes by the time that passes: it fires in both of two equal hours, and
    an hour that is left out has no firing.

croniter is never given a time zone, so its own treatment of these days has no part in this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final

from croniter import croniter

from afl_stream.errors import StreamError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
#: After that long without a match there is none: the rarest is the fifth weekday of a February, 40 years apart.
_YEARS: Final = 45
_NICKNAMES: Final = ("@hourly", "@daily", "@weekly", "@monthly", "@yearly")
#: Where the fields of an expression stand, minutes first, as croniter has them.
_HOURS: Final = 1
#: The fields in the order in which they are written, and what each may be.
_FIELDS: Final = (
    ("second", "0 to 59"),
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of the month", "1 to 31, L for the last"),
    ("month", "1 to 12 or jan to dec"),
    ("day of the week", "0 to 7 (0 and 7 are Sunday) or sun to sat"),
)


class BadCron(StreamError):
    """An expression cannot be read."""


class Cron:
    """A cron expression of 5 fields, or of 6 with the seconds first, in a time zone."""

    def __init__(self, text: str, zone: tzinfo) -> None:
        """Raise BadCron, which says what is wrong."""
        fields = text.split()
        if len(fields) not in (5, 6) and text not in _NICKNAMES:
            count = f"{len(fields)} field{'s' * (len(fields) != 1)}"
            raise BadCron(
                f"it has {count}; expected 5: minute hour day-of-month month day-of-week, for instance "
                "'30 2 * * *' for 02:30 each day; or 6, with the second in front; "
                f"or one of {', '.join(_NICKNAMES)}"
            )
        # Names of croniter's own, random and hashed: no two evaluators need to agree on the times of the first.
        if any(field[:1].upper() in ("H", "R") for field in fields):
            raise BadCron("H and R choose a time at random; give the time")
        try:
            self._walls = croniter(
                text, datetime(1970, 1, 1), second_at_beginning=True, max_years_between_matches=_YEARS
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadCron(_wrong_field(fields) or str(error) or "it cannot be read") from error
        self._zone = zone
        self._is_of_every_hour = list(self._walls.expanded[_HOURS]) == ["*"]

    def next_after(self, at_ms: int) -> int | None:
        """Return the first time after this one, in milliseconds since the epoch; None when there is none."""
        try:
            found = self._next_after(_EPOCH + timedelta(seconds=at_ms // 1_000))
        except OverflowError:
            return None
        return None if found is None else (found - _EPOCH) // _SECOND * 1_000

    def _next_after(self, at: datetime) -> datetime | None:
        local = at.astimezone(self._zone)
        wall = local.replace(tzinfo=None, fold=0)
        found = self._first_behind(wall, at)
        again = self._instant(wall, fold=1)
        if self._is_of_every_hour and not local.fold and again > at:
            # This hour comes again: its beginning may be nearer than what follows on the wall.
            change = self._change(at, again)
            back = change.astimezone(self._zone).replace(tzinfo=None, fold=0)
            repeated = self._first_behind(back - _SECOND, change - _SECOND)
            if repeated is not None and (found is None or repeated < found):
                return repeated
        return found

    def _first_behind(self, wall: datetime, after: datetime) -> datetime | None:
        """Return the first instant after `after` among those of the matching times behind `wall`."""
        while True:
            try:
                wall = self._walls.get_next(datetime, start_time=wall)
            except ValueError:  # No match; or the end of Python's calendar, the year 9999.
                return None
            for instant in self._instants(wall):
                if instant > after:
                    return instant

    def _instants(self, wall: datetime) -> Iterator[datetime]:
        """Yield when a time on the wall fires."""
        first = self._instant(wall, fold=0)
        exists = first.astimezone(self._zone).replace(tzinfo=None, fold=0) == wall
        if exists:
            yield first
            if self._is_of_every_hour and (second := self._instant(wall, fold=1)) != first:
                yield second
        elif not self._is_of_every_hour:
            yield self._change(self._instant(wall, fold=1), first)

    def _instant(self, wall: datetime, *, fold: int) -> datetime:
        return wall.replace(tzinfo=self._zone, fold=fold).astimezone(UTC)

    def _change(self, before: datetime, behind: datetime) -> datetime:
        """Return the first second of the offset that holds at `behind`; another one holds at `before`."""
        low, high = 0, (behind - before) // _SECOND
        offset = behind.astimezone(self._zone).utcoffset()
        while high - low > 1:
            middle = (low + high) // 2
            if (before + middle * _SECOND).astimezone(self._zone).utcoffset() == offset:
                high = middle
            else:
                low = middle
        return before + high * _SECOND


def _wrong_field(fields: Sequence[str]) -> str | None:
    """Return which field cannot be read, and what it may be; None when each can be by itself."""
    names = _FIELDS[-len(fields) :]
    for number, ((name, wanted), field) in enumerate(zip(names, fields, strict=True)):
        alone = ["*"] * len(fields)
        alone[number] = field
        try:
            croniter(" ".join(alone), datetime(1970, 1, 1), second_at_beginning=True)
        except (ValueError, KeyError, TypeError, AttributeError):
            return f"the {name} is {field!r}; expected {wanted}, a list (1,5), a range (1-5), or a step (*/5)"
    return None


@lru_cache(maxsize=1_000)
def cron_of(text: str, zone: tzinfo) -> Cron:
    """Return the expression, read once. Raises BadCron."""
    return Cron(text, zone)
