"""Schedules: what they start, when they fire next, and what became of earlier firings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from afl.compiled.sensitive import sensitive_marks
from afl.core.errors import AFLError
from afl.engine.model.schedules import ScheduleRow
from afl.engine.planning.programs import stored_program
from afl_stream.dashboard.deployment import Deployment
from afl_stream.errors import StreamError
from afl_stream.schedules.documents import RESERVED, Schedule, ScheduleUnreadable, from_document
from afl_stream.schedules.spec import ScheduleSpec
from afl_stream.sensitive.redaction import Redaction

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
    inputs: dict[str, object]

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
            "inputs": self.inputs,
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
    store, found, wrong = deployment.store, [], []
    rows: Sequence[ScheduleRow] = store.schedules()
    while rows:
        for row in rows:
            try:
                if not row.id.startswith(RESERVED):
                    found.append(_view(deployment, from_document(row.id, row.document), 1))
            except ScheduleUnreadable as error:
                wrong.append(str(error))
        rows = store.schedules(after=rows[-1].id)
    return found, wrong


def show_schedule(deployment: Deployment, schedule_id: str) -> ScheduleView:
    """Return one schedule. Raises NoSuchSchedule, ScheduleUnreadable."""
    row = None if schedule_id.startswith(RESERVED) else deployment.store.schedule(schedule_id)
    if row is None:
        raise NoSuchSchedule(schedule_id)
    return _view(deployment, from_document(row.id, row.document), _SHOWN)


def _view(deployment: Deployment, schedule: Schedule, count: int) -> ScheduleView:
    spec, state, now_ms = schedule.spec, schedule.state, deployment.clock.now_ms()
    coming = spec.next_firings(max(now_ms, state.decided_ms), count)
    hidden = sensitive_inputs(deployment, spec.workflow)
    inputs = Redaction(deployment.config.sensitive.patterns).of(spec.workflow, spec.inputs, hidden)
    return ScheduleView(
        schedule=schedule,
        times=_times(spec),
        next_ms=coming,
        next_firings=[_moment(spec, at_ms) for at_ms in coming],
        inputs=dict(inputs),
    )


def sensitive_inputs(deployment: Deployment, workflow: str) -> frozenset[str]:
    """Return the inputs of a workflow that any of its programs in the store marks as sensitive."""
    store = deployment.store
    found: set[str] = set()
    for fingerprint in store.program_fingerprints():
        try:
            program = stored_program(store, fingerprint)
        except AFLError:
            continue
        if program is not None and workflow in program.declarations:
            found.update(sensitive_marks(program, deployment.config.sensitive.patterns).params_of(workflow))
    return frozenset(found)


def _times(spec: ScheduleSpec) -> str:
    if spec.cron is not None:
        return f"{spec.cron} ({spec.time_zone})"
    length_ms = spec.interval_ms or 0
    for unit, unit_ms in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if length_ms % unit_ms == 0:
            return f"every {length_ms // unit_ms}{unit}"
    return f"every {length_ms} ms"


def _moment(spec: ScheduleSpec, at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms // 1_000, UTC).astimezone(ZoneInfo(spec.time_zone)):%Y-%m-%d %H:%M:%S %Z}"
