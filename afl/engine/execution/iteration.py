"""One iteration of a workflow: every step that can move, then every step made meanwhile; and several in a row."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from afl.core.text.exception_text import exception_class, exception_text
from afl.engine.errors import NoProgress, RunLimitReached
from afl.engine.execution.execution import Execution
from afl.engine.execution.fast_path import bind_links
from afl.engine.execution.machine import STATE_MACHINES, complete_at_once
from afl.engine.execution.run_bounds import UNITS_A_STEP
from afl.engine.execution.states.initialization import bind_attributes
from afl.engine.execution.step_paths import stuck_paths
from afl.engine.execution.waits import notify_waiters
from afl.engine.limits import ITERATION_STEPS
from afl.engine.states import StepState


def run_iteration(execution: Execution) -> int:
    """Run one iteration: every queued step, then every step made meanwhile, until none is left; how many ran.

    An iteration is bounded (`limits.ITERATION_STEPS`, by steps and bytes, never by the clock): the rest runs in the
    next one. So a run is cut at the same places whether it is in memory or read from its rows.

    Ends are reported when all steps have run, so that no step sees them before the next iteration. A run in which
    nothing can move after that has failed; a run that exceeds a limit ends within the iteration. Raises MemoryError,
    and unexpected errors of the engine: the execution cannot be used after them.
    """
    return 1 if _run_links(execution, 1, None) else _run_whole(execution)


def run_iterations(execution: Execution, most: int, now_ms: Callable[[], int]) -> int:
    """Run up to `most` iterations that can share a commit, at least one; return how many ran.

    They are the iterations that there would be one by one, with the same numbers and the same steps, and what they
    leave is in the execution's rows. The last one is the first that has an effect outside (an event, a task, a timer, a
    log entry, a script to run), that continues as new, or after which the commit has the rows or bytes of a full
    iteration: so a crash before the commit repeats a bounded amount of work, which nobody has seen. Raises what
    `run_iteration` raises.
    """
    bytes_until = execution.bounds.state_bytes + execution.bounds.iteration_bytes
    ran = 0
    while True:
        execution.now_ms = now_ms()
        links = _run_links(execution, most - ran, bytes_until)
        if not links:
            _run_whole(execution)
        ran += links or 1
        if (
            ran >= most
            or not execution.queue
            or execution.has_effects
            or execution.scripts
            or execution.next_inputs is not None
            or execution.is_ended
            or len(execution.dirty) + len(execution.documents) >= ITERATION_STEPS
            or execution.bounds.state_bytes > bytes_until
        ):
            return ran


def _run_links(execution: Execution, most: int, bytes_until: int | None) -> int:
    """Run up to `most` iterations that are a link of a chain each; how many ran."""
    queue = execution.queue
    if execution.trace is not None or len(queue) != 1:
        return 0
    links = bind_links(execution, queue[0], most, bytes_until)
    if links:
        execution.iterations += links
        if not execution.queue:
            _fail_if_stuck(execution)
    return links


def _run_whole(execution: Execution) -> int:
    """Run an iteration of any form; how many steps ran."""
    trace = execution.trace
    count, ran = execution.count, 0
    if trace is not None:
        trace.iteration_began(execution)
    execution.iterations += 1
    try:
        ran = _run_queue(execution)
    except RunLimitReached as error:
        execution.exceed(error)
    if not execution.queue:
        _fail_if_stuck(execution)
    if execution.count > execution.bounds.notice_at:
        execution.bounds.notice(execution)
    if trace is not None:
        trace.iteration_ended(execution)
    # Those that only bind are made, and do not run.
    return max(ran, execution.count - count)


def _run_queue(execution: Execution) -> int:
    """Run steps as far as the iteration has room; how many ran."""
    queue, execution.queue = execution.queue, []
    if len(queue) > 1:
        # In order of creation: a run that is read back from the store works in the same order.
        queue.sort(key=_number)
    execution.room.renew()
    ran = 0
    for step in queue:
        ran += 1
        step.queued = False
        state = step.state
        if state not in _TERMINAL:
            STATE_MACHINES[step.object_type].process(execution, step)
            if step.state != state:
                execution.room.units -= UNITS_A_STEP
                # Behind the last one what was made asks for itself.
                if ran < len(queue) and not execution.room.is_left():
                    break
    if ran < len(queue):
        execution.queue = queue[ran:] + execution.queue
    elif execution.made:
        ran += _run_made(execution)
    notify_waiters(execution)
    if execution.made:
        execution.leave_made()
    return ran


def _run_made(execution: Execution) -> int:
    """Run what was made, in order of creation; how many ran."""
    made, is_watched = execution.made, execution.trace is not None
    ran = 0
    while made and execution.room.is_left():
        step = made.popleft()
        ran += 1
        statement = step.statement
        if statement is not None and statement.is_yield and not is_watched:
            complete_at_once(execution, step, bind_attributes)
        else:
            STATE_MACHINES[step.object_type].process(execution, step)
        if statement is None or statement.bind is None:
            # One that only binds was counted when it was made, as it is where it is complete with that.
            execution.room.units -= UNITS_A_STEP
    return ran


_number = attrgetter("number")
_TERMINAL = frozenset({StepState.STATEMENT_COMPLETE, StepState.STATEMENT_ERROR})


def _fail_if_stuck(execution: Execution) -> None:
    """Fail a run that nothing can move, not even an answer; the error names the waiting steps."""
    if (
        execution.queue
        or execution.open_events
        or execution.is_ended
        or execution.held_events
        or execution.waiting_foreachs
        or execution.scripts
        or execution.waiting
    ):
        return
    root, workflow = execution.root, execution.plan.name
    stuck = NoProgress(tuple(stuck_paths(execution.unfinished(), workflow)))
    execution.end_in_error(root, execution.first_cause(root, exception_class(stuck), exception_text(stuck)))
    notify_waiters(execution)
