"""The port for the stored events of requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import StoredEvent


class RequestStatus(StrEnum):
    """Where a request stands. Values are stored: never change one."""

    #: A node has something to do, or is at it.
    RUNNING = "running"
    #: No node can go on; events wait for others that have not come, an answer of a person for instance.
    WAITING = "waiting"
    #: Every event is finished with.
    FINISHED = "finished"
    #: A node failed; the same request again tries it again.
    FAILED = "failed"


class RequestKey(NamedTuple):
    """One request to one workflow. Requests of different workflows may have the same id."""

    workflow: str
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRequest:
    """A request as it is stored: its events in the order in which they were appended."""

    key: RequestKey
    context: InvokeContext
    status: RequestStatus
    events: tuple[StoredEvent, ...]
    #: Milliseconds since the epoch: when it began, and when it was last appended to.
    created_at_ms: int = 0
    updated_at_ms: int = 0


class EventStore(Protocol):
    """A store of requests and their events. Every adapter keeps one contract (tests/contract/event_store_contract.py).

    One event loop uses it. A call that returned is durable.
    """

    async def append(
        self, key: RequestKey, context: InvokeContext, first: int, events: Sequence[StoredEvent], status: RequestStatus
    ) -> None:
        """Append events to a request, all or none of them, and set its status and context; the first call creates it.

        `first` is the number of events that are stored already. Raises RequestConflict when it is another number. No
        events: the status alone changes.
        """

    async def request(self, key: RequestKey) -> StoredRequest | None:
        """Return a request with its events; None: nothing is stored of it."""

    async def requests(self, workflow: str, statuses: Sequence[RequestStatus] = ()) -> list[RequestKey]:
        """Return the requests of a workflow, oldest first; with `statuses` only those that stand so."""

    async def forget(self, key: RequestKey) -> None:
        """Remove a request and its events. One that is not there is no error."""

    async def close(self) -> None: ...


@runtime_checkable
class PurgesByAge(Protocol):
    """A store that removes requests by their age. All of ours do; what keeps no more than the port need not."""

    async def forget_old(
        self, workflow: str, before_ms: int, statuses: Sequence[RequestStatus] = (RequestStatus.FINISHED,)
    ) -> int:
        """Remove some requests of a workflow that stand so, and were last appended to before this time.

        It is one batch, so that others are served soon. Returns how many went; 0: there are no more.
        """

    async def forget_finished(self, before_ms: int, workflow: str | None = None) -> int:
        """Remove all requests that finished before this time, of one workflow or of all; return how many."""
