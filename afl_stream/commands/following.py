"""The wait for a run on Kafka: its milestones on the lifecycle topic, and what it waits for when that takes long."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from afl.core.process.stopping import Stop
from afl.engine.model.store import CANCELLED, COMPLETED, ENDED_STATUSES, ERROR, ErrorRecord, WorkflowRow
from afl_stream.client.client import Milestones, NotInTime
from afl_stream.evaluator.runs import LONG_WAIT_S, Ending
from afl_stream.reading.watchdog import Watchdog
from afl_stream.transport import BrokerUnavailable
from afl_stream.wire.command_answers import REFUSED, REJECTED, is_answer_to
from afl_stream.wire.messages import Lifecycle

_READ_TIMEOUT_S: Final = 0.5
_STARTED: Final = "workflow.started"
#: Milestones after which an ended run continues.
_OPENINGS: Final = frozenset({"workflow.retried", "workflow.rerun", "workflow.reset"})
#: The status of a run by the milestone of its end.
_ENDINGS: Final = {f"workflow.{status.lower()}": status for status in (COMPLETED, ERROR, CANCELLED)}


class RunFollower:
    """Follows one run from its start command to its end.

    The evaluator's answer to the command comes first: an end that is reported before it may belong to another run with
    the chosen id. A generated id has no other run. An evaluator of the previous release does not name the command: its
    answer is that it has started a run of this id since the command was sent.
    """

    def __init__(self, workflow_id: str, command_id: str, *, is_drawn: bool) -> None:
        self._workflow_id = workflow_id
        self._command_id = command_id
        self._is_drawn = is_drawn
        self._is_answered = is_drawn
        self._started_at_ms = 0
        self._ended: Ending | None = None

    def take(self, milestone: Lifecycle) -> Ending | None:
        """Take a milestone of the workflow, and return the run's end once it is known."""
        is_answer = is_answer_to(self._command_id, milestone)
        if milestone.kind in (REJECTED, REFUSED):
            # An evaluator of the release before names no command.
            is_ours = is_answer or (self._is_drawn and milestone.kind == REJECTED and milestone.command_id is None)
            return Ending(workflow_id=self._workflow_id, rejected=milestone.error) if is_ours else None
        self._is_answered = self._is_answered or is_answer
        status = milestone.status if is_answer else None
        if status is not None and status in ENDED_STATUSES:
            row = _row_of(milestone, status, self._started_at_ms)
            return Ending(workflow_id=self._workflow_id, row=row, was_over=True)
        if milestone.kind == _STARTED:
            self._started_at_ms = milestone.at
            if milestone.command_id is None:
                self._is_answered, self._ended = True, None
        elif milestone.kind in _OPENINGS:
            self._ended = None
        elif milestone.kind in _ENDINGS:
            row = _row_of(milestone, _ENDINGS[milestone.kind], self._started_at_ms)
            self._ended = Ending(workflow_id=self._workflow_id, row=row)
        return self._ended if self._is_answered else None

    def follow(
        self,
        milestones: Milestones,
        watchdog: Watchdog,
        *,
        timeout_s: float | None,
        stop: Stop,
        on_long_wait: Callable[[], None],
        long_wait_s: float = LONG_WAIT_S,
    ) -> Ending:
        """Wait for the run's end, or for a request to stop. `on_long_wait` is called once, after `long_wait_s`.

        Raises NotInTime, and BrokerUnavailable after an outage.
        """
        began_s, is_reported = time.monotonic(), False
        while not stop.is_set():
            waited_s = time.monotonic() - began_s
            if timeout_s is not None and waited_s >= timeout_s:
                raise NotInTime(f"the end of workflow {self._workflow_id}", timeout_s)
            left_s = _READ_TIMEOUT_S if timeout_s is None else min(_READ_TIMEOUT_S, timeout_s - waited_s)
            try:
                if not is_reported and waited_s >= long_wait_s:
                    is_reported = True
                    on_long_wait()
                found = milestones.read(left_s)
                watchdog.read(milestones.consumer, len(found))
            except BrokerUnavailable as error:
                # The command is acknowledged: the run continues without this process, and the broker may come back.
                stop.wait(min(watchdog.failed(error), left_s))
                continue
            for milestone in found:
                if (ending := self.take(milestone)) is not None:
                    return ending
        return Ending(workflow_id=self._workflow_id)


def _row_of(milestone: Lifecycle, status: str, started_at_ms: int) -> WorkflowRow:
    """Return a run, as far as the milestone of its end describes it."""
    error = None
    if milestone.error is not None:
        reason = milestone.error
        error = ErrorRecord(
            type=reason.type,
            message=reason.message,
            step_id=milestone.step_id or "",
            facet=milestone.facet or "",
        )
    return WorkflowRow(
        id=milestone.workflow_id,
        revision=0,
        program="",
        name=milestone.workflow or "",
        status=status,
        outputs=milestone.outputs,  # type: ignore[arg-type]  # decoded values
        error=error,
        created_at_ms=started_at_ms,
        ended_at_ms=milestone.at if started_at_ms else 0,
    )
