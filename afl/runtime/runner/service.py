"""RunnerService: polls tasks and waiting steps, starts workflows, and says over HTTP how it is doing."""

from afl.core.clock import epoch_ms
from afl.workers.service.service import (
    EXECUTE_TASK_NAME,
    RESUME_TASK_NAME,
    SILENCE_LIMIT_S,
    RunnerConfig,
    RunnerService,
)

#: The time in ms since the epoch, under the name that callers of this module know.
_current_time_ms = epoch_ms

__all__ = [
    "EXECUTE_TASK_NAME",
    "RESUME_TASK_NAME",
    "RunnerConfig",
    "RunnerService",
    "SILENCE_LIMIT_S",
]
