"""Schedules: what they start, when they fire next, and what became of earlier firings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from afl.core.ids import RESERVED
from afl_stream.dashboard.deployment import Deployment
from afl_stream.errors import StreamError
from afl_stream.schedules.documents import Schedule, from_document
from afl_stream.sensitive.redaction import Redaction
from afl_stream.visibility.schedules import moment_text, read_schedules, shown_schedule, times_text

_SHOWN: Final = 10


class NoSuchSchedule(StreamError):
    """The store has no schedule of an id."""

    def __init__(self, schedule_id: str) -> None:
        super().__init__(f"there is no schedule {schedule_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleView:
    """One schedule as it is shown. Times are ms since the epoch, `next_firings` in the schedule's own zone too."""

    schedule: Schedule
    times: str
    next_ms: Sequence[int]
    next_firings: Sequence[str]

    @property
    def status(self) -> str:
        return "paused" if self.schedule.state.paused else "active" if self.next_ms else "stopped"

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON has it."""
        spec, state = self.schedule.spec, self.schedule.state
        return {
            "schedule_id": self.schedule.id,
            "status": self.status,
            "workflow": spec.workflow,
            "program": spec.program,
            "inputs": dict(spec.inputs),
            "times": self.times,
            "time_zone": spec.time_zone,
            "overlap": str(spec.overlap),
            "next_ms": list(self.next_ms),
            **{
                name: value
                for name, value in asdict(state).items()
                if name in ("fired", "triggered", "skipped", "missed", "refused", "last_run", "last_refusal")
            },
        }


def list_schedules(deployment: Deployment) -> tuple[list[ScheduleView], list[str]]:
    """Return the schedules by their ids, and what is wrong with those that cannot be read."""
    found, wrong = read_schedules(deployment.store)
    return [_view(deployment, schedule, 1) for schedule in found], wrong


def show_schedule(deployment: Deployment, schedule_id: str) -> ScheduleView:
    """Return one schedule. Raises NoSuchSchedule, ScheduleUnreadable."""
    row = None if schedule_id.startswith(RESERVED) else deployment.store.schedule(schedule_id)
    if row is None:
        raise NoSuchSchedule(schedule_id)
    return _view(deployment, from_document(row.id, row.document), _SHOWN)


def _view(deployment: Deployment, schedule: Schedule, count: int) -> ScheduleView:
    schedule = shown_schedule(schedule, deployment.store, Redaction(deployment.config.sensitive.patterns))
    spec, now_ms = schedule.spec, deployment.clock.now_ms()
    coming = spec.next_firings(max(now_ms, schedule.state.decided_ms), count)
    return ScheduleView(
        schedule=schedule,
        times=times_text(spec),
        next_ms=coming,
        next_firings=[moment_text(spec, at_ms) for at_ms in coming],
    )
