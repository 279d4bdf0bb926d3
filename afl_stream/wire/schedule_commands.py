"""The commands about schedules, as they travel. They are records on the commands topic, under the schedule's id."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from afl_stream.errors import IdRefused
from afl_stream.limits import MAX_SCHEDULE_ID_CHARS

_SCHEDULE_ID: Final = re.compile(rf"[A-Za-z0-9._~-]{{1,{MAX_SCHEDULE_ID_CHARS}}}\Z")


def check_schedule_id(schedule_id: str) -> str:
    """Return the schedule id unchanged; raise IdRefused when it is malformed."""
    if not isinstance(schedule_id, str) or not _SCHEDULE_ID.match(schedule_id):
        form = f"1 to {MAX_SCHEDULE_ID_CHARS} characters out of A-Z a-z 0-9 . _ ~ -"
        raise IdRefused("schedule id", schedule_id, form)
    return schedule_id


@dataclass(frozen=True, slots=True, kw_only=True)
class PutSchedule:
    """An operator's command: start a workflow at times of a plan. A schedule of this id is replaced.

    The times are those of `cron` in `time_zone`, or one each `interval_ms`. `start_at` and `end_at` are milliseconds
    since the epoch. `command_id` as in PauseSchedule.
    """

    schedule_id: str
    workflow: str
    inputs: Mapping[str, object] = field(default_factory=dict)
    program: str | None = None
    cron: str | None = None
    time_zone: str | None = None
    interval_ms: int | None = None
    start_at: int | None = None
    end_at: int | None = None
    #: What to do while the run before is unfinished: "skip", "queue" or "allow". None: skip.
    overlap: str | None = None
    #: How old a missed time may be for its run to be started late. None: an hour.
    catch_up_ms: int | None = None
    #: None: as it is; a new one is not paused.
    paused: bool | None = None
    command_id: str | None = None
    requested_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSchedule:
    """An operator's command: remove a schedule. Runs that it has started continue. `command_id` as in PauseSchedule."""

    schedule_id: str
    command_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseSchedule:
    """An operator's command: let a schedule start nothing until it is resumed.

    `command_id` identifies it: the same one again does nothing, and the milestone with the same id is its answer.
    """

    schedule_id: str
    command_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeSchedule:
    """An operator's command: let a paused schedule start runs again. `command_id` as in PauseSchedule."""

    schedule_id: str
    command_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSchedule:
    """An operator's command: start a run of a schedule now, besides those of its times.

    `command_id` as in PauseSchedule.
    """

    schedule_id: str
    command_id: str | None = None


ScheduleCommand: TypeAlias = PutSchedule | DeleteSchedule | PauseSchedule | ResumeSchedule | TriggerSchedule
