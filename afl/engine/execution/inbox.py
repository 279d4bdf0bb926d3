"""The external events of a workflow that no wait has taken: by name, first in, first out."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable, Iterator
from operator import attrgetter

from afl.engine.model.history import HistoryRow
from afl.engine.values.sizes import attribute_bytes

_number = attrgetter("number")


class Inbox:
    """The pending events of one execution, and the next number of its history."""

    __slots__ = ("_by_name", "count", "next_number", "size_bytes")

    def __init__(self, pending: Iterable[HistoryRow] = (), next_number: int | None = 0) -> None:
        """Take the pending rows in order of their numbers; the next number is None where it was not read."""
        self._by_name: dict[str, deque[HistoryRow]] = {}
        #: How many there are.
        self.count = 0
        #: How many bytes their data take (values/sizes.py).
        self.size_bytes = 0
        #: The number that the next new row of the workflow's history gets; None: not known, because a workflow like
        #: this one writes none by itself.
        self.next_number = next_number
        for event in pending:
            self.add(event)

    def add(self, event: HistoryRow) -> None:
        """Add an event to those of its name, in order of their numbers."""
        events = self._by_name.setdefault(event.name, deque())
        if not events or events[-1].number < event.number:
            events.append(event)
        else:
            insort(events, event, key=_number)
        self.count += 1
        self.size_bytes += _size_of(event)

    def take(self, name: str) -> HistoryRow | None:
        """Remove the first event of a name, and return it; None when there is none."""
        events = self._by_name.get(name)
        if not events:
            return None
        event = events.popleft()
        if not events:
            del self._by_name[name]
        self.count -= 1
        self.size_bytes -= _size_of(event)
        return event

    def number(self) -> int:
        """Return the number of a new row of the history, which must be known."""
        number = self.next_number
        assert number is not None, "the history's next number was not read"
        self.next_number = number + 1
        return number

    def __iter__(self) -> Iterator[HistoryRow]:
        """Return all events in order of their numbers."""
        return iter(sorted((event for events in self._by_name.values() for event in events), key=_number))


def _size_of(event: HistoryRow) -> int:
    return attribute_bytes({event.name: event.value})
