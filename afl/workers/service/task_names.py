"""The names of the tasks that runners do themselves. They are stored and written by others: never change one."""

from __future__ import annotations

from typing import Final

#: Start a workflow of a flow.
EXECUTE_TASK_NAME: Final = "afl:execute"
#: Go on with a step whose returns somebody else has written.
RESUME_TASK_NAME: Final = "afl:resume"
