"""Names of the tasks that runners do themselves. They are stored, and other programs write them: never change one."""

from __future__ import annotations

from typing import Final

#: Start a workflow of a flow.
EXECUTE_TASK_NAME: Final = "afl:execute"
#: Continue a step whose returns another process has written.
RESUME_TASK_NAME: Final = "afl:resume"
