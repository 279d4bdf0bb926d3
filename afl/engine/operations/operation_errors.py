"""Refusals of an operator's action on a run: what was found, and what would be right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from afl.engine.errors import RuntimeError as EngineError
from afl.engine.operations.misfits import Misfit

#: The most misfits that an error names, and the digits of a fingerprint that it shows.
_MOST_MISFITS = 10
_SHOWN_DIGITS = 12


class OperationRefused(EngineError):
    """An operator's action that cannot be done on the run in its present state. Nothing has changed."""


@dataclass(eq=False)
class StepNotFailed(OperationRefused):
    """A step, or a run (then `run_status` is its status as `status` shows it), was to be retried but has not failed."""

    step_id: str
    path: str
    state: str
    run_status: str | None = None

    def __str__(self) -> str:
        if self.run_status is not None:
            run_id = self.step_id.partition(":")[0]
            return (
                f"run {run_id} ({self.path}) has not failed: it is {self.run_status}; retry is for failed runs,"
                " reset runs it again from its start, rerun runs one of its steps again"
            )
        return (
            f"step {self.step_id} ({self.path}) has not failed: it is at {self.state}; retry is for failed steps,"
            " rerun runs a step again whatever its outcome"
        )


@dataclass(eq=False)
class StepWasCaught(OperationRefused):
    """A step was to be retried but a catch has handled its failure."""

    step_id: str
    path: str
    catching_id: str
    catching_path: str

    def __str__(self) -> str:
        return (
            f"step {self.step_id} ({self.path}) has failed and was caught by {self.catching_path}: retry what failed in"
            f" that catch, or re-run from step {self.catching_id}"
        )


@dataclass(eq=False)
class RunHasEnded(OperationRefused):
    """A run was to continue as new but has ended."""

    workflow_id: str
    status: str

    def __str__(self) -> str:
        return f"run {self.workflow_id} has ended ({self.status}): reset runs it again, or start another one"


@dataclass(eq=False)
class NothingToMove(OperationRefused):
    """A run was to move to another version of its program but has ended."""

    workflow_id: str
    status: str

    def __str__(self) -> str:
        return (
            f"run {self.workflow_id} has ended ({self.status}), and keeps the version that it ran: only runs that have "
            "not ended move to another one"
        )


@dataclass(eq=False)
class AlreadyOnVersion(OperationRefused):
    """A run was to move to the version of its program that it has."""

    workflow_id: str
    program: str

    def __str__(self) -> str:
        return f"run {self.workflow_id} is on version {self.program[:_SHOWN_DIGITS]} already: nothing was changed"


@dataclass(eq=False)
class VersionDoesNotFit(OperationRefused):
    """A run was to move to a version of its program that does not take its steps or values. `misfits` names them."""

    workflow_id: str
    program: str
    misfits: Sequence[Misfit]

    def __str__(self) -> str:
        named = "; ".join(map(str, self.misfits[:_MOST_MISFITS]))
        more = len(self.misfits) - _MOST_MISFITS
        return (
            f"run {self.workflow_id} does not fit version {self.program[:_SHOWN_DIGITS]}, and stays as it is: {named}"
            f"{f'; and {more} more' if more > 0 else ''}"
        )


@dataclass(eq=False)
class StepSuperseded(OperationRefused):
    """An action names a step that was run again since."""

    step_id: str

    def __str__(self) -> str:
        return f"step {self.step_id} was run again since, under another id: name that one"


@dataclass(eq=False)
class UnknownStep(OperationRefused, ValueError):
    """An action names an unknown step."""

    step_id: str

    def __str__(self) -> str:
        return f"step {self.step_id} not found"


@dataclass(eq=False)
class UnknownWorkflow(OperationRefused, ValueError):
    """An action names an unknown workflow."""

    workflow_id: str

    def __str__(self) -> str:
        return f"workflow {self.workflow_id} not found"


@dataclass(eq=False)
class RunByDeployment(OperationRefused):
    """A run of a topic deployment cannot be ended past its evaluators: subscribers would not hear of the end."""

    workflow_id: str

    def __str__(self) -> str:
        return (
            f"workflow {self.workflow_id} is run by the evaluators of a deployment on topics, which announce its end: "
            f"afl-stream cancel {self.workflow_id}"
        )
