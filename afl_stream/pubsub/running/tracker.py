"""Which nodes of a request are at work."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Final


class _Done:
    """What is done already, for those who await it."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


_DONE: Final = _Done()


class AsyncNodeTracker:
    """The nodes that are at work now, and how often one began.

    `enter` and `leave` take effect when they are called; awaiting them waits for nothing.
    """

    __slots__ = ("_active", "_activity")

    def __init__(self) -> None:
        self._active: set[str] = set()
        self._activity = 0

    def enter(self, node: str) -> Awaitable[None]:
        """Note that a node begins with what it has taken."""
        self._active.add(node)
        self._activity += 1
        return _DONE

    def leave(self, node: str) -> Awaitable[None]:
        """Note that a node is done with it, in whatever way."""
        self._active.discard(node)
        return _DONE

    def is_idle(self) -> bool:
        """Say whether no node is at work."""
        return not self._active

    def get_activity_count(self) -> int:
        """Return how often a node has begun so far: the same number twice means that nothing began in between."""
        return self._activity

    def __repr__(self) -> str:
        at_work = ", ".join(sorted(self._active)) or "none"
        return f"<AsyncNodeTracker: at work: {at_work}; {self._activity} begun>"
