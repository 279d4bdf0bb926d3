"""Warnings about waiting tasks whose facet has nearly the same name as a registered handler."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from afl.core.text.near_names import did_you_mean, most_alike

_log = logging.getLogger(__name__)

#: The most names that are compared. They come from other programs; beyond that number there is no warning.
_MOST_NAMES: Final = 1_000
#: The most pairs of names that one poll compares. The next polls compare the rest.
_MOST_PAIRS: Final = 1_000
#: The most warnings of one poller.
_MOST_WARNINGS: Final = 5
#: The longest name that is compared: the time grows with the square of the length.
_LONGEST_NAME: Final = 100
#: The least likeness, between 0 and 1, for a warning. It is high, because most of these tasks are served by other
#: processes under names of their own: "Chrage" is reported for "Charge", "Deploy" is not for "Destroy".
_MIN_LIKENESS: Final = 0.83

_DIGITS: Final = re.compile(r"\d+")


class MisspeltHandlers:
    """A comparison, once for each facet, of facets with waiting tasks and the handler names without any task so far."""

    def __init__(self) -> None:
        self._looked_at: set[str] = set()
        self._with_tasks: set[str] = set()
        self._warnings_left = _MOST_WARNINGS

    def has_task(self, facet: str) -> None:
        """Note that a handler was found for a facet, so its name is not a typo."""
        if facet not in self._with_tasks and len(self._with_tasks) < _MOST_NAMES:
            self._with_tasks.update((facet, facet.rpartition(".")[2]))

    def look(self, registered: Iterable[str], unserved: Iterable[str]) -> None:
        """Warn about the likeliest handler for each facet that this process does not serve."""
        left = _MOST_NAMES - len(self._looked_at)
        if not self._warnings_left or left <= 0 or len(self._with_tasks) >= _MOST_NAMES:
            return
        new = list(islice((name for name in unserved if name not in self._looked_at), left))
        if not new:
            return
        idle = list(islice((name for name in registered if name not in self._with_tasks), _MOST_PAIRS))
        for facet in new[: _MOST_PAIRS // max(1, len(idle))]:
            self._looked_at.add(facet)
            name = _likeliest(facet, idle)
            if name is not None and self._warnings_left:
                self._warnings_left -= 1
                _log.warning(
                    "a handler is registered for %s, which has no task, while a task of %s waits; %s",
                    name, facet, did_you_mean([facet]),
                )  # fmt: skip


def _likeliest(facet: str, names: Sequence[str]) -> str | None:
    """Return the name whose last part is most similar to the facet's; None if none is similar enough."""
    if _is_long(facet):
        return None
    compared = (name for name in names if not _is_long(name) and not _is_numbered_alike(name, facet))
    return most_alike(facet, compared, _MIN_LIKENESS)


def _is_long(name: str) -> bool:
    return len(name.rpartition(".")[2]) > _LONGEST_NAME


def _is_numbered_alike(name: str, other: str) -> bool:
    """Say whether two names, or their last parts, differ in their digits only: those are names of a series."""
    for one, another in ((name, other), (name.rpartition(".")[2], other.rpartition(".")[2])):
        if one != another and _DIGITS.sub("", one) == _DIGITS.sub("", another):
            return True
    return False
