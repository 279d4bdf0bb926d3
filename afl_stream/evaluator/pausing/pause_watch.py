"""The pauses of a deployment as a running evaluator learns of them."""

from __future__ import annotations

import logging
from typing import Final

from afl.core.clock import MonotonicClock, monotonic_s
from afl.engine.errors import WorkflowConflict
from afl.engine.model.pauses import PAUSES_ROW, StoredPause, StoredPauses, stored_pauses
from afl.engine.model.schedules import ScheduleChange, ScheduleRow
from afl.engine.model.store import Batch
from afl_stream.errors import SchemaUnavailable
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.sweeps import Sweeps
from afl_stream.wire.pauses import Pauses

_log = logging.getLogger(__name__)

#: How often new records of the definitions topic are taken. The broker sends them by itself: it is asked nothing.
_LOOK_S: Final = 0.5
#: How long after the last read to the end what has arrived is taken to be all. The claim is checked more often.
_KNOWN_FOR_S: Final = 60.0


class PauseWatch:
    """Looks for new pauses, and lets what was resumed continue. Belongs to the loop's thread.

    A pause is a record on the definitions topic, and its effects leave no mark in the store: a paused workflow is
    stored as runnable, as one over its budget is, and an event that is held back is a row of the outbox. A crash at any
    moment leaves both as they are; the next owner reads the topic before it reads anything else. Only for those who
    read no topic, such as pollers, each evaluator that hears of a change copies the pauses to a row of the store.
    """

    def __init__(self, context: EvaluatorContext, sweeps: Sweeps, clock_s: MonotonicClock = monotonic_s) -> None:
        self._context = context
        self._sweeps = sweeps
        self._clock_s = clock_s
        self._looked_s = clock_s()
        self._version = self._pauses.version
        #: The version that the store has, as far as this evaluator knows.
        self._stored_version = -1

    @property
    def _pauses(self) -> Pauses:
        return self._context.definitions.pauses

    def look_when_due(self) -> None:
        """Take new records from time to time; when a pause has changed, queue what may continue."""
        now_s = self._clock_s()
        if now_s - self._looked_s >= _LOOK_S:
            self._looked_s = now_s
            try:
                self._context.definitions.take_arrived(_KNOWN_FOR_S)
            except SchemaUnavailable as error:
                _log.warning("could not look for pauses: %s", error)
        if self._version != self._pauses.version:
            self._version = self._pauses.version
            for pause in self._pauses:
                _log.info("paused: %s %s", pause.scope, pause.name)
            self._sweeps.queue_runnable(self._context.lanes.owned)
        if self._stored_version != self._version and self._context.lanes.owned:
            self._store_pauses()

    def _store_pauses(self) -> None:
        """Copy the pauses to the store, unless it has them."""
        store, version = self._context.store, self._version
        found = tuple(StoredPause(p.scope, p.name, p.at, p.reason or "") for p in self._pauses)
        row = store.schedule(PAUSES_ROW)
        if stored_pauses(None if row is None else row.document).pauses != found:
            revision = 0 if row is None else row.revision
            kept = ScheduleRow(PAUSES_ROW, revision + 1, None, StoredPauses(found).document())
            try:
                store.commit_batch(Batch(schedules=[ScheduleChange(PAUSES_ROW, revision, kept)]))
            except WorkflowConflict:
                return  # Another evaluator was first; the next look compares again.
        self._stored_version = version
