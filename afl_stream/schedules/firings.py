"""What is done about the firings of a schedule: pure decisions, from its state and the time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

from afl_stream.schedules.spec import Overlap, ScheduleSpec

#: How many runs one decision starts, and how many firings it passes over; the rest is the next decision's.
MAX_STARTS: Final = 100
MAX_PASSED: Final = 5_000
#: Unfinished runs that are remembered: with `allow` there may be any number, and only whether there is one counts.
MAX_RUNS: Final = 10
#: Commands that are remembered by their ids, so that a copy does nothing.
MAX_COMMANDS: Final = 20


class StartedRun(NamedTuple):
    """A run that a schedule has asked for."""

    workflow_id: str
    #: When it was asked for, milliseconds since the epoch.
    asked_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleState:
    """What a schedule has done. Times are milliseconds since the epoch."""

    #: Every firing up to here is decided.
    decided_ms: int
    paused: bool = False
    #: The last firing that has started a run.
    last_firing_ms: int | None = None
    last_run: str | None = None
    last_trigger_ms: int | None = None
    #: A firing that waits for the end of the runs before it.
    queued_ms: int | None = None
    #: Runs that were unfinished when it was last looked, the newest last.
    runs: tuple[StartedRun, ...] = ()
    fired: int = 0
    triggered: int = 0
    skipped: int = 0
    missed: int = 0
    #: Runs that were asked for, and that the evaluators refused to start.
    refused: int = 0
    #: Why, of the last one.
    last_refusal: str | None = None
    #: The ids of the last commands.
    commands: tuple[str, ...] = ()

    def knows(self, command_id: str | None) -> bool:
        """Return whether a command of this id was carried out."""
        return command_id is not None and command_id in self.commands

    def after(self, command_id: str | None) -> ScheduleState:
        """Return the state in which a command of this id is known."""
        if command_id is None:
            return self
        return replace(self, commands=(*self.commands, command_id)[-MAX_COMMANDS:])

    def without(self, workflow_id: str, why: str) -> ScheduleState:
        """Return the state after a run that it asked for was refused."""
        left = tuple(run for run in self.runs if run.workflow_id != workflow_id)
        return replace(self, runs=left, refused=self.refused + 1, last_refusal=why)

    def asked_for(self, workflow_id: str) -> bool:
        """Return whether this run is one of those that it has asked for, and that have not ended as far as it knows."""
        return any(run.workflow_id == workflow_id for run in self.runs)


class Firing(NamedTuple):
    """A run to start."""

    workflow_id: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What happens now: the runs to start in order, how many firings came to nothing, and the state after it."""

    state: ScheduleState
    starts: list[Firing] = field(default_factory=list)
    skipped: int = 0
    missed: int = 0
    #: Whether a firing waits from now on.
    has_queued: bool = False
    #: The first and the last firing that were missed.
    first_missed_ms: int | None = None
    last_missed_ms: int | None = None

    @property
    def has_effect(self) -> bool:
        """Return whether there was anything to decide: a state in which only time has passed need not be stored."""
        return bool(self.starts or self.skipped or self.missed or self.has_queued)


def run_id(schedule_id: str, at_ms: int, *, is_trigger: bool = False) -> str:
    """Return the workflow id of the run of a firing: the same for every evaluator."""
    moment = datetime.fromtimestamp(at_ms // 1_000, UTC)
    return f"{schedule_id}-{moment:%Y%m%dT%H%M%SZ}{'-t' if is_trigger else ''}"


def decide(schedule_id: str, spec: ScheduleSpec, state: ScheduleState, now_ms: int) -> Decision:
    """Decide about every firing up to `now_ms`, or about the first of them if they are very many.

    `state.runs` has to be what is unfinished now. A firing older than the catch-up window is missed; any other starts
    its run, waits for the end of an earlier one, or comes to nothing, as the overlap policy says.
    """
    if state.paused:
        return Decision(state=state)
    starts: list[Firing] = []
    runs, queued_ms = state.runs, state.queued_ms
    skipped = 0
    missed: list[int] = []

    def start(at_ms: int) -> None:
        nonlocal runs
        firing = Firing(run_id(schedule_id, at_ms), at_ms)
        starts.append(firing)
        runs = (*runs, StartedRun(firing.workflow_id, now_ms))[-MAX_RUNS:]

    def may_start() -> bool:
        return spec.overlap is Overlap.ALLOW or not runs

    if queued_ms is not None and may_start():
        start(queued_ms)
        queued_ms = None
    decided_ms = state.decided_ms
    at_ms = spec.next_firing(decided_ms)
    while at_ms is not None and at_ms <= now_ms and len(starts) < MAX_STARTS and skipped + len(missed) < MAX_PASSED:
        decided_ms = at_ms
        if now_ms - at_ms > spec.catch_up_ms:
            missed.append(at_ms)
        elif may_start():
            start(at_ms)
        elif spec.overlap is Overlap.QUEUE and queued_ms is None:
            queued_ms = at_ms
        else:
            skipped += 1
        at_ms = spec.next_firing(at_ms)
    if at_ms is None or at_ms > now_ms:
        decided_ms = max(decided_ms, now_ms)
    last = starts[-1] if starts else None
    return Decision(
        state=replace(
            state,
            decided_ms=decided_ms,
            last_firing_ms=state.last_firing_ms if last is None else last.at_ms,
            last_run=state.last_run if last is None else last.workflow_id,
            queued_ms=queued_ms,
            runs=runs,
            fired=state.fired + len(starts),
            skipped=state.skipped + skipped,
            missed=state.missed + len(missed),
        ),
        starts=starts,
        skipped=skipped,
        missed=len(missed),
        has_queued=queued_ms is not None and queued_ms != state.queued_ms,
        first_missed_ms=missed[0] if missed else None,
        last_missed_ms=missed[-1] if missed else None,
    )


def trigger(schedule_id: str, state: ScheduleState, now_ms: int) -> tuple[Firing, ScheduleState]:
    """Return a run to start now, whatever else runs, and the state after it."""
    at_ms = now_ms
    if state.last_trigger_ms is not None and state.last_trigger_ms // 1_000 >= now_ms // 1_000:
        # Two within a second would have one id, and be one run.
        at_ms = (state.last_trigger_ms // 1_000 + 1) * 1_000
    firing = Firing(run_id(schedule_id, at_ms, is_trigger=True), at_ms)
    runs = (*state.runs, StartedRun(firing.workflow_id, now_ms))[-MAX_RUNS:]
    after = replace(state, runs=runs, last_run=firing.workflow_id, last_trigger_ms=at_ms, triggered=state.triggered + 1)
    return firing, after


def pass_over(spec: ScheduleSpec, state: ScheduleState, now_ms: int) -> ScheduleState:
    """Return the state in which every firing up to now is decided: those that were not looked at are missed."""
    if state.paused:
        return replace(state, decided_ms=max(state.decided_ms, now_ms))
    missed, at_ms = 0, spec.next_firing(state.decided_ms)
    while at_ms is not None and at_ms <= now_ms and missed < MAX_PASSED:
        missed, at_ms = missed + 1, spec.next_firing(at_ms)
    return replace(state, decided_ms=max(state.decided_ms, now_ms), missed=state.missed + missed)


def next_look_ms(spec: ScheduleSpec, state: ScheduleState) -> int | None:
    """Return when there may be something to decide; None: never, unless it is changed.

    That is a moment of the past while a firing waits: it is looked again and again whether the run before has ended.
    """
    if state.paused:
        return None
    return spec.next_firing(state.decided_ms) if state.queued_ms is None else state.queued_ms
