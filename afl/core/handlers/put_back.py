"""A handler's way to give its event back."""

from __future__ import annotations

from afl.core.errors import AFLError


class PutBack(AFLError):
    """A handler that raises this gives its event back unhandled: it is handled again, and no try is counted.

    For handlers that only hold an event for somebody else, and cannot hold it any longer. Agents follow it; elsewhere
    it is an exception as any other.
    """

    def __init__(self) -> None:
        super().__init__("the event is given back: it was not handled here")
