"""Evaluators' answers to commands: milestones on the lifecycle topic that carry the command's id."""

from __future__ import annotations

from typing import Final

from afl_stream.errors import StreamError
from afl_stream.wire.bounded_texts import kept_id
from afl_stream.wire.messages import FailureReason, Lifecycle

#: A start that made no run, and never will.
REJECTED: Final = "workflow.rejected"
#: Any other command that was not carried out; also a start whose id another run has.
REFUSED: Final = "command.refused"
#: A command whose effect exists already: nothing was changed. `status` is the workflow's; for an ended one the
#: milestone has outputs or error, too.
REPEATED: Final = "command.repeated"
#: A command that was carried out and has no milestone of its own: a cancel.
APPLIED: Final = "command.applied"
#: An answer to a step that has not asked yet, or of a workflow that is not known: kept until it appears, or expires.
KEPT: Final = "answer.parked"
#: The steps that a workflow waits for.
DESCRIBED: Final = "workflow.described"

#: An external event: a step that waited for it has taken it.
EVENT_TAKEN: Final = "event.taken"
#: No step waits for it yet: it is kept until one does. `status` is the workflow's; None: there is no such workflow yet.
EVENT_QUEUED: Final = "event.queued"
#: Its id is that of an event that the workflow has: nothing was changed.
EVENT_REPEATED: Final = "event.repeated"
#: Its workflow has ended (`status` says how): it is in the history, and no step will ever take it.
EVENT_LATE: Final = "event.late"
#: It was not taken: `error` says why. Its record is a dead letter.
EVENT_REFUSED: Final = "event.refused"


class RefusedByEvaluator(StreamError):
    """An evaluator has read a command and refused it. `reason` has its error's class and text."""

    def __init__(self, workflow_id: str, reason: FailureReason) -> None:
        super().__init__(f"refused by the evaluator: {reason.type}: {reason.message}")
        self.workflow_id, self.reason = workflow_id, reason


def is_answer_to(command_id: str, milestone: Lifecycle) -> bool:
    """Return whether a milestone answers the command of this id.

    The first answer counts: a command that is delivered twice is answered twice.
    """
    return milestone.command_id is not None and milestone.command_id == kept_id(command_id)


def checked_answer(milestone: Lifecycle) -> Lifecycle:
    """Return an answer unchanged. Raises RefusedByEvaluator for a refusal."""
    if milestone.kind in (REJECTED, REFUSED):
        reason = milestone.error or FailureReason(type="Refused", message="no reason is given")
        raise RefusedByEvaluator(milestone.workflow_id, reason)
    return milestone
