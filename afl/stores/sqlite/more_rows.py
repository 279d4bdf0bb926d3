"""The rows of a batch that are neither workflows nor steps."""

from __future__ import annotations

import sqlite3

from afl.engine.model.store import Batch
from afl.stores.sqlite.history import HistoryRows
from afl.stores.sqlite.rows import outbox_row, parked_row
from afl.stores.sqlite.schedules import ScheduleRows


class MoreRows:
    """The encoded rows of a batch's other parts."""

    def __init__(self, batch: Batch) -> None:
        self.history, self._schedules = HistoryRows(batch), ScheduleRows(batch.schedules)
        self.outbox = [outbox_row(record, batch.now_ms) for record in batch.outbox]
        self.parked = [parked_row(record) for record in batch.parked]

    def compare(self, db: sqlite3.Connection) -> bool:
        """Write the rows that are compared; return False when one of them is not as expected."""
        return self.history.write(db) and self._schedules.write(db)
