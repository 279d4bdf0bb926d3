"""The client's part about runs that exist: it cancels, repeats, describes, continues and migrates them."""

from __future__ import annotations

from collections.abc import Mapping

from afl_stream.client.connection import drawn_id
from afl_stream.client.schedules import ScheduleConnection
from afl_stream.wire.messages import (
    CancelWorkflow,
    ContinueAsNew,
    DescribeWorkflow,
    Lifecycle,
    MigrateWorkflow,
    RerunStep,
    ResetWorkflow,
    RetryStep,
    RunAgain,
    check_workflow_id,
    workflow_of,
)
from afl_stream.wire.shapes import check_ids


class RunConnection(ScheduleConnection):
    """What a client does with runs that exist."""

    def cancel(
        self,
        workflow_id: str,
        reason: str = "",
        *,
        command_id: str | None = None,
        answer_timeout_s: float | None = None,
    ) -> str:
        """Ask for a workflow to be cancelled. Returns the command's id, which is generated unless it is given.

        Raises IdRefused, BrokerUnavailable, and with `answer_timeout_s` what `start` raises with it.
        """
        check_workflow_id(workflow_id)
        command_id = command_id or drawn_id()
        command = CancelWorkflow(workflow_id=workflow_id, reason=reason, command_id=command_id)
        self._give(command, answer_timeout_s)
        return command_id

    def retry(
        self,
        workflow_id: str,
        step_id: str | None = None,
        *,
        reason: str = "",
        command_id: str | None = None,
        answer_timeout_s: float | None = None,
    ) -> str:
        """Ask for what has failed to be retried: a step, or all that failed in the workflow.

        Returns the command's id, which is generated unless it is given: the same id again does nothing. Raises as
        `cancel`.
        """
        command_id = command_id or drawn_id()
        command = RetryStep(workflow_id=workflow_id, step_id=step_id, reason=reason, command_id=command_id)
        return self._run_again(command, command_id, answer_timeout_s)

    def rerun(
        self, step_id: str, *, reason: str = "", command_id: str | None = None, answer_timeout_s: float | None = None
    ) -> str:
        """Ask for a step to be run again, with all steps that depend on it. Returns and raises as `retry`."""
        command_id = command_id or drawn_id()
        workflow_id = workflow_of(step_id)
        command = RerunStep(workflow_id=workflow_id, step_id=step_id, reason=reason, command_id=command_id)
        return self._run_again(command, command_id, answer_timeout_s)

    def reset(
        self,
        workflow_id: str,
        *,
        reason: str = "",
        command_id: str | None = None,
        answer_timeout_s: float | None = None,
    ) -> str:
        """Ask for a workflow to be run again from its start. Returns and raises as `retry`."""
        command_id = command_id or drawn_id()
        command = ResetWorkflow(workflow_id=workflow_id, reason=reason, command_id=command_id)
        return self._run_again(command, command_id, answer_timeout_s)

    def _run_again(self, command: RunAgain, command_id: str, answer_timeout_s: float | None) -> str:
        check_ids(command)
        self._give(command, answer_timeout_s)
        return command_id

    def describe(self, workflow_id: str, *, answer_timeout_s: float) -> Lifecycle:
        """Ask the evaluators for the state of a workflow.

        The answer has it in `status`, and in its `outputs` under `waiting` the first steps that wait for an answer,
        each with step_id, facet, attempt and since_ms. Raises as `start`.
        """
        command = DescribeWorkflow(workflow_id=check_workflow_id(workflow_id), command_id=drawn_id())
        answer = self._give(command, answer_timeout_s)
        assert answer is not None
        return answer

    def continue_as_new(
        self,
        workflow_id: str,
        inputs: Mapping[str, object] | None = None,
        *,
        program: str | None = None,
        reason: str = "",
        command_id: str | None = None,
        answer_timeout_s: float | None = None,
    ) -> str:
        """Ask for a workflow to end its execution, and to continue as the next one with these inputs.

        Without `program` (a fingerprint) it keeps its own. Returns the command's id, which is generated unless it is
        given: the same id again does nothing. Raises as `cancel`.
        """
        check_workflow_id(workflow_id)
        command_id = command_id or drawn_id()
        command = ContinueAsNew(
            workflow_id=workflow_id, inputs=dict(inputs or {}), program=program, reason=reason, command_id=command_id
        )
        self._give(command, answer_timeout_s)
        return command_id

    def migrate(
        self,
        workflow_id: str,
        program: str,
        *,
        reason: str = "",
        command_id: str | None = None,
        answer_timeout_s: float | None = None,
    ) -> str:
        """Ask for a workflow to continue by another version of its program, by its fingerprint.

        What it has done stays, and its events are answered as before. Returns the command's id, which is generated
        unless it is given: the same id again does nothing. Raises as `cancel`; a version that does not take the run's
        steps and values is refused with a `reason.type` of VersionDoesNotFit, and a message that names them.
        """
        command_id = command_id or drawn_id()
        command = MigrateWorkflow(
            workflow_id=check_workflow_id(workflow_id), program=program, reason=reason, command_id=command_id
        )
        self._give(command, answer_timeout_s)
        return command_id
