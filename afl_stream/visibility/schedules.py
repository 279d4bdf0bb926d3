"""Schedules as people may see them: what is sensitive hidden, and their times in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from afl.core.ids import RESERVED
from afl.engine.model.schedules import ScheduleRow
from afl.stores.public.persistence import EngineStore
from afl_stream.evaluator.sensitive.program_marks import ProgramMarks
from afl_stream.schedules.documents import Schedule, ScheduleUnreadable, from_document
from afl_stream.schedules.spec import ScheduleSpec
from afl_stream.sensitive.error_texts import hiding
from afl_stream.sensitive.redaction import Redaction


def read_schedules(store: EngineStore) -> tuple[list[Schedule], list[str]]:
    """Return the schedules in order of their ids, and what is wrong with those that cannot be read."""
    found: list[Schedule] = []
    wrong: list[str] = []
    rows: Sequence[ScheduleRow] = store.schedules()
    while rows:
        for row in rows:
            try:
                if not row.id.startswith(RESERVED):
                    found.append(from_document(row.id, row.document))
            except ScheduleUnreadable as error:
                wrong.append(str(error))
        rows = store.schedules(after=rows[-1].id)
    return found, wrong


def shown_schedule(schedule: Schedule, store: EngineStore, redaction: Redaction) -> Schedule:
    """Return a schedule as a person may see it.

    One that was written before its sensitive inputs were kept is judged by the program of its last run; where the store
    has none, all of its inputs are hidden.
    """
    spec, state, names = schedule.spec, schedule.state, schedule.sensitive
    if names is None:
        names = _names_by_last_run(schedule, store, redaction)
    inputs = redaction.of(spec.workflow, spec.inputs, names)
    hidden = [name for name, value in spec.inputs.items() if inputs[name] is not value]
    if not hidden:
        return schedule
    hide = hiding(spec.inputs, hidden)
    if hide is not None and state.last_refusal is not None:
        state = replace(state, last_refusal=hide(state.last_refusal))
    return schedule._replace(spec=replace(spec, inputs=inputs), state=state)


def _names_by_last_run(schedule: Schedule, store: EngineStore, redaction: Redaction) -> frozenset[str]:
    last_run = schedule.state.last_run
    row = None if last_run is None else store.load_workflow(last_run)
    if row is None or store.load_program(row.program) is None:
        return frozenset(schedule.spec.inputs)
    return frozenset(ProgramMarks(store, redaction.patterns).of(row.program).params_of(schedule.spec.workflow))


def times_text(spec: ScheduleSpec) -> str:
    """Return when a schedule fires, in words."""
    if spec.cron is not None:
        return f"{spec.cron} ({spec.time_zone})"
    assert spec.interval_ms is not None
    return f"every {length_text(spec.interval_ms)}"


def length_text(length_ms: int) -> str:
    """Return a length of time as options take it: `15m`."""
    for unit, unit_ms in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if length_ms % unit_ms == 0:
            return f"{length_ms // unit_ms}{unit}"
    return f"{length_ms} ms"


def moment_text(spec: ScheduleSpec, at_ms: int) -> str:
    """Return a time in the zone of a schedule."""
    moment = datetime.fromtimestamp(at_ms // 1_000, UTC).astimezone(ZoneInfo(spec.time_zone))
    return f"{moment:%Y-%m-%d %H:%M:%S %Z}"
