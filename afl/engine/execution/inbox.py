"""The external events of a workflow that no wait has taken: by name, first in, first out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from afl.engine.model.history import HistoryRow


class Inbox:
    """The pending events of one execution, and the next number of its history."""

    __slots__ = ("_by_name", "count", "next_number")

    def __init__(self, pending: Iterable[HistoryRow] = (), next_number: int = 0) -> None:
        """Take the pending rows in order of their numbers."""
        self._by_name: dict[str, deque[HistoryRow]] = {}
        #: How many there are.
        self.count = 0
        #: The number that the next new row of the workflow's history gets.
        self.next_number = next_number
        for event in pending:
            self.add(event)

    def add(self, event: HistoryRow) -> None:
        """Add an event behind the others of its name."""
        self._by_name.setdefault(event.name, deque()).append(event)
        self.count += 1

    def take(self, name: str) -> HistoryRow | None:
        """Remove the first event of a name, and return it; None when there is none."""
        events = self._by_name.get(name)
        if not events:
            return None
        event = events.popleft()
        if not events:
            del self._by_name[name]
        self.count -= 1
        return event

    def number(self) -> int:
        """Return the number of a new row of the history."""
        number = self.next_number
        self.next_number += 1
        return number

    def __iter__(self) -> Iterator[HistoryRow]:
        """Return all events in order of their numbers."""
        return iter(sorted((event for events in self._by_name.values() for event in events), key=lambda e: e.number))
