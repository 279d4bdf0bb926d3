"""The writes of a unit of work besides workflows: parked records, dead letters, and milestones for subscribers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from afl.core.text.masking import masked_text
from afl.core.text.printable import printable
from afl.engine.model.store import Batch, OutboxRecord, ParkedRecord, WorkflowRow
from afl.engine.operations.unanswered import WaitingStep
from afl_stream.errors import AnswerNotTaken, TooManyParked
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.outcomes import MEANINGS, PARKED, Outcome
from afl_stream.evaluator.parked.parking_limits import ParkingClaim
from afl_stream.evaluator.parts.own_part import OfAnotherPart
from afl_stream.evaluator.record_places import place_of
from afl_stream.evaluator.reporting.letter_warnings import BuriedRecord, warn_of_letters
from afl_stream.limits import MAX_DESCRIBED_STEPS
from afl_stream.transport import Record
from afl_stream.wire.bounded_texts import kept_error, kept_failure, kept_id
from afl_stream.wire.command_answers import APPLIED, DESCRIBED, KEPT, REFUSED, REJECTED, REPEATED
from afl_stream.wire.dead_letters import dead_letter_headers
from afl_stream.wire.messages import Command, DescribeWorkflow, FailureReason, Lifecycle, StartWorkflow


class BatchOutputs:
    """Adds to the batch of one unit of work."""

    def __init__(self, context: EvaluatorContext, batch: Batch) -> None:
        self._context = context
        self.batch = batch
        self.now_ms = batch.now_ms
        self._parking = ParkingClaim(context.parking)
        #: The records that became dead letters.
        self.dead_letters: list[BuriedRecord] = []

    def park(self, record: Record, workflow_id: str, step_id: str) -> bool:
        """Keep a record until its step or workflow appears. False: there is no room, and it is a dead letter."""
        parked = ParkedRecord(
            id=place_of(record),
            workflow_id=workflow_id,
            step_id=step_id,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            key=record.key,
            value=record.value,
            headers=record.headers,
            parked_at_ms=self.now_ms,
            expires_at_ms=self.now_ms + self._context.config.evaluator.parked_answer_expiry_ms,
        )
        try:
            self._parking.take(workflow_id, step_id, parked.size_bytes)
        except TooManyParked as error:
            self.dead_letter(record, error)
            return False
        self.batch.parked.append(parked)
        return True

    def committed(self) -> None:
        """Note that the batch is in the store."""
        self._parking.committed()
        if self.dead_letters:
            warn_of_letters(self._context.warnings, self.dead_letters)

    def unreadable(self, record: Record, error: Exception) -> Outcome:
        """Take care of a record that is not applied here: it goes on to its own partition, or is a dead letter."""
        if not isinstance(error, OfAnotherPart):
            self.dead_letter(record, error)
            return Outcome.UNREADABLE
        key, lane = error.key.encode(), self._context.lanes.own
        self.batch.outbox.append(OutboxRecord(lane, record.topic, key, record.value, tuple(record.headers)))
        return Outcome.FORWARDED

    def dead_letter(self, record: Record, error: Exception, said: str | None = "") -> None:
        """Make a record a dead letter, and warn of it after the commit.

        `said` names the record in the warning, by default its place does; None: the caller has warned.
        """
        self.dead_letters.append(BuriedRecord(record, error, said))
        headers = dead_letter_headers(record, error, at_ms=self.now_ms)
        topic = self._context.topology.dlq(record.topic)
        self.batch.outbox.append(OutboxRecord(self._context.lanes.own, topic, record.key, record.value, headers))

    def tell(
        self,
        workflow_id: str,
        kind: str,
        *,
        step_id: str | None = None,
        workflow: str | None = None,
        error: FailureReason | None = None,
        at_ms: int | None = None,
        command_id: str | None = None,
    ) -> None:
        at_ms = self.now_ms if at_ms is None else at_ms
        milestone = Lifecycle(
            workflow_id=workflow_id,
            kind=kind,
            at=at_ms,
            workflow=workflow,
            step_id=step_id,
            error=error,
            command_id=kept_id(command_id),
        )
        self._context.dispatch.tell(self.batch, milestone)

    # --- answers to commands ------------------------------------------------------------------------------------

    def refuse(self, command: Command, error: Exception, *, is_no_run: bool = False) -> None:
        """Answer a command that it is refused. `is_no_run`: the run that it asks for will not exist."""
        workflow = printable(command.workflow) if isinstance(command, StartWorkflow) else None
        kind = REJECTED if is_no_run else REFUSED
        reason = kept_error(error)
        reason = replace(reason, message=masked_text(reason.message))
        self.tell(command.workflow_id, kind, workflow=workflow, error=reason, command_id=command.command_id)

    def repeat(self, command: Command, status: str, ended: WorkflowRow | None = None) -> None:
        """Answer a command that its effect exists already; for an `ended` run also how it ended."""
        if command.command_id is None:
            return
        milestone = Lifecycle(
            workflow_id=command.workflow_id,
            kind=REPEATED,
            at=self.now_ms,
            command_id=kept_id(command.command_id),
            status=status,
        )
        if ended is None:
            self._context.dispatch.tell(self.batch, milestone)
            return
        error = ended.error
        milestone = replace(
            milestone,
            workflow=ended.name,
            step_id=error.step_id if error is not None else None,
            facet=error.facet if error is not None else None,
            outputs=ended.outputs,
            error=kept_failure(error.type, error.message) if error is not None else None,
        )
        self._context.dispatch.tell_outputs(self.batch, milestone, ended.program)

    def reply(self, workflow_id: str, step_id: str, outcome: Outcome, command_id: str) -> None:
        """Answer a person who answered a step by hand with the outcome."""
        if outcome is Outcome.APPLIED or outcome in PARKED:
            kind = KEPT if outcome in PARKED else APPLIED
            self.tell(workflow_id, kind, step_id=step_id, command_id=command_id)
        else:
            error = kept_error(AnswerNotTaken(step_id, outcome.value, MEANINGS[outcome]))
            self.tell(workflow_id, REFUSED, step_id=step_id, error=error, command_id=command_id)

    def describe(self, command: DescribeWorkflow, row: WorkflowRow, waiting: Sequence[WaitingStep]) -> None:
        """Answer with the status of a run, and the first of the steps that wait for an answer."""
        described = [_described(step) for step in waiting[:MAX_DESCRIBED_STEPS]]
        milestone = Lifecycle(
            workflow_id=row.id,
            kind=DESCRIBED,
            at=self.now_ms,
            workflow=row.name,
            outputs={"waiting": described, "waiting_count": len(waiting)},
            command_id=kept_id(command.command_id),
            status=row.status,
        )
        self._context.dispatch.tell(self.batch, milestone)


def _described(step: WaitingStep) -> dict[str, object]:
    """Return what is said of a waiting step: of one that asks an agent without a deadline, what always was."""
    described: dict[str, object] = {
        "step_id": step.step_id,
        "facet": step.facet,
        "attempt": step.attempt,
        "since_ms": step.since_ms,
    }
    if step.asks_nobody:
        described["state"] = step.event_state
    if step.event_name is not None:
        described["event"] = step.event_name
    if step.until_ms is not None:
        described["until_ms"] = step.until_ms
    return described


def record_of(row: ParkedRecord) -> Record:
    """Return a parked record as it was read from its topic."""
    return Record(
        topic=row.topic,
        partition=row.partition,
        offset=row.offset,
        key=row.key,
        value=row.value,
        headers=row.headers,
        timestamp_ms=row.parked_at_ms,
    )
