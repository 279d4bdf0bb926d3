"""Says when tasks wait whose facet is nearly called what a handler was registered for."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from afl.core.near_names import did_you_mean, look_alike

_log = logging.getLogger(__name__)

#: Names that are looked at. They come from the programs of others; beyond that nothing is said.
_MOST_NAMES: Final = 1_000


class MisspeltHandlers:
    """Compares, once for each, the facets whose tasks wait unclaimed with the names that have had no task so far."""

    def __init__(self) -> None:
        self._looked_at: set[str] = set()
        self._with_tasks: set[str] = set()

    def has_task(self, facet: str) -> None:
        """Note that a handler was found for a facet: its name is no typo."""
        if facet not in self._with_tasks and len(self._with_tasks) < _MOST_NAMES:
            self._with_tasks.update((facet, facet.rpartition(".")[2]))

    def look(self, registered: Iterable[str], unserved: Iterable[str]) -> None:
        """Warn of a handler that may have been meant for a facet that nothing here serves."""
        new = [name for name in unserved if name not in self._looked_at]
        if not new or len(self._looked_at) >= _MOST_NAMES:
            return
        self._looked_at.update(new)
        idle = [name for name in registered if name not in self._with_tasks]
        for facet in new:
            for name in idle:
                if look_alike(name, facet):
                    _log.warning(
                        "a handler is registered for %s, of which there is no task, while a task of %s waits; %s",
                        name, facet, did_you_mean([facet]),
                    )  # fmt: skip
