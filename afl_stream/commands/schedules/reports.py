"""Schedules as people and programs see them: their times, what they have done, and what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from afl_stream.commands.terminal import Terminal, duration_text
from afl_stream.wire.headers import rfc3339

if TYPE_CHECKING:
    from afl.engine.model.schedules import ScheduleRow
    from afl.stores.public.persistence import EngineStore
    from afl_stream.schedules.documents import Schedule
    from afl_stream.schedules.spec import ScheduleSpec
    from afl_stream.sensitive.redaction import Redaction

#: Firings that are shown of those to come.
SHOWN_FIRINGS: Final = 5


def read_schedules(store: EngineStore, terminal: Terminal) -> list[Schedule]:
    """Return the schedules in order of their ids, with a warning for each that cannot be read."""
    from afl_stream.schedules.documents import RESERVED, ScheduleUnreadable, from_document

    found: list[Schedule] = []
    rows: Sequence[ScheduleRow] = store.schedules()
    while rows:
        for row in rows:
            try:
                if not row.id.startswith(RESERVED):
                    found.append(from_document(row.id, row.document))
            except ScheduleUnreadable as error:
                terminal.warn(str(error))
        rows = store.schedules(after=rows[-1].id)
    return found


def shown_schedule(schedule: Schedule, store: EngineStore, redaction: Redaction) -> Schedule:
    """Return a schedule as a person may see it.

    One that was written before its sensitive inputs were kept is judged by the program of its last run; where the store
    has none, all of its inputs are hidden.
    """
    from afl_stream.sensitive.error_texts import hiding

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
    from afl_stream.evaluator.sensitive.program_marks import ProgramMarks

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


def _distance_text(length_ms: int) -> str:
    """Return how far away a firing is, as people read it."""
    days, rest_ms = divmod(length_ms, 86_400_000)
    return f"{days:,} d {rest_ms // 3_600_000} h" if days >= 2 else duration_text(length_ms)


def next_text(schedule: Schedule, now_ms: int) -> str:
    """Return when a schedule fires next, or why it does not."""
    if schedule.state.paused:
        return "paused"
    at_ms = schedule.spec.next_firing(max(now_ms, schedule.state.decided_ms))
    return "ended" if at_ms is None else moment_text(schedule.spec, at_ms)


def show_list(terminal: Terminal, schedules: Sequence[Schedule], now_ms: int) -> None:
    """Write a table of schedules."""
    terminal.table(
        ("schedule", "workflow", "times", "next firing", "fired"),
        [
            (
                schedule.id,
                schedule.spec.workflow,
                times_text(schedule.spec),
                next_text(schedule, now_ms),
                f"{schedule.state.fired:,}",
            )
            for schedule in schedules
        ],
        right=("fired",),
        whole=("schedule",),
    )


def show_next_firings(terminal: Terminal, spec: ScheduleSpec, now_ms: int, heading: str = "next firings") -> None:
    """Write the first firings after now."""
    firings = spec.next_firings(now_ms, SHOWN_FIRINGS)
    terminal.line(f"{heading}:" if firings else f"{heading}: none, it has ended")
    for at_ms in firings:
        terminal.line(f"  {moment_text(spec, at_ms)}  (in {_distance_text(at_ms - now_ms)})")


def show_schedule(terminal: Terminal, schedule: Schedule, last_status: str | None, now_ms: int) -> None:
    """Write all of a schedule. `last_status` is that of its last run; None: the run is not in the store."""
    spec, state = schedule.spec, schedule.state
    terminal.line(f"{schedule.id}  starts {spec.workflow}  {times_text(spec)}")
    bounds = [("from", spec.start_at), ("until", spec.end_at)]
    told = [f"{word} {moment_text(spec, at_ms)}" for word, at_ms in bounds if at_ms is not None]
    told += [f"overlap {spec.overlap}", f"catch-up {length_text(spec.catch_up_ms)}"]
    terminal.line(", ".join(["paused"] * state.paused + told))
    if spec.inputs:
        terminal.values("inputs", spec.inputs.items())
    counts = [("fired", state.fired), ("triggered", state.triggered), ("skipped", state.skipped)]
    counts += [("missed", state.missed), ("refused", state.refused)]
    terminal.line(", ".join(f"{name} {count:,}" for name, count in counts if count or name == "fired"))
    if state.last_run is not None:
        terminal.line(f"last run: {state.last_run}  {last_status or 'not in the store'}")
    if state.queued_ms is not None:
        terminal.line(f"waits for the end of the last run: {moment_text(spec, state.queued_ms)}")
    if state.last_refusal is not None:
        terminal.line(f"last refusal: {state.last_refusal}")
    show_next_firings(terminal, spec, now_ms, "next firings, once it is resumed" if state.paused else "next firings")


def spec_document(spec: ScheduleSpec) -> dict[str, object]:
    """Return what a schedule says, for programs."""
    return {
        "workflow": spec.workflow,
        "program": spec.program,
        "inputs": dict(spec.inputs),
        "cron": spec.cron,
        "time_zone": spec.time_zone,
        "interval_ms": spec.interval_ms,
        "start_at": _stamp(spec.start_at),
        "end_at": _stamp(spec.end_at),
        "overlap": str(spec.overlap),
        "catch_up_ms": spec.catch_up_ms,
    }


def next_documents(spec: ScheduleSpec, now_ms: int) -> list[str]:
    """Return the first firings after now, for programs."""
    return [rfc3339(at_ms) for at_ms in spec.next_firings(now_ms, SHOWN_FIRINGS)]


def schedule_document(schedule: Schedule, now_ms: int) -> dict[str, object]:
    """Return all of a schedule, for programs."""
    state = schedule.state
    return {
        "schedule_id": schedule.id,
        **spec_document(schedule.spec),
        "paused": state.paused,
        "next_firings": [] if state.paused else next_documents(schedule.spec, max(now_ms, state.decided_ms)),
        "last_run": state.last_run,
        "last_firing_at": _stamp(state.last_firing_ms),
        "queued_at": _stamp(state.queued_ms),
        "fired": state.fired,
        "triggered": state.triggered,
        "skipped": state.skipped,
        "missed": state.missed,
        "refused": state.refused,
        "last_refusal": state.last_refusal,
    }


def _stamp(at_ms: int | None) -> str | None:
    return None if at_ms is None else rfc3339(at_ms)
