"""Retention of finished workflows and of their tombstones, as the settings say."""

from __future__ import annotations

import logging
from itertools import islice
from typing import Final

from afl.core.probes import Probe
from afl.engine.errors import StoreCorrupt, VersionMismatchError
from afl.engine.model.tombstones import PURGING, Tombstone
from afl.stores.maintenance.purge import Purge
from afl_stream.evaluator.context import EvaluatorContext

_log = logging.getLogger(__name__)

#: How often finished workflows are looked through.
_LOOK_INTERVAL_S: Final = 60.0
#: Workflows that are taken up at a time, and slices of rows that are deleted in one turn: some milliseconds each.
_MOST_BEGUN: Final = 100
_MOST_SLICES: Final = 5


class Retention:
    """Purges a little in each turn. Belongs to the loop's thread; nothing depends on when it runs.

    Evaluators share the work by control partition: each purges the workflows of those that it owns.
    """

    def __init__(self, context: EvaluatorContext, probe: Probe) -> None:
        self._context = context
        self._purge = Purge(context.store, context.clock, probe=probe)
        self._begun: list[Tombstone] = []
        self._next_look_s = float("-inf")

    def run_due(self) -> None:
        """Delete some rows of runs that are being purged; if there are none, look for runs that are due."""
        try:
            self._delete_some()
            now_s = self._context.clock.monotonic_s()
            if not self._begun and now_s >= self._next_look_s:
                self._next_look_s = now_s + _LOOK_INTERVAL_S
                self._look(self._context.clock.now_ms())
        except (StoreCorrupt, VersionMismatchError) as error:
            _log.error("finished workflows are not purged further for now: %s", error)

    def _delete_some(self) -> None:
        for _ in range(_MOST_SLICES):
            if not self._begun:
                return
            if self._purge.continue_purge(self._begun[-1]):
                self._begun.pop()
                # There may be more of them.
                self._next_look_s = self._next_look_s if self._begun else float("-inf")

    def _look(self, now_ms: int) -> None:
        settings, store = self._context.config.store, self._context.store
        if settings.tombstone_retention_ms is not None:
            self._purge.forget(now_ms - settings.tombstone_retention_ms)
        if settings.retention_ms is None:
            return
        left = store.tombstones(state=PURGING, limit=_MOST_BEGUN)
        self._begun = [tombstone for tombstone in left if self._context.lanes.owns(tombstone.workflow_id)]
        if self._begun:
            return
        due = self._purge.due(now_ms - settings.retention_ms, wanted=self._context.lanes.owns)
        rows = list(islice(due, _MOST_BEGUN))
        if not rows:
            return
        waiting = self._purge.waiting()
        begun = [row.id for row in rows if self._purge.begin(row, waiting)]
        self._begun = [tombstone for found in begun if (tombstone := store.tombstone(found)) is not None]
        _log.info("%d finished workflows are being purged, as store.retention says", len(self._begun))
