"""Turns: workflows that can continue without a record, and what they do in one batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from afl.core.clock import Clock, thread_s
from afl.engine.errors import StoreCorrupt, VersionMismatchError
from afl.engine.execution.scripts import finish_script, offer_again
from afl.engine.model.store import TimerRow
from afl_stream.errors import NotEvaluable
from afl_stream.evaluator.refusals import REFUSALS
from afl_stream.evaluator.script_turns import EndedScript
from afl_stream.evaluator.unit_of_work import UnitOfWork


class Turn(NamedTuple):
    """A workflow that can continue without a record: by itself, or because one of its scripts has ended.

    Or a timer of it is due: timers/timer_turns.py fires it.
    """

    workflow_id: str
    script: EndedScript | None = None
    timer: TimerRow | None = None


def turns_of(ended: Iterable[EndedScript], timers: Iterable[TimerRow]) -> list[Turn]:
    """Return the turns of scripts that have ended, and of timers that are due."""
    scripted = [Turn(script.job.workflow_id, script) for script in ended]
    return scripted + [Turn(timer.workflow_id, timer=timer) for timer in timers]


def timers_of(turns: Iterable[Turn]) -> list[TimerRow]:
    """Return the timers among turns."""
    return [turn.timer for turn in turns if turn.timer is not None]


def take_turns(unit: UnitOfWork, turns: Sequence[Turn], clock: Clock, until_s: float) -> float:
    """Continue workflows, one at least, until the monotonic clock reaches `until_s`; return how many seconds that took.

    Runnable workflows that are left are put off. Turns of timers are left out: they come behind the records.
    """
    started_s = thread_s()
    for number, turn in enumerate(turns):
        if turn.timer is not None or (turn.script is None and unit.is_paused(turn.workflow_id)):
            continue
        if number and turn.script is None and clock.monotonic_s() > until_s:
            unit.postponed.append(turn.workflow_id)
        else:
            _take_turn(unit, turn)
    return thread_s() - started_s


def _take_turn(unit: UnitOfWork, turn: Turn) -> None:
    """Continue a workflow. One that cannot be read stays as it is, and does not hold up the others."""
    try:
        if turn.script is not None:
            _end_script(unit, turn.script)
            return
        # Another evaluator may have made it runnable and died: nothing would be written that found that out.
        execution = unit.execution(turn.workflow_id, is_checked=True)
        unit.continue_workflow(turn.workflow_id)
        if execution is not None:
            # The process that had its scripts may be gone.
            offer_again(execution)
    except (*REFUSALS, VersionMismatchError) as error:
        text = "workflow %s is runnable and cannot be continued: %s"
        unit.warnings.error("runnable workflows that cannot be continued", text, turn.workflow_id, error)


def _end_script(unit: UnitOfWork, ended: EndedScript) -> None:
    """Continue the step that waited for a script, if it still does: the first result counts.

    Raises NotEvaluable: drop the unit then.
    """
    job = ended.job
    execution = unit.execution(job.workflow_id)
    if execution is not None and job.step_id in execution.scripts:
        unit.touch(execution)
        try:
            finish_script(execution, job.step_id, ended.ending)
        except StoreCorrupt as error:
            # A step that was read late: the workflow does not wait for its script any more, and must not be kept so.
            raise NotEvaluable(execution.id, execution.plan.name, error) from error
        unit.evaluate(execution)
