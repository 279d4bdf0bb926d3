"""RunnerService: polls tasks and waiting steps, starts workflows, and says over HTTP how it is doing."""

from afl.workers.service.service import (
    EXECUTE_TASK_NAME,
    RESUME_TASK_NAME,
    SILENCE_LIMIT_S,
    RunnerConfig,
    RunnerService,
)

__all__ = [
    "EXECUTE_TASK_NAME",
    "RESUME_TASK_NAME",
    "RunnerConfig",
    "RunnerService",
    "SILENCE_LIMIT_S",
]
