"""Pauses beside the milestones of a store: what is paused at the beginning, and each change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from afl_stream.commands.waiting.pauses_here import pause_remark, pauses_here, pauses_of_store

if TYPE_CHECKING:
    from afl.stores.public.persistence import EngineStore
    from afl_stream.commands.invocation import Invocation
    from afl_stream.wire.messages import Pause

_ByKey: TypeAlias = "dict[tuple[str, str], Pause]"


class ShownPauses:
    """Says what is paused and what was resumed: of one run only what holds it, facets and everything.

    The log is asked once, where no other process has it. Evaluators copy later changes to the store.
    """

    def __init__(self, invocation: Invocation, store: EngineStore, workflow_id: str | None) -> None:
        self._invocation = invocation
        self._store = store
        self._workflow_id = workflow_id
        self._stored = self._shown(pauses_of_store(store))
        here = pauses_here(invocation)
        #: What a reader knows to be paused.
        self._told: _ByKey = {}
        self._first: _ByKey | None = self._stored if here is None else self._shown(here)

    def look(self) -> list[str]:
        """Return a line for each change since the last look; at the first one for all that is paused."""
        stored = self._shown(pauses_of_store(self._store))
        if self._first is not None:
            found, self._first = self._first, None
        elif stored != self._stored:
            found = stored
        else:
            return []
        self._stored = stored
        told, self._told = self._told, found
        lines = [pause_remark(self._invocation, pause) for key, pause in found.items() if told.get(key) != pause]
        return lines + [f"{_named(*key)} is resumed" for key in told if key not in found]

    def _shown(self, pauses: Iterable[Pause]) -> _ByKey:
        return {
            (pause.scope, pause.name): pause
            for pause in pauses
            if pause.scope != "workflow" or self._workflow_id in (None, pause.name)
        }


def _named(scope: str, name: str) -> str:
    return "everything" if scope == "all" else f"{scope} {name}"
