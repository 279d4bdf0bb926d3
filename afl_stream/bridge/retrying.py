"""Errors that pass: what was tried may succeed later, so the bridge tries it again and fails no step for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from afl.core.backoff import Backoff
from afl.core.handlers.retry import RetryRule, next_try_s
from afl_stream.errors import NewerFormat, SchemaUnavailable
from afl_stream.pubsub.errors import RequestConflict
from afl_stream.pubsub.event_stores.errors import EventStoreUnavailable
from afl_stream.pubsub.running.errors import EventsNotStored
from afl_stream.transport import BrokerUnavailable, QueueFull, RecordTooLarge, TransportError

#: The broker, the store or a schema is away; another process runs the request; a newer release wrote the record.
PASSING: Final = (
    BrokerUnavailable, QueueFull, SchemaUnavailable, NewerFormat, RequestConflict, EventsNotStored,
    EventStoreUnavailable,
)  # fmt: skip
BACKOFF: Final = Backoff(first_s=0.1, longest_s=5.0)


@dataclass(frozen=True, slots=True)
class PassingErrors:
    """The retry rule of the bridge's handlers: errors that pass are tried again without end, others by `others`."""

    others: RetryRule | None = None

    def wait_s(self, tries: int, error: BaseException) -> float | None:
        """Return the wait after this many failed tries, or None when there is no further try."""
        if isinstance(error, PASSING):
            return BACKOFF.wait_s(tries)
        return next_try_s(self.others, tries, error)


def is_elsewhere(error: BaseException) -> bool:
    """Return whether an error is no fault of a record or a result: a topic is gone, or a right is missing."""
    return isinstance(error, TransportError) and not isinstance(error, RecordTooLarge)
