"""A schedule as its row in the store has it: a document of plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Final, NamedTuple, cast

from afl.core.ids import RESERVED
from afl.core.text.exception_text import class_name, exception_line
from afl_stream.errors import StreamError
from afl_stream.schedules.firings import ScheduleState, StartedRun, next_look_ms
from afl_stream.schedules.spec import Overlap, ScheduleSpec
from afl_stream.wire.headers import rfc3339

_SPEC_FIELDS: Final = tuple(field.name for field in fields(ScheduleSpec))
_STATE_FIELDS: Final = tuple(field.name for field in fields(ScheduleState))
#: What reading a document that nobody has written so, or computing its times, may raise.
_UNUSABLE: Final = (
    StreamError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    AssertionError,
    ArithmeticError,
    OSError,
)


class ScheduleUnreadable(StreamError):
    """The row of a schedule is not one that this release has written."""

    def __init__(self, schedule_id: str, why: object) -> None:
        super().__init__(
            f"schedule {schedule_id} cannot be read from the store ({why}); delete it, and create it again"
        )
        self.schedule_id = schedule_id


class Schedule(NamedTuple):
    """A schedule: what it says, and what it has done."""

    id: str
    spec: ScheduleSpec
    state: ScheduleState
    #: The names of its sensitive inputs; None: it was written before they were kept.
    sensitive: frozenset[str] | None = None


def to_document(schedule: Schedule) -> dict[str, object]:
    """Return the document of a schedule."""
    spec = {name: getattr(schedule.spec, name) for name in _SPEC_FIELDS}
    state = {name: getattr(schedule.state, name) for name in _STATE_FIELDS}
    state["runs"] = [[run.workflow_id, run.asked_at_ms] for run in schedule.state.runs]
    state["commands"] = list(schedule.state.commands)
    document: dict[str, object] = {"spec": spec | {"overlap": schedule.spec.overlap.value}, "state": state}
    if schedule.sensitive is not None:
        document["sensitive"] = sorted(schedule.sensitive)
    return document


def from_document(schedule_id: str, document: Mapping[str, object]) -> Schedule:
    """Return the schedule of a row. Raises ScheduleUnreadable."""
    try:
        spec = _known(document["spec"], _SPEC_FIELDS)
        state = _known(document["state"], _STATE_FIELDS)
        runs = tuple(StartedRun(run[0], run[1]) for run in cast("list[tuple[str, int]]", state.pop("runs", ())))
        commands = tuple(cast("list[str]", state.pop("commands", ())))
        sensitive = document.get("sensitive")
        overlap = Overlap(str(spec.pop("overlap", Overlap.SKIP)))
        schedule = Schedule(
            schedule_id,
            ScheduleSpec(overlap=overlap, **spec),  # type: ignore[arg-type]  # plain values, as written
            ScheduleState(runs=runs, commands=commands, **state),  # type: ignore[arg-type]  # plain values, as written
            None if sensitive is None else frozenset(cast("list[str]", sensitive)),
        )
        # Its times are used later, where nothing expects them to be unusable: a time zone that this machine lacks, ...
        next_look_ms(schedule.spec, replace(schedule.state, paused=False, queued_ms=None))
    except _UNUSABLE as error:
        raise ScheduleUnreadable(schedule_id, exception_line(error)) from error
    return schedule


def row_fault(schedule_id: str, next_at_ms: int | None, document: Mapping[str, object]) -> tuple[str, str] | None:
    """Return what is found in a row, and what was expected, for one that no evaluator has written; None: it is sound.

    Rows with a reserved id are no schedules, and never due.
    """
    if schedule_id.startswith(RESERVED):
        return None if next_at_ms is None else (f"next time {next_at_ms}", "no time: it starts nothing")
    try:
        schedule = from_document(schedule_id, document)
    except ScheduleUnreadable as error:
        return str(error), "a schedule that this release can read, in a time zone that this machine knows"
    expected_ms = next_look_ms(schedule.spec, schedule.state)
    if next_at_ms == expected_ms:
        return None
    return f"next time {_time_text(next_at_ms)}", f"{_time_text(expected_ms)}, as its times say; put it again"


def _time_text(at_ms: int | None) -> str:
    return "never" if at_ms is None else rfc3339(at_ms)


def _known(found: object, names: tuple[str, ...]) -> dict[str, object]:
    """Return the entries that this release knows: a later one may have added some."""
    if not isinstance(found, Mapping):
        raise TypeError(f"a map was expected, found a {class_name(type(found))}")
    return {name: value for name, value in found.items() if name in names}
