"""Steps whose task or wake-up was lost: they wait for an answer that was not requested, or that is there already.

Each commit writes a step and its task together, so the engine itself never causes this. But other programs can lose or
end tasks: an agent in another language that ended its task and died before the resume, an operator with a database
shell, a store restored from a backup.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Final

from afl.core.clock import Clock, has_waited
from afl.core.ids import event_id_of
from afl.core.text.exception_text import exception_traceback
from afl.engine.errors import StoreUnavailable
from afl.engine.model.entities import LockMetaData, TaskDefinition, TaskState
from afl.engine.model.store import PAUSED, StepDocument, WorkflowHead, WorkflowRow
from afl.engine.states import EventState, StepState
from afl.evaluation.evaluator import Evaluator
from afl.stores.public.persistence import EngineStore

_log = logging.getLogger(__name__)

#: The prefix of the key of a step's lock; the step's id follows.
STEP_LOCK: Final = "runner:step:"
#: The newest paused workflows that one sweep checks; if there are more, it also checks this number of all, another part
#: of them each time.
MOST_WORKFLOWS: Final = 10_000
_PART: Final = 500
#: An unchanged workflow is checked again after this time.
_RECHECK_S: Final = 300.0
#: The time between two sweeps in the background.
_SWEEP_INTERVAL_S: Final = 10.0


class WaitingSteps:
    """A sweep that finds such steps and restarts them.

    For each step, depending on its task:

      * the task waits or runs, or an operator has canceled or ignored it: nothing is wrong;
      * the task has failed: the step fails with the task's error;
      * the task has completed and the step has returns: the step continues with that answer;
      * the task is missing, or has completed without returns: it is created again, under the same id.

    Several servers may sweep one store: a step's lock (`runner:step:<id>`) excludes the others. A crash during the work
    leaves the step as it was, or answered and its workflow runnable, which the loop's own sweep resumes.
    """

    def __init__(  # noqa: PLR0913 - its collaborators and its limits, by name
        self,
        store: EngineStore,
        evaluator: Evaluator,
        clock: Clock,
        *,
        task_list: str,
        lock_ms: int,
        quiet_ms: int,
        resume: Callable[[str], object],
        most_workflows: int = MOST_WORKFLOWS,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """`quiet_ms`: a sweep in the background skips workflows that have changed within this time."""
        self._store = store
        self._evaluator = evaluator
        self._clock = clock
        self._task_list = task_list
        self._lock_ms = lock_ms
        self._quiet_ms = quiet_ms
        self._resume = resume
        self._most_workflows = most_workflows
        self._is_stopping = is_stopping
        #: The last workflow of the part that was checked last; "": from the beginning.
        self._after = ""
        #: The revision at which a workflow was last checked, and the time.
        self._seen: dict[str, tuple[int, float]] = {}
        self._next_s = float("-inf")

    def sweep_when_due(self) -> int:
        """Check the quiet workflows that were not checked lately; return how many steps were restarted."""
        now_s = self._clock.monotonic_s()
        if now_s < self._next_s:
            return 0
        self._next_s = now_s + _SWEEP_INTERVAL_S
        now_ms = self._clock.now_ms()
        seen, count = {}, 0
        for head in self._paused():
            revision, at_s = self._seen.get(head.id, (0, 0.0))
            if self._is_stopping():
                break
            if not has_waited(head.updated_at_ms, now_ms, self._quiet_ms):
                continue
            if revision != head.revision or now_s - at_s > _RECHECK_S:
                count += self._look_at(head.id)
                revision, at_s = head.revision, now_s
            seen[head.id] = (revision, at_s)
        self._seen = seen
        return count

    def sweep(self) -> int:
        """Check all of them now; return how many steps were restarted."""
        return sum(self._look_at(head.id) for head in self._paused())

    def _paused(self) -> list[WorkflowHead]:
        heads = list(self._store.workflow_heads(status=PAUSED, limit=self._most_workflows))
        if len(heads) < self._most_workflows:
            return heads
        part = self._store.workflow_ids(after=self._after, limit=_PART)
        self._after = part[-1] if part else ""
        listed = {head.id for head in heads}
        further = (self._store.load_workflow(workflow_id) for workflow_id in part if workflow_id not in listed)
        rows = (row for row in further if row is not None and row.status == PAUSED)
        return heads + [WorkflowHead(row.id, row.revision, row.updated_at_ms) for row in rows]

    def _look_at(self, workflow_id: str) -> int:
        """Check a workflow's waiting steps. One that cannot be helped does not stop the others."""
        count = 0
        try:
            row = self._store.load_workflow(workflow_id)
            if row is None or row.status != PAUSED:
                return 0
            for step in self._store.load_steps(row.id, state=StepState.EVENT_TRANSMIT):
                # A step without an event waits for its turn to send one: too many are unanswered already. Others wait
                # for the runtime, which needs no task.
                count += EventState.is_asked(step.event_state) and self._see_to(row, step)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - it is looked at again, and the next workflow is another matter
            _log.error(
                "the waiting steps of workflow %s could not be checked\n%s", workflow_id, exception_traceback(error)
            )
        return count

    def _see_to(self, row: WorkflowRow, step: StepDocument) -> bool:
        task = self._task_of(step)
        if _is_in_order(task) or (task is None and row.lane):
            # In a workflow with a lane, a step without a task has its event on a topic, for which its evaluators are
            # responsible.
            return False
        lock = f"{STEP_LOCK}{step.id}"
        if not self._store.acquire_lock(lock, self._lock_ms, LockMetaData(topic=step.facet_name, step_id=step.id)):
            return False
        try:
            task = self._task_of(step)
            # In this order: an answer ends the task and moves the step on in one commit.
            if _is_in_order(task) or not self._still_waits(step):
                return False
            self._set_going(row, step, task)
            return True
        finally:
            self._store.release_lock(lock)

    def _set_going(self, row: WorkflowRow, step: StepDocument, task: TaskDefinition | None) -> None:
        event_id = event_id_of(step.id, step.attempt)
        if task is not None and task.state == TaskState.FAILED:
            message = str((task.error or {}).get("message") or "the task has failed")
            _log.warning("step %s waits, and its task has failed: %s", step.id, message)
            self._evaluator.fail_step(step.id, message, event_id=event_id)
            self._resume(row.id)
        elif task is not None and step.returns:
            _log.warning("step %s has its answer, but was not resumed; it is resumed now", step.id)
            self._evaluator.continue_step(step.id, {}, event_id=event_id)
            self._resume(row.id)
        else:
            _log.warning("step %s waits, but its task is gone: the task is made again", step.id)
            self._store.save_task(self._new_question(row, step, task))

    def _new_question(self, row: WorkflowRow, step: StepDocument, task: TaskDefinition | None) -> TaskDefinition:
        now_ms = self._clock.now_ms()
        if task is not None:
            return replace(task, state=TaskState.PENDING, owner="", lease_expires=0, error=None, updated=now_ms)
        return TaskDefinition(
            uuid=event_id_of(step.id, step.attempt),
            name=step.facet_name or "",
            runner_id=row.runner_id,
            workflow_id=row.id,
            flow_id="",
            step_id=step.id,
            created=now_ms,
            updated=now_ms,
            task_list_name=self._task_list,
            data=dict(deepcopy(dict(step.params))),
        )

    def _task_of(self, step: StepDocument) -> TaskDefinition | None:
        return self._store.get_task(event_id_of(step.id, step.attempt))

    def _still_waits(self, step: StepDocument) -> bool:
        now = self._store.get_step(step.id)
        return now is not None and now.state == StepState.EVENT_TRANSMIT and now.attempt == step.attempt


def _is_in_order(task: TaskDefinition | None) -> bool:
    return task is not None and task.state not in (TaskState.FAILED, TaskState.COMPLETED)
