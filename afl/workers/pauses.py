"""What operators have paused, as a poller heeds it: the deployment's evaluators keep it in the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from afl.core.clock import Clock
from afl.engine.model.entities import TaskDefinition
from afl.engine.model.pauses import PAUSES_ROW, StoredPauses, stored_pauses
from afl.stores.public.persistence import EngineStore

#: How long what was read counts. A poller that is idle asks less often by itself.
_LOOK_S: Final = 0.5


class HeededPauses:
    """The pauses of a deployment, read again from time to time. Tasks of paused facets and runs wait in the store."""

    def __init__(self, store: EngineStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._found = StoredPauses()
        self._next_look_s = float("-inf")

    def claim(self, names: Sequence[str], task_list: str, owner: str, lease_ms: int) -> TaskDefinition | None:
        """Claim a task of these names that is not paused; see EngineStore.claim_task."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + _LOOK_S
            row = self._store.schedule(PAUSES_ROW)
            self._found = stored_pauses(None if row is None else row.document)
        found = self._found
        wanted = [] if found.holds_all else [name for name in names if name not in found.facets]
        if not wanted:
            return None
        return self._store.claim_task(
            wanted, task_list, owner=owner, lease_ms=lease_ms, except_workflows=found.workflows
        )
