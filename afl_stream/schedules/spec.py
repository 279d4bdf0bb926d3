"""What a schedule says: the workflow that it starts, when, and what to do about firings that cannot start at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from afl.core.text.near_names import close_names, did_you_mean
from afl.core.text.printable import printable
from afl_stream.errors import StreamError
from afl_stream.limits import DEFAULT_CATCH_UP_MS, LONG_MAX, MAX_CATCH_UP_MS, MIN_CATCH_UP_MS, MIN_INTERVAL_MS
from afl_stream.wire.schedule_commands import PutSchedule, check_schedule_id

_UTC: Final = "UTC"
#: The longest cron expression: one of a megabyte takes seconds to read.
_MOST_CRON_CHARS: Final = 1_000


#: The end of the year 9999: later moments have no name, and the latest no place in a store.
_LAST_MS: Final = 253_402_300_799_999


class ScheduleRefused(StreamError):
    """A schedule cannot be kept as it was given. `part` is the part of it that is wrong, `text` says how."""

    def __init__(self, part: str, text: str) -> None:
        super().__init__(f"{part}: {text}")
        self.part = part
        self.text = text


class Overlap(StrEnum):
    """What a firing does while an earlier run of its schedule is unfinished. Values are stored: never change one."""

    #: It starts nothing.
    SKIP = "skip"
    #: It starts its run when the earlier one has ended; one firing waits at most, later ones start nothing.
    QUEUE = "queue"
    #: It starts its run all the same.
    ALLOW = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """What a schedule says. Times are milliseconds since the epoch.

    It fires at the times of `cron` in `time_zone`, or each `interval_ms`, counted from `start_at` or else from the
    epoch; not before `start_at`, nor after `end_at`.
    """

    workflow: str
    inputs: Mapping[str, object] = field(default_factory=dict)
    #: Fingerprint of the program; None: the workflow's current one at each firing.
    program: str | None = None
    cron: str | None = None
    time_zone: str = _UTC
    interval_ms: int | None = None
    start_at: int | None = None
    end_at: int | None = None
    overlap: Overlap = Overlap.SKIP
    #: A firing may start this late. Older ones are missed.
    catch_up_ms: int = DEFAULT_CATCH_UP_MS

    def next_firing(self, after_ms: int) -> int | None:
        """Return the first firing after this time; None when there is none."""
        if self.start_at is not None:
            after_ms = max(after_ms, self.start_at - 1)
        if self.interval_ms is not None:
            first = self.start_at or 0
            at: int | None = first + ((after_ms - first) // self.interval_ms + 1) * self.interval_ms
        else:
            # Here, because a client that has no schedules needs no cron expressions.
            from afl_stream.schedules.cron import cron_of

            assert self.cron is not None
            at = cron_of(self.cron, ZoneInfo(self.time_zone)).next_after(after_ms)
        last_ms = _LAST_MS if self.end_at is None else min(self.end_at, _LAST_MS)
        return None if at is None or at > last_ms else at

    def next_firings(self, after_ms: int, count: int) -> list[int]:
        """Return the first firings after this time."""
        found: list[int] = []
        at = self.next_firing(after_ms)
        while at is not None and len(found) < count:
            found.append(at)
            at = self.next_firing(at)
        return found


def spec_of(command: PutSchedule) -> ScheduleSpec:
    """Return what a command asks for, checked. Raises IdRefused and ScheduleRefused."""
    check_schedule_id(command.schedule_id)
    if not command.workflow:
        raise ScheduleRefused("workflow", "the name of a workflow is expected")
    if (command.cron is None) == (command.interval_ms is None):
        found = "neither is given" if command.cron is None else "both are given"
        raise ScheduleRefused("times", f"either a cron expression or an interval is expected; {found}")
    _check_times(command)
    spec = ScheduleSpec(
        workflow=command.workflow,
        inputs=dict(command.inputs),
        program=command.program,
        cron=command.cron,
        time_zone=_UTC if command.time_zone is None else command.time_zone,
        interval_ms=command.interval_ms,
        start_at=command.start_at,
        end_at=command.end_at,
        overlap=_overlap(command.overlap),
        catch_up_ms=DEFAULT_CATCH_UP_MS if command.catch_up_ms is None else command.catch_up_ms,
    )
    zone = zone_of(spec.time_zone)
    if spec.cron is not None:
        from afl_stream.schedules.cron import BadCron, cron_of

        if len(spec.cron) > _MOST_CRON_CHARS:
            text = f"{len(spec.cron):,} characters are too long: {_MOST_CRON_CHARS:,} are the most"
            raise ScheduleRefused("cron", text)
        try:
            cron = cron_of(spec.cron, zone)
        except BadCron as error:
            text = f"{printable(repr(spec.cron))} cannot be used: {printable(str(error))}"
            raise ScheduleRefused("cron", text) from None
        if cron.next_after(0) is None:
            raise ScheduleRefused("cron", f"{printable(repr(spec.cron))} never comes: no date fits it")
    elif command.time_zone is not None:
        raise ScheduleRefused("time_zone", "a time zone goes with a cron expression; an interval has none")
    return spec


def check_fires(spec: ScheduleSpec, now_ms: int) -> None:
    """Raise ScheduleRefused for a schedule that will never fire, as it stands now."""
    if spec.next_firing(now_ms) is None:
        raise ScheduleRefused("end_at", "no firing is left before the end; give a later end, or none")


def _check_times(command: PutSchedule) -> None:
    for part, at in (("start_at", command.start_at), ("end_at", command.end_at)):
        if at is not None and not 0 <= at <= _LAST_MS:
            text = f"{at} is no time: milliseconds since the epoch are expected, of the year 9999 at the latest"
            raise ScheduleRefused(part, text)
    if command.interval_ms is not None and not MIN_INTERVAL_MS <= command.interval_ms <= LONG_MAX:
        raise ScheduleRefused("interval", f"{command.interval_ms} ms is too short: a second (1000 ms) is the least")
    if command.start_at is not None and command.end_at is not None and command.end_at < command.start_at:
        raise ScheduleRefused("end_at", "the end is before the start")
    catch_up_ms = command.catch_up_ms
    if catch_up_ms is not None and not MIN_CATCH_UP_MS <= catch_up_ms <= MAX_CATCH_UP_MS:
        least_s, most_d = MIN_CATCH_UP_MS // 1_000, MAX_CATCH_UP_MS // 86_400_000
        raise ScheduleRefused("catch_up_ms", f"{catch_up_ms} ms is not between {least_s} s and {most_d} days")


def _overlap(found: str | None) -> Overlap:
    try:
        return Overlap.SKIP if found is None else Overlap(found)
    except ValueError:
        raise ScheduleRefused("overlap", f"{printable(repr(found))} is none of {', '.join(Overlap)}") from None


def zone_of(name: str) -> ZoneInfo:
    """Return a time zone by its name. Raises ScheduleRefused, with a near name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        near = _near_zones(name)
        hint = did_you_mean(near) or "its name is Area/City, for instance Europe/Berlin, or UTC"
        raise ScheduleRefused("time_zone", f"{printable(repr(name))} is no time zone; {hint}") from None


