"""The state of a workflow in memory; execution.py changes it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from afl.engine import limits
from afl.engine.execution.ports import Dispatch, Trace
from afl.engine.execution.run_bounds import RunBounds
from afl.engine.model.plan import WorkflowPlan
from afl.engine.model.records import Frame, StepRecord
from afl.engine.model.step_rows import BoundStep
from afl.engine.model.store import Batch, StepDocument
from afl.engine.types import Value


class ExecutionState:
    """One execution of a workflow: its steps, and the changes since the last commit."""

    __slots__ = (
        "_effects",
        "bound_steps",
        "bounds",
        "bytes_until",
        "cancelled",
        "count",
        "created_at_ms",
        "dirty",
        "dispatch",
        "documents",
        "end_was_reported",
        "ended",
        "ended_at_ms",
        "entries_until",
        "execution",
        "has_caught",
        "has_effects",
        "held_events",
        "id",
        "inputs",
        "is_ended",
        "iterations",
        "lane",
        "made",
        "max_open_events",
        "new_scripts",
        "now_ms",
        "open_events",
        "plan",
        "queue",
        "revision",
        "room",
        "root",
        "runner_id",
        "runs_scripts",
        "scripts",
        "steps",
        "trace",
        "waiting_foreachs",
    )

    def __init__(self, plan: WorkflowPlan, workflow_id: str, dispatch: Dispatch, trace: Trace | None = None) -> None:
        self.plan = plan
        self.id = workflow_id
        self.dispatch = dispatch
        self.trace = trace
        self.now_ms = 0
        #: The revision in the store from which this state continues; 0: nothing is stored yet.
        self.revision = 0
        self.execution = 1
        self.runner_id = ""
        self.lane = ""
        self.inputs: Mapping[str, Value] = {}
        self.iterations = 0
        self.created_at_ms = 0
        self.ended_at_ms = 0
        self.cancelled = False
        #: True when the root has completed or failed, or the run was cancelled.
        self.is_ended = False
        #: True when subscribers have been told that the workflow has ended.
        self.end_was_reported = False
        #: Steps by id, except those that bound their attributes and were complete at once: they never change, and only
        #: their stored rows are left (their block's frame has them).
        self.steps: dict[str, StepRecord] = {}
        #: The number of steps made, including those.
        self.count = 0
        self.root: StepRecord
        #: Changed steps, for the next iteration.
        self.queue: list[StepRecord] = []
        #: The rest of this iteration's room: units of work, and the limits up to which it may count bytes given to
        #: steps, and entries read by operators (run_bounds.py). The rest of the steps run in the next.
        self.room = self.bytes_until = self.entries_until = 0
        #: Steps made in this iteration that still run in it or, when its room is used up, in the next.
        self.made: deque[StepRecord] = deque()
        self.ended: list[StepRecord] = []
        #: Steps of this iteration that are complete already, by block.
        self.bound_steps: list[tuple[StepRecord, Frame, list[BoundStep]]] = []
        #: The rows of the next commit: steps changed since the last one, and bound ones.
        self.dirty: list[StepRecord] = []
        self.documents: list[StepDocument | BoundStep] = []
        #: The number of unanswered events, and the steps that hold their event back until one of these is answered.
        self.open_events = 0
        self.held_events: deque[StepRecord] = deque()
        #: Large foreachs that pause until the events of their existing elements are sent.
        self.waiting_foreachs: dict[str, StepRecord] = {}
        self.max_open_events = limits.MAX_OPEN_EVENTS
        #: The limits of the run; the code that makes or loads it sets them.
        self.bounds = RunBounds()
        #: Steps whose scripts wait or run, by id, and those among them that the driver has not seen yet. The driver of
        #: this execution runs them (execution/scripts.py), if `runs_scripts` is set.
        self.runs_scripts = False
        self.scripts: dict[str, StepRecord] = {}
        self.new_scripts: list[StepRecord] = []
        #: True after a step has failed and was caught: yields of failed blocks are left out from then on.
        self.has_caught = False
        self._effects: Batch | None = None
        #: Whether there are effects, which a commit must write besides rows.
        self.has_effects = False

    @property
    def effects(self) -> Batch:
        """Outbox records, tasks and log entries that the steps of this unit of work have made."""
        if self._effects is None:
            self._effects, self.has_effects = Batch(values_checked=True), True
        return self._effects

    def take_effects(self) -> Batch | None:
        """Return the effects for the next commit, and start anew without any; None when there are none."""
        effects, self._effects, self.has_effects = self._effects, None, False
        return effects
