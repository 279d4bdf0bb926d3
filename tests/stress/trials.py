"""One trial: workflows are started, pollers let loose on them, and everything that is in the store then is checked."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from afl.compiled.program import CompiledProgram
from afl.core.ids import event_id_of
from afl.engine.model.entities import TaskState
from afl.engine.model.store import COMPLETED, ENDED_STATUSES, StepDocument
from afl.evaluation.evaluator import Evaluator
from afl.stores.memory.store import MemoryStore
from afl.stores.public.persistence import EngineStore
from tests.stress.pollers import Pollers, Report
from tests.stress.programs import HANDLERS, Run

#: A trial that has not ended by then never will.
DEADLINE_S: Final = 120.0
#: How long is waited between two looks, at first and at last: a look costs the store something, too.
_FIRST_LOOK_S, _LAST_LOOK_S = 0.005, 0.05


def run_trial(
    store: EngineStore, program: CompiledProgram, runs: Sequence[Run], pollers: Pollers, *, rush: bool = False
) -> list[str]:
    """Run a trial and return what is wrong, in sentences; nothing when all is as it must be.

    In a `rush` the tasks are there when the pollers begin, all at once; else these are at work when the first comes.
    """
    evaluator = Evaluator(store)
    if not rush:
        pollers.start()
    try:
        for run in runs:
            evaluator.execute(run.workflow, run.inputs, program, workflow_id=run.id)
        if rush:
            pollers.start()
        late = _await_end(store, [run.id for run in runs])
    finally:
        reports = pollers.stop()
    wrong = [f"{workflow_id} has not ended after {DEADLINE_S:.0f} s" for workflow_id in late]
    wrong += [f"poller {report.server_id}: {report.failure}" for report in reports if report.failure]
    wrong += _wrong_effects(runs, reports)
    wrong += [f"{run.id}: {what}" for run in runs for what in _wrong_in(store, program, run, reports)]
    wrong += _wrong_counts(store, runs, reports)
    return wrong


def _await_end(store: EngineStore, workflow_ids: Sequence[str]) -> list[str]:
    """Wait until all have ended; return those that have not."""
    left, end_s, pause = list(workflow_ids), time.monotonic() + DEADLINE_S, threading.Event()
    look_s = _FIRST_LOOK_S
    while left and time.monotonic() < end_s:
        row = store.load_workflow(left[0])
        if row is not None and row.status in ENDED_STATUSES:
            left.pop(0)
        else:
            pause.wait(look_s)
            look_s = min(look_s * 2, _LAST_LOOK_S)
    return left


def _wrong_effects(runs: Sequence[Run], reports: Sequence[Report]) -> Iterator[str]:
    """No handler is called twice for one event, and none is not called."""
    called = Counter(effect.event_id for report in reports for effect in report.effects)
    yield from (f"event {event_id} was handled {times} times" for event_id, times in called.items() if times > 1)
    expected = sum(run.events for run in runs)
    if len(called) != expected:
        yield f"{len(called)} events were handled, expected {expected}"


def _wrong_in(store: EngineStore, program: CompiledProgram, run: Run, reports: Sequence[Report]) -> Iterator[str]:
    row = store.load_workflow(run.id)
    steps = store.load_steps(run.id)
    if row is None or row.status != COMPLETED:
        yield f"is {row and row.status} ({row and row.error})"
        return
    if dict(row.outputs or {}) != run.outputs:
        yield f"outputs {row.outputs}, expected {run.outputs}"
    if row.steps != len(steps) or [step.number for step in steps] != list(range(len(steps))):
        yield f"the workflow has made {row.steps} steps, numbers {[step.number for step in steps]} are there"
    places = Counter((step.block_id, step.statement_id, step.foreach_index, step.object_type) for step in steps)
    yield from (f"step of {place} is there {times} times" for place, times in places.items() if times > 1)
    undisturbed = _undisturbed(program, run)
    found = {step.id: step.state for step in steps}
    if found != undisturbed:
        yield f"steps differ from those of an undisturbed run: {sorted(found.items() ^ undisturbed.items())}"
    yield from _wrong_answers(store, steps, reports)


def _wrong_answers(store: EngineStore, steps: Sequence[StepDocument], reports: Sequence[Report]) -> Iterator[str]:
    """Each event has one owner, whose answer is the step's."""
    handled = {effect.event_id: (report.server_id, effect) for report in reports for effect in report.effects}
    for step in steps:
        if not step.attempt:
            continue
        event_id = event_id_of(step.id, step.attempt)
        task = store.get_task(event_id)
        if task is None or task.state != TaskState.COMPLETED:
            yield f"task {event_id} is {task and task.state}"
        elif event_id in handled:
            owner, effect = handled[event_id]
            if task.owner != owner:
                yield f"task {event_id} is {task.owner}'s, handled by {owner}"
            if dict(step.returns) != effect.answer or step.attempt != 1:
                yield f"step {step.id} has {step.returns} of attempt {step.attempt}, answered {effect.answer}"


def _wrong_counts(store: EngineStore, runs: Sequence[Run], reports: Sequence[Report]) -> Iterator[str]:
    """Return the servers' own records tell the same."""
    counted = 0
    for report in reports:
        server = store.get_server(report.server_id)
        if server is None or server.state != "shutdown":
            yield f"server {report.server_id} is {server and server.state}"
        else:
            counted += sum(count.handled for count in server.handled)
    if counted != sum(run.events for run in runs):
        yield f"the servers count {counted} handled tasks, expected {sum(run.events for run in runs)}"


def _undisturbed(program: CompiledProgram, run: Run) -> dict[str, str]:
    """Return the states of a run's steps, by id, where one evaluator does it all, in order."""
    store = MemoryStore()
    evaluator = Evaluator(store)
    evaluator.execute(run.workflow, run.inputs, program, workflow_id=run.id)
    while (task := store.claim_task(list(HANDLERS))) is not None:
        evaluator.continue_step(task.step_id, HANDLERS[task.name](dict(task.data or {})))
        evaluator.resume(run.id)
    return {step.id: step.state for step in store.load_steps(run.id)}
