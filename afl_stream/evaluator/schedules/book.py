"""The schedules of one unit of work: read once, changed in memory, and written with the batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from afl.core.text.exception_text import exception_text
from afl.core.values import plain_values
from afl.engine.model.schedules import ScheduleChange, ScheduleRow
from afl.engine.model.store import Batch, OutboxRecord
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.outbox import SOURCE
from afl_stream.limits import MAX_ERROR_HEADER_CHARS
from afl_stream.schedules.documents import Schedule, ScheduleUnreadable, from_document, to_document
from afl_stream.schedules.firings import Firing, next_look_ms
from afl_stream.transport import Headers
from afl_stream.wire.headers import headers_for, packed
from afl_stream.wire.messages import Command, StartWorkflow

#: What a run is asked for by: this, and the id of the schedule.
REQUESTED_BY: Final = "schedule:"


class ScheduleBook:
    """Reads schedules, and adds their changes and the starts of their runs to the batch of one unit of work."""

    def __init__(self, context: EvaluatorContext, batch: Batch) -> None:
        self._context = context
        self._batch = batch
        self._rows: dict[str, ScheduleRow | None] = {}
        self._changed: dict[str, Schedule | None] = {}
        #: Firings of this unit, by what becomes of them: started, skipped, missed. Triggers are started, too.
        self.outcomes: Counter[str] = Counter()

    def read(self, rows: Iterable[ScheduleRow]) -> None:
        """Take rows that were just read from the store."""
        for row in rows:
            self._rows.setdefault(row.id, row)

    def find(self, schedule_id: str) -> Schedule | None:
        """Return a schedule as this unit has it. Raises ScheduleUnreadable."""
        if schedule_id in self._changed:
            return self._changed[schedule_id]
        row = self._row(schedule_id)
        return None if row is None else from_document(row.id, row.document)

    def exists(self, schedule_id: str) -> bool:
        """Return whether there is such a schedule, readable or not."""
        if schedule_id in self._changed:
            return self._changed[schedule_id] is not None
        return self._row(schedule_id) is not None

    def _row(self, schedule_id: str) -> ScheduleRow | None:
        if schedule_id not in self._rows:
            self._rows[schedule_id] = self._context.store.schedule(schedule_id)
        return self._rows[schedule_id]

    def keep(self, schedule: Schedule) -> None:
        """Write a schedule with the batch."""
        self._changed[schedule.id] = schedule

    def delete(self, schedule_id: str) -> None:
        """Delete a schedule with the batch."""
        self._changed[schedule_id] = None

    def start(self, schedule: Schedule, firing: Firing) -> None:
        """Ask for a run with the batch: its start is a command in the outbox.

        Raises SchemaUnavailable and KeyUnavailable; EventTooLarge and ValueRefused, which are looked for when a
        schedule is created.
        """
        self._batch.outbox.append(self._start_record(schedule, firing))
        self.outcomes["started"] += 1

    def check_start(self, schedule: Schedule, firing: Firing) -> None:
        """Raise what `start` would raise."""
        self._start_record(schedule, firing)

    def _start_record(self, schedule: Schedule, firing: Firing) -> OutboxRecord:
        spec, values = schedule.spec, self._context.sensitive
        inputs: Mapping[str, Any] = spec.inputs
        marked: Headers = ()
        if values is not None and schedule.sensitive:
            inputs, marked = values.firing(inputs, schedule.sensitive, firing.workflow_id)
        command = StartWorkflow(
            workflow_id=firing.workflow_id,
            workflow=spec.workflow,
            program=spec.program,
            inputs=inputs,
            requested_by=f"{REQUESTED_BY}{schedule.id}",
            created_at=firing.at_ms,
        )
        topic = self._context.topology.commands()
        value = self._context.codec.encode(command, topic)
        # The lane of the schedule: whoever takes it over publishes what its last owner has committed.
        lane = self._context.lanes.lane_of(schedule.id)
        tracing = self._context.tracing
        trace = () if tracing is None else tracing.firing_headers(firing.workflow_id)
        form = self._context.codec.header_form
        headers = packed((*headers_for(command, source=SOURCE, caused_by=trace, form=form), *marked))
        return OutboxRecord(lane, topic, firing.workflow_id.encode(), value, headers)

    def refused(self, command: Command, error: Exception) -> None:
        """Note in its schedule that a run was refused: no later firing waits for it."""
        if not isinstance(command, StartWorkflow) or not (command.requested_by or "").startswith(REQUESTED_BY):
            return
        schedule_id = (command.requested_by or "").removeprefix(REQUESTED_BY)
        try:
            schedule = self.find(schedule_id)
        except ScheduleUnreadable:
            return
        if schedule is not None and schedule.state.asked_for(command.workflow_id):
            why = exception_text(error)[:MAX_ERROR_HEADER_CHARS]
            self.keep(schedule._replace(state=schedule.state.without(command.workflow_id, why)))

    def finish(self) -> None:
        """Add the changes of schedules to the batch."""
        for schedule_id, schedule in self._changed.items():
            stored = self._row(schedule_id)
            revision = 0 if stored is None else stored.revision
            if schedule is None:
                if stored is not None:
                    self._batch.schedules.append(ScheduleChange(schedule_id, revision, None))
                continue
            document = plain_values(to_document(schedule), "schedule")
            next_at_ms = next_look_ms(schedule.spec, schedule.state)
            row = ScheduleRow(schedule_id, revision + 1, next_at_ms, document)
            self._batch.schedules.append(ScheduleChange(schedule_id, revision, row))


def with_command(schedule: Schedule, command_id: str | None) -> Schedule:
    """Return a schedule that knows that a command of this id was carried out."""
    return schedule._replace(state=schedule.state.after(command_id))
