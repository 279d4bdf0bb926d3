"""Timers of workflows of a store, fired when they are due."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

from afl.core.text.exception_text import exception_line
from afl.engine.execution.execution import Execution
from afl.engine.execution.timers import fire_timer, has_timer
from afl.engine.model.store import Batch, TimerRow
from afl.evaluation.run_driver import UNREADABLE, RunDriver

_log = logging.getLogger(__name__)

#: Timers of one question to the store.
_PAGE: Final = 1_000


class DueTimers:
    """Fires the due timers of a store, but for those of workflows that deployments on topics run. Thread-safe.

    A timer's row goes with the commit of what the timer does. A crash before that leaves it, and it is fired again.
    """

    def __init__(self, driver: RunDriver) -> None:
        self._driver = driver

    def fire_of(self, execution: Execution) -> None:
        """Fire the due timers of a workflow that is about to run; the caller runs it and commits."""
        if not (execution.has_timers and (execution.waiting or execution.open_events)):
            return
        store, now_ms = self._driver.store, self._driver.clock.now_ms()
        next_ms = store.next_timer_ms()
        if next_ms is not None and next_ms <= now_ms:
            execution.now_ms = now_ms
            _fire(execution, [timer for timer in store.timers_of(execution.id) if timer.due_at_ms <= now_ms])
            if execution.has_effects and not execution.queue:
                self._driver.commit(execution)

    def fire(self, limit: int) -> list[str]:
        """Fire timers of up to `limit` workflows, each in a commit of its own; return the ids of these workflows."""
        fired: dict[str, None] = {}
        for workflow_id, timers in self._due():
            if workflow_id not in fired and self._fire_all(workflow_id, timers):
                fired[workflow_id] = None
                if len(fired) == limit:
                    break
        return list(fired)

    def _due(self) -> Iterator[tuple[str, list[TimerRow]]]:
        """Return the due timers by workflow, those of the earliest one first."""
        now_ms, after = self._driver.clock.now_ms(), None
        while rows := self._driver.store.timers_due(now_ms, after=after, limit=_PAGE):
            after = rows[-1]
            by_workflow: dict[str, list[TimerRow]] = {}
            for row in rows:
                by_workflow.setdefault(row.workflow_id, []).append(row)
            yield from by_workflow.items()
            if len(rows) < _PAGE:
                return

    def _fire_all(self, workflow_id: str, timers: Sequence[TimerRow]) -> bool:
        """Fire timers of one workflow; False: none of them had anything to do."""
        has_fired = False

        def apply(execution: Execution) -> bool:
            nonlocal has_fired
            has_fired = execution.dispatch.serves(execution) and _fire(execution, timers)
            return execution.has_effects

        try:
            found = self._driver.change(workflow_id, apply)
        except UNREADABLE as error:
            # Its timers wait until it can be read; those of others go on.
            _log.error("workflow %s cannot be continued, and its timers wait: %s", workflow_id, exception_line(error))
            return False
        if found is None:
            leftovers = [timer.step_id for timer in timers]
            self._driver.store.commit_batch(Batch(timers_done=leftovers, confirms={workflow_id: 0}))
        return has_fired


def _fire(execution: Execution, timers: Sequence[TimerRow]) -> bool:
    """Fire timers in memory; say whether one of them did anything. Rows that no step has any more are to go."""
    has_fired = False
    for timer in timers:
        if fire_timer(execution, timer):
            has_fired = True
        elif not has_timer(execution, timer.step_id):
            execution.effects.timers_done.append(timer.step_id)
    return has_fired
