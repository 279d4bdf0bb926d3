"""Retention of finished workflows and of their tombstones, as the settings say."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from typing import Final

from afl.core.probes import Probe
from afl.engine.errors import StoreCorrupt, VersionMismatchError
from afl.engine.model.store import WorkflowRow
from afl.engine.model.tombstones import PURGING
from afl.stores.maintenance.purge import BATCH, Purge
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.sensitive.purged_inputs import PurgedInputs

_log = logging.getLogger(__name__)

#: The longest pause between two looks for finished workflows, and the pause after a look that found some.
_LOOK_INTERVAL_S: Final = 60.0
_SOON_S: Final = 1.0
#: The share of the loop's time that purging takes at most: a step is followed by a pause of four times its length. At
#: the cost of a purge this is enough for several thousand finished workflows a second.
_PAUSE_FACTOR: Final = 4.0


class Retention:
    """Purges one batch in each turn. Belongs to the loop's thread; nothing depends on when it runs.

    Evaluators share the work by control partition: each purges the workflows of those that it owns.
    """

    def __init__(self, context: EvaluatorContext, probe: Probe) -> None:
        self._context = context
        digests = PurgedInputs(context.store, context.config.sensitive.patterns)
        self._purge = Purge(context.store, context.clock, probe=probe, digest_of=digests.digest_of)
        #: Workflows that are due, as far as the current look has not come to them.
        self._due: Iterator[WorkflowRow] | None = None
        #: Buried workflows of which rows are left.
        self._unfinished: list[str] = []
        self._found_some = self._gives_back = False
        self._next_look_s = self._next_step_s = float("-inf")

    @property
    def is_busy(self) -> bool:
        """Return whether a look is under way that continues at once."""
        return bool(self._unfinished) or self._due is not None

    def patience_s(self, timeout_s: float) -> float:
        """Return how long the loop may wait for records: until the next step while a look is under way."""
        if not self.is_busy:
            return timeout_s
        return min(timeout_s, max(0.0, self._next_step_s - self._context.clock.monotonic_s()))

    def run_due(self) -> None:
        """Do one step, if one is due: delete a slice of rows, purge a batch of runs, or give back some free space."""
        began_s = self._context.clock.monotonic_s()
        if began_s < self._next_step_s:
            return
        try:
            self._step(began_s)
        except (StoreCorrupt, VersionMismatchError) as error:
            self._due, self._unfinished = None, []
            self._next_look_s = began_s + _LOOK_INTERVAL_S
            _log.error("finished workflows are not purged further for now: %s", error)
        now_s = self._context.clock.monotonic_s()
        self._next_step_s = now_s + (now_s - began_s) * _PAUSE_FACTOR

    def _step(self, now_s: float) -> None:
        if self._unfinished:
            if self._purge.continue_purge(self._unfinished):
                self._unfinished = []
        elif self._due is not None:
            self._purge_some(self._due, now_s)
        elif now_s >= self._next_look_s:
            self._look(now_s, self._context.clock.now_ms())
        elif self._gives_back:
            self._gives_back = self._purge.give_back()

    def _look(self, now_s: float, now_ms: int) -> None:
        """Take up what an interrupted purge has left, or else begin to look through what has ended."""
        settings, owns = self._context.config.store, self._context.lanes.owns
        self._next_look_s = now_s + _LOOK_INTERVAL_S
        kept_ms = settings.tombstone_retention_ms
        if kept_ms is not None and self._purge.forget(now_ms - kept_ms):
            self._next_look_s = now_s + _SOON_S
        if settings.retention_ms is None:
            return
        left = self._context.store.tombstones(state=PURGING, limit=BATCH)
        self._unfinished = [stone.workflow_id for stone in left if owns(stone.workflow_id)]
        if self._unfinished:
            # There may be more of them.
            self._next_look_s = now_s
            return
        self._found_some = False
        self._due = self._purge.due(now_ms - settings.retention_ms, wanted=owns)
        self._purge_some(self._due, now_s)

    def _purge_some(self, due: Iterator[WorkflowRow], now_s: float) -> None:
        """Purge the next batch of a look; after the last, the next look is soon if this one has found some."""
        rows = list(islice(due, BATCH))
        if rows:
            begun = self._purge.begin(rows, self._purge.waiting())
            self._unfinished = begun.unfinished
            self._found_some |= bool(begun.workflow_ids)
            _log.info("%d finished workflows are purged, as store.retention says", len(begun.workflow_ids))
        if len(rows) < BATCH:
            self._due = None
            self._gives_back |= self._found_some
            self._next_look_s = now_s + (_SOON_S if self._found_some else _LOOK_INTERVAL_S)
