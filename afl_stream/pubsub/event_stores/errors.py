"""The errors of event stores, whichever keeps the events. RequestConflict is among those of the whole package."""

from __future__ import annotations

from afl.core.text.printable import printable
from afl_stream.pubsub.errors import PubSubError


class EventStoreUnavailable(PubSubError):
    """The store cannot be read or written now: locked, out of room, away, or closed. The call may succeed later.

    An append that failed so may be stored all the same, whole: its acknowledgement may be what was lost. The request
    has to be read again before it goes on.
    """

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(f"event store {store}: {printable(reason)}")
        self.store = store
        self.reason = reason


class EventStoreUnusable(PubSubError):
    """The store is none of ours, was made by a newer release, or is damaged. Nothing in it was changed."""

    def __init__(self, store: str, found: str, expected: str = "") -> None:
        wanted = f"; expected {expected}" if expected else ""
        super().__init__(f"event store {store} cannot be used: {printable(found)}{wanted}")
        self.store = store
        self.found = found
        self.expected = expected


class EventsTooLarge(PubSubError):
    """Events take more room than the store gives to what is appended at once. Nothing of them was stored."""

    def __init__(self, store: str, what: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"event store {store}: {what} takes {size_bytes:,} bytes, and {limit_bytes:,} is the most; "
            "publish a reference to the large value"
        )
        self.store = store
        self.what = what
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
