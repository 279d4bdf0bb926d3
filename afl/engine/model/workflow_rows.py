"""One workflow as a store keeps it: its row, and the changes of a commit to it and to its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from afl.core.versions import RUNTIME_VERSION, STEP_SCHEMA_VERSION, WORKFLOW_VERSION
from afl.engine.model.step_rows import ErrorRecord, StepDocument, StepRow
from afl.engine.types import Value

#: Stored statuses of workflows. PAUSED: at a fixed point with unanswered events. RUNNING: more to do (runnable).
RUNNING, PAUSED, COMPLETED, ERROR, CANCELLED = "RUNNING", "PAUSED", "COMPLETED", "ERROR", "CANCELLED"
ENDED_STATUSES = frozenset({COMPLETED, ERROR, CANCELLED})
UNFINISHED_STATUSES = frozenset({RUNNING, PAUSED})

_NO_VALUES: Mapping[str, Value] = {}


class WorkflowRow(NamedTuple):
    """One execution of a workflow."""

    id: str
    #: Increased by each commit; 1 after the first.
    revision: int
    #: Fingerprint of the pinned program.
    program: str
    #: Qualified name of the workflow.
    name: str
    status: str
    #: Whether more can run now: the owner of the workflow must evaluate it without waiting for an answer.
    runnable: bool = False
    inputs: Mapping[str, Value] = _NO_VALUES
    outputs: Mapping[str, Value] | None = None
    error: ErrorRecord | None = None
    #: The number of this execution under its workflow id, from 1.
    execution: int = 1
    runner_id: str = ""
    #: The outbox lane of the workflow's own records.
    lane: str = ""
    #: The number of steps made so far.
    steps: int = 0
    iterations: int = 0
    created_at_ms: int = 0
    updated_at_ms: int = 0
    ended_at_ms: int = 0
    workflow_version: str = WORKFLOW_VERSION
    step_schema_version: str = STEP_SCHEMA_VERSION
    runtime_version: str = RUNTIME_VERSION
    #: The number of executions before the one that this row began with: those that continued as new.
    executions_before: int = 0
    #: External events that no wait has taken yet.
    pending_events: int = 0
    #: The trace that the run is part of: the span that started it, as `TraceContext.text`. Empty: none was named.
    trace_context: str = ""

    @property
    def execution_number(self) -> int:
        """Return the number of the current execution under this id, from 1: it counts up whatever begins a new one."""
        return self.executions_before + self.execution


class WorkflowHead(NamedTuple):
    """What is known of a workflow without reading its document."""

    id: str
    revision: int
    #: 0: not known, as of rows that earlier releases wrote.
    updated_at_ms: int


class WorkflowChange:
    """The change of one workflow: its row (revision = `expected_revision` + 1) and the steps made or changed."""

    __slots__ = ("_workflow", "expected_revision", "replaces", "revision", "rows", "runnable", "workflow_id")

    def __init__(self, workflow: WorkflowRow, expected_revision: int, steps: Sequence[StepRow] = ()) -> None:
        self._workflow: WorkflowRow | None = workflow
        self.workflow_id = workflow.id
        self.revision = workflow.revision
        self.runnable = workflow.runnable
        #: The revision from which this was computed; 0: the workflow is new.
        self.expected_revision = expected_revision
        #: The steps in the engine's form; most stores use `steps`.
        self.rows = steps
        #: Whether the workflow begins anew with these steps: all rows of its earlier ones go.
        self.replaces = False

    @property
    def workflow(self) -> WorkflowRow:
        assert self._workflow is not None
        return self._workflow

    @property
    def steps(self) -> list[StepDocument]:
        """The steps' documents, built again at each access."""
        return [row if isinstance(row, StepDocument) else row.document() for row in self.rows]


class RunningChange(WorkflowChange):
    """The change of a workflow that continues: its revision and status, and what it counts.

    Its row is made on first use, because the next change is near.
    """

    __slots__ = ("_before", "is_written", "iterations", "keeps_status", "steps_made", "updated_at_ms")

    def __init__(
        self,
        before: WorkflowRow,
        expected_revision: int,
        runnable: bool,
        rows: Sequence[StepRow],
        steps: int,
        iterations: int,
        updated_at_ms: int,
        is_written: bool = False,
    ) -> None:
        """Take `before`, a row of this execution, which has not ended, from any time. `is_written`: the store has that
        row, but for what a change like this gives.

        The parameters are positional: by keyword this takes twice as long, for each iteration.
        """
        self._workflow = None
        self.replaces = False
        self._before = before
        self.workflow_id = before.id
        self.revision = expected_revision + 1
        self.runnable = runnable
        self.expected_revision = expected_revision
        self.rows = rows
        self.steps_made = steps
        self.iterations = iterations
        self.updated_at_ms = updated_at_ms
        self.is_written = is_written
        #: Whether the store has this status, too.
        self.keeps_status = False

    @property
    def status(self) -> str:
        return RUNNING if self.runnable else PAUSED

    @property
    def workflow(self) -> WorkflowRow:
        if self._workflow is None:
            self._workflow = self._before._replace(
                revision=self.revision,
                status=self.status,
                runnable=self.runnable,
                steps=self.steps_made,
                iterations=self.iterations,
                updated_at_ms=self.updated_at_ms,
            )
        return self._workflow
