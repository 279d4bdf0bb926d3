"""RunnerService: a server that polls tasks and waiting steps, starts workflows, and reports its status over HTTP."""

from __future__ import annotations

from afl.workers.service.requests import WorkflowIdTaken, request_workflow
from afl.workers.service.service import RunnerService
from afl.workers.service.settings import RunnerConfig
from afl.workers.service.task_names import EXECUTE_TASK_NAME, RESUME_TASK_NAME

__all__ = [
    "EXECUTE_TASK_NAME",
    "RESUME_TASK_NAME",
    "RunnerConfig",
    "RunnerService",
    "WorkflowIdTaken",
    "request_workflow",
]

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "__main__",
    "requests",
    "service",
    "settings",
    "task_names",
)
