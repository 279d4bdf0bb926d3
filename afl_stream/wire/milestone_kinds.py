"""The kinds of milestones on the lifecycle topic. They are on topics and in people's scripts: never change one.

`afl_stream.wire.command_answers` has those that answer commands and external events.
"""

from __future__ import annotations

from typing import Final

WORKFLOW_STARTED: Final = "workflow.started"
#: An operator has paused the run: nothing of it goes on until it is resumed.
WORKFLOW_PAUSED: Final = "workflow.paused"
WORKFLOW_RESUMED: Final = "workflow.resumed"
WORKFLOW_RETRIED: Final = "workflow.retried"
WORKFLOW_RERUN: Final = "workflow.rerun"
WORKFLOW_RESET: Final = "workflow.reset"
#: The run continues by another version of its program; `outputs` has the fingerprints, `from` and `to`.
WORKFLOW_MIGRATED: Final = "workflow.migrated"
WORKFLOW_COMPLETED: Final = "workflow.completed"
#: The run has failed.
WORKFLOW_ERROR: Final = "workflow.error"
WORKFLOW_CANCELLED: Final = "workflow.cancelled"

#: An event was sent to agents; `outputs` has the `attempt`.
STEP_STARTED: Final = "step.started"
#: An attempt has failed, and another one follows; `outputs` has its number and `next_at_ms`.
STEP_RETRYING: Final = "step.retrying"
STEP_COMPLETED: Final = "step.completed"
STEP_FAILED: Final = "step.failed"

#: The ends of a run. One that is retried, rerun or reset continues after its end.
WORKFLOW_ENDS: Final = frozenset({WORKFLOW_COMPLETED, WORKFLOW_ERROR, WORKFLOW_CANCELLED})
#: After these a run goes on, also if it had ended.
WORKFLOW_OPENINGS: Final = frozenset({WORKFLOW_STARTED, WORKFLOW_RETRIED, WORKFLOW_RERUN, WORKFLOW_RESET})
