"""The two ways in which events leave the engine, chosen for each facet: a record on its topic, or a task."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from afl.core.ids import event_id_of
from afl.engine.execution.execution import Execution
from afl.engine.execution.task_dispatch import TaskDispatch
from afl.engine.model.entities import TaskState
from afl.engine.model.plan import FacetPlan, WorkflowPlan
from afl.engine.model.records import StepRecord
from afl.engine.model.store import Batch, TaskEnd
from afl_stream.evaluator.outbox import OutboxDispatch
from afl_stream.settings.config import DispatchSettings


class DispatchByMode:
    """Writes each event once: to the outbox, or as a task for pollers of the store, as the settings say for its facet.

    A workflow without a lane was not started by this deployment, but by an `Evaluator` on the store: all of its events
    are tasks, whichever process continues it.
    """

    def __init__(self, outbox: OutboxDispatch, settings: DispatchSettings) -> None:
        self._outbox = outbox
        self._tasks = TaskDispatch(settings.task_list)
        self._settings = settings
        self._has_tasks = settings.has_tasks
        #: Weak: an unused plan is freed.
        self._on_topic: WeakKeyDictionary[FacetPlan, bool] = WeakKeyDictionary()

    def prepare(self, plan: WorkflowPlan) -> None:
        """Announce the schemas of the events that go to topics. Raises SchemaUnavailable."""
        self._outbox.prepare(plan)

    def serves(self, execution: Execution) -> bool:  # noqa: ARG002 - the port's signature
        """Return True: every workflow of the store can be continued here."""
        return True

    def dispatch(self, execution: Execution, step: StepRecord, event_id: str, effects: Batch) -> None:
        """Add the record or the task. Raises what the outbox raises."""
        # The first look is the usual case, without a call.
        if (self._has_tasks or not execution.lane) and self._is_task(execution, step):
            self._tasks.dispatch(execution, step, event_id, effects)
        else:
            self._outbox.dispatch(execution, step, event_id, effects)

    def answered(self, execution: Execution, step: StepRecord, effects: Batch) -> None:
        """End the event's task, if it has one, in the answer's commit."""
        if (self._has_tasks or not execution.lane) and self._is_task(execution, step):
            self._tasks.answered(execution, step, effects)

    def ended(self, execution: Execution, effects: Batch) -> None:
        """Publish the milestone of the workflow's end, and cancel the tasks that are not needed any more."""
        self._outbox.ended(execution, effects)
        if execution.open_events:
            effects.task_ends += [
                TaskEnd(event_id_of(step.id, step.attempt), TaskState.CANCELED)
                for step in execution.steps.values()
                if step.is_waiting and self._is_task(execution, step)
            ]

    def _is_task(self, execution: Execution, step: StepRecord) -> bool:
        if not execution.lane:
            return True
        if not self._has_tasks:
            return False
        facet = step.facet
        assert facet is not None
        on_topic = self._on_topic.get(facet)
        if on_topic is None:
            on_topic = self._on_topic[facet] = self._settings.is_topic(facet.name)
        return not on_topic