def _near_zones(name: str) -> list[str]:
    """Return zones that may be meant: by the whole name, or by the city alone."""
    # A short name such as CEST resembles others, like EST, that are hours apart from it.
    known = sorted(zone for zone in available_timezones() if "/" in zone or zone == _UTC)
    city = name.rpartition("/")[2].replace(" ", "_").casefold()
    by_city = {zone.rpartition("/")[2].casefold(): zone for zone in known if zone[:1].isupper() and "/" in zone}
    if city in by_city:
        return [by_city[city]]
    return close_names(name, known, 1, 0.8) or [by_city[found] for found in close_names(city, by_city, 1, 0.8)]


def command_of(
    schedule_id: str, spec: ScheduleSpec, *, paused: bool | None = None, command_id: str | None = None
) -> PutSchedule:
    """Return the command that creates a schedule, or replaces what it says; see `spec_of`, which checks it."""
    has_zone = spec.cron is not None or spec.time_zone != _UTC
    return PutSchedule(
        schedule_id=schedule_id,
        workflow=spec.workflow,
        inputs=dict(spec.inputs),
        program=spec.program,
        cron=spec.cron,
        time_zone=spec.time_zone if has_zone else None,
        interval_ms=spec.interval_ms,
        start_at=spec.start_at,
        end_at=spec.end_at,
        overlap=str(spec.overlap),
        catch_up_ms=spec.catch_up_ms,
        paused=paused,
        command_id=command_id,
    )
