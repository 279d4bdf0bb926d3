"""Looking back at runs: lists of them, one in detail, what happened to it, its records, and the programs.

Everything is read from the store while others write it, and from the topics on demand; nothing is changed. The commands
`list`, `show`, `history`, `trace` and `programs` print what these functions return.
"""

from __future__ import annotations

from afl.engine.model.visibility import WorkflowFilter
from afl_stream.visibility.programs import (
    Difference,
    NoSuchProgram,
    ProgramVersion,
    ProgramVersions,
    compare,
    list_programs,
    show_programs,
)
from afl_stream.visibility.records import Answer, PublishedEvent, RunRecordReader, RunRecords
from afl_stream.visibility.runs import RunDetail, StepDetail, show_workflow
from afl_stream.visibility.staying_runs import StayingRuns, staying_runs
from afl_stream.visibility.step_changes import compare_steps
from afl_stream.visibility.timeline import NOT_KEPT, Transition, timeline_of
from afl_stream.visibility.workflows import (
    NoSuchWorkflow,
    WorkflowPage,
    WorkflowSummary,
    all_workflows,
    find_workflow,
    full_id,
    list_workflows,
)

#: The modules that other packages import.
PUBLIC_MODULES = (
    "choosing",
    "programs",
    "records",
    "runs",
    "schedules",
    "staying_runs",
    "step_changes",
    "step_tree",
    "timeline",
    "workflows",
)

__all__ = [
    "NOT_KEPT",
    "Answer",
    "Difference",
    "NoSuchProgram",
    "NoSuchWorkflow",
    "ProgramVersion",
    "ProgramVersions",
    "PublishedEvent",
    "RunDetail",
    "RunRecordReader",
    "RunRecords",
    "StayingRuns",
    "StepDetail",
    "Transition",
    "WorkflowFilter",
    "WorkflowPage",
    "WorkflowSummary",
    "all_workflows",
    "compare",
    "compare_steps",
    "find_workflow",
    "full_id",
    "list_programs",
    "list_workflows",
    "show_programs",
    "show_workflow",
    "staying_runs",
    "timeline_of",
]
