"""The client's part about steps: it answers their events from outside."""

from __future__ import annotations

from collections.abc import Mapping

from afl_stream.client.connection import Connection
from afl_stream.errors import StreamError
from afl_stream.wire.messages import FailureReason, Lifecycle, StepContinue, StepFailed, event_id_of, workflow_of


class AttemptNeeded(StreamError):
    """Answers must carry a token in this deployment, and the token depends on the attempt that is answered."""

    def __init__(self, step_id: str) -> None:
        super().__init__(
            f"step {step_id}: answers must carry a token in this deployment, so give the attempt that this one is for"
        )
        self.step_id = step_id


class AnswerConnection(Connection):
    """What a client does with the events of steps."""

    def continue_step(
        self,
        step_id: str,
        result: Mapping[str, object],
        *,
        attempt: int | None = None,
        command_id: str | None = None,
        answer_timeout_s: float | None = None,
    ) -> Lifecycle | None:
        """Answer a step's event with a result; without an attempt, the answer is for the current one.

        With `answer_timeout_s` it waits until an evaluator has read the answer, and returns the evaluator's reply: its
        `kind` is `command.applied`, or `answer.parked` where the step has not asked yet. The reply is the milestone
        with the `command_id`, which is generated where it is needed and not given. Raises IdRefused,
        ValueRefused, BrokerUnavailable, and AttemptNeeded where tokens are on; when it waits, also RefusedByEvaluator
        and NotAnswered.
        """
        token = self._token(step_id, attempt)
        answer = StepContinue(step_id=step_id, result=dict(result), attempt=attempt, answer_token=token)
        return self._answer(answer, command_id, answer_timeout_s)

    def fail_step(
        self,
        step_id: str,
        message: str,
        error_type: str = "Failed",
        *,
        attempt: int | None = None,
        command_id: str | None = None,
        answer_timeout_s: float | None = None,
    ) -> Lifecycle | None:
        """Answer a step's event with a failure. Returns and raises as `continue_step`."""
        token = self._token(step_id, attempt)
        reason = FailureReason(type=error_type, message=message)
        failed = StepFailed(step_id=step_id, error=reason, attempt=attempt, answer_token=token)
        return self._answer(failed, command_id, answer_timeout_s)

    def _answer(
        self, answer: StepContinue | StepFailed, command_id: str | None, answer_timeout_s: float | None
    ) -> Lifecycle | None:
        topic, workflow_id = self.topology.control(), workflow_of(answer.step_id)
        about = f"the answer of step {answer.step_id}"
        return self._ask(topic, workflow_id, answer, command_id, answer_timeout_s, about=about)

    def _token(self, step_id: str, attempt: int | None) -> str | None:
        if self._tokens is None:
            return None
        if attempt is None:
            raise AttemptNeeded(step_id)
        return self._tokens.token_for(event_id_of(step_id, attempt), attempt)
