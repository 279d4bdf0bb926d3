"""What a workflow in memory is made of; execution.py says what happens to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from afl.engine import limits
from afl.engine.execution.ports import Dispatch, Trace
from afl.engine.execution.run_bounds import RunBounds
from afl.engine.model.plan import WorkflowPlan
from afl.engine.model.records import Frame, StepRecord
from afl.engine.model.step_rows import SettledStep
from afl.engine.model.store import Batch, StepDocument
from afl.engine.types import Value


class ExecutionState:
    """One execution of a workflow: its steps, and what has happened since the last commit."""

    __slots__ = (
        "_effects",
        "bounds",
        "bytes_until",
        "cancelled",
        "count",
        "created_at_ms",
        "dirty",
        "dispatch",
        "documents",
        "end_was_told",
        "ended",
        "ended_at_ms",
        "entries_until",
        "execution",
        "has_caught",
        "has_effects",
        "held",
        "id",
        "inputs",
        "is_ended",
        "iterations",
        "lane",
        "made",
        "makers",
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
        "settled",
        "steps",
        "trace",
    )

    def __init__(self, plan: WorkflowPlan, workflow_id: str, dispatch: Dispatch, trace: Trace | None = None) -> None:
        self.plan = plan
        self.id = workflow_id
        self.dispatch = dispatch
        self.trace = trace
        self.now_ms = 0
        #: The revision in the store that this state continues; 0: nothing is stored yet.
        self.revision = 0
        self.execution = 1
        self.runner_id = ""
        self.lane = ""
        self.inputs: Mapping[str, Value] = {}
        self.iterations = 0
        self.created_at_ms = 0
        self.ended_at_ms = 0
        self.cancelled = False
        #: The root has completed or failed, or somebody has cancelled the run.
        self.is_ended = False
        #: Subscribers have been told that the workflow has ended.
        self.end_was_told = False
        #: Steps by id, but for those that bound their attributes and were complete: nothing will ever happen to them,
        #: so the rows that the store keeps of them are all that is left (their block's frame has them).
        self.steps: dict[str, StepRecord] = {}
        #: How many steps were made, those included.
        self.count = 0
        self.root: StepRecord
        #: Steps that something happened to, for the next iteration.
        self.queue: list[StepRecord] = []
        #: What this iteration has left: units of work, and up to where it may count bytes that steps are given, and
        #: entries that operators read (run_bounds.py). The rest runs in the next.
        self.room = self.bytes_until = self.entries_until = 0
        #: Steps made in this iteration, still to run in it or, where its room is used up, in the next.
        self.made: deque[StepRecord] = deque()
        self.ended: list[StepRecord] = []
        #: Steps of this iteration that are complete already, by block.
        self.settled: list[tuple[StepRecord, Frame, list[SettledStep]]] = []
        #: What the next commit writes: steps changed since the last one, and settled ones.
        self.dirty: list[StepRecord] = []
        self.documents: list[StepDocument | SettledStep] = []
        #: Unanswered events, and steps that wait for one of them to be answered before theirs is sent.
        self.open_events = 0
        self.held: deque[StepRecord] = deque()
        #: Large foreachs that make no more elements before the events of those that are there are sent.
        self.makers: dict[str, StepRecord] = {}
        self.max_open_events = limits.MAX_OPEN_EVENTS
        #: What the run may take; whoever makes or reads it back says how much that is.
        self.bounds = RunBounds()
        #: Steps whose scripts are to run or running, by id, and those among them that nobody has been told of yet.
        #: Whoever drives this execution runs them (execution/scripts.py), where `runs_scripts` says that it does.
        self.runs_scripts = False
        self.scripts: dict[str, StepRecord] = {}
        self.new_scripts: list[StepRecord] = []
        #: A step has failed and was caught: what failed blocks have yielded is left out from here on.
        self.has_caught = False
        self._effects: Batch | None = None
        #: Whether there are effects, which a commit has to write besides rows.
        self.has_effects = False

    @property
    def effects(self) -> Batch:
        """Outbox records, tasks and log entries that the steps of this unit of work have made."""
        if self._effects is None:
            self._effects, self.has_effects = Batch(values_checked=True), True
        return self._effects

    def take_effects(self) -> Batch | None:
        """The same, for the next commit, and none from here on; None when there are none."""
        effects, self._effects, self.has_effects = self._effects, None, False
        return effects
