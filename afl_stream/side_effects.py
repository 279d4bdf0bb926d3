"""What a unit of work writes besides workflows: parked records, dead letters, and milestones for subscribers."""

from __future__ import annotations

from afl.runtime.persistence import Batch, OutboxRecord, ParkedRecord
from afl_stream.deployment import Deployment
from afl_stream.errors import TooManyParked
from afl_stream.headers import dead_letter_headers
from afl_stream.messages import FailureReason, Lifecycle
from afl_stream.parking import ParkingClaim
from afl_stream.transport import Record


class SideEffects:
    """Adds to the batch of one unit of work."""

    def __init__(self, deployment: Deployment, batch: Batch) -> None:
        self._d = deployment
        self.batch = batch
        self.now_ms = batch.now_ms
        self._parking = ParkingClaim(deployment.parking)

    def park(self, record: Record, workflow_id: str, step_id: str) -> bool:
        """Keep a record until what it speaks of appears. False: there is no room, and it is a dead letter."""
        parked = ParkedRecord(
            id=f"{record.topic}/{record.partition}/{record.offset}",
            workflow_id=workflow_id,
            step_id=step_id,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            key=record.key,
            value=record.value,
            headers=record.headers,
            parked_at_ms=self.now_ms,
            expires_at_ms=self.now_ms + self._d.config.evaluator.parked_answer_expiry_ms,
        )
        try:
            self._parking.take(workflow_id, step_id, parked.size_bytes)
        except TooManyParked as error:
            self.dead_letter(record, error)
            return False
        self.batch.parked.append(parked)
        return True

    def committed(self) -> None:
        """The batch is in the store."""
        self._parking.committed()

    def dead_letter(self, record: Record, error: Exception) -> None:
        headers = dead_letter_headers(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            error=error,
            headers=record.headers,
            at_ms=self.now_ms,
        )
        topic = self._d.topology.dlq(record.topic)
        self.batch.outbox.append(OutboxRecord(self._d.lanes.own, topic, record.key, record.value, headers))

    def tell(
        self,
        workflow_id: str,
        kind: str,
        *,
        step_id: str | None = None,
        workflow: str | None = None,
        error: FailureReason | None = None,
        at_ms: int | None = None,
    ) -> None:
        at_ms = self.now_ms if at_ms is None else at_ms
        milestone = Lifecycle(
            workflow_id=workflow_id, kind=kind, at=at_ms, workflow=workflow, step_id=step_id, error=error
        )
        self._d.dispatch.tell(self.batch, milestone)


def record_of(row: ParkedRecord) -> Record:
    return Record(
        topic=row.topic,
        partition=row.partition,
        offset=row.offset,
        key=row.key,
        value=row.value,
        headers=row.headers,
        timestamp_ms=row.parked_at_ms,
    )
