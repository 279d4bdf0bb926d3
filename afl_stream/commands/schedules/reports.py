"""Schedules as people and programs see them: their times, what they have done, and what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from afl_stream.commands.terminal import Terminal, duration_text
from afl_stream.visibility.schedules import length_text, moment_text, times_text
from afl_stream.wire.headers import rfc3339

if TYPE_CHECKING:
    from afl_stream.schedules.documents import Schedule
    from afl_stream.schedules.spec import ScheduleSpec

#: Firings that are shown of those to come.
SHOWN_FIRINGS: Final = 5


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
