"""What the records of a state topic say about requests: which appends count, and where each request stands.

A record has the key `<request id>/<number>/<append>`: the number of its event in the request, and the id of the append
that it was written with. An append counts when all of its records are there and it follows the last one that counted.
All who read a partition decide the same, because they read the same order. Compaction changes nothing, because no key
comes twice before its tombstone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from afl_stream.pubsub.event_stores.records import event_of
from afl_stream.pubsub.event_stores.store import RequestStatus
from afl_stream.pubsub.model.events import StoredEvent
from afl_stream.wire.topic_events import STATUS, TopicEvent

#: The status of the record that ends a request: nothing before it counts any more.
FORGOTTEN: Final = "forgotten"


class StateKey(NamedTuple):
    """The key of a record on a state topic."""

    request_id: str
    number: int
    append: str

    def encode(self) -> bytes:
        return f"{self.request_id}/{self.number}/{self.append}".encode()


def state_key_of(key: bytes | None) -> StateKey | None:
    """Return what the key of a record says; None: it is none of ours."""
    try:
        request_id, number, append = (key or b"").decode().rsplit("/", 2)
        return StateKey(request_id, int(number), append)
    except ValueError:  # UnicodeDecodeError is one.
        return None


class StateRecord(NamedTuple):
    """A record of a state topic, decoded; `event` None: a tombstone. `size` is that of its value."""

    offset: int
    key: StateKey
    event: TopicEvent | None
    timestamp_ms: int
    size: int = 0


@dataclass(slots=True)
class RequestState:
    """A request, as far as its partition is read.

    `last_append` None: nothing of it counts yet. `held`: the records that count; None: they have to be read again, from
    `first_offset` to `last_offset`.
    """

    first_offset: int
    last_offset: int
    events: int = 0
    status: str = RequestStatus.RUNNING.value
    last_append: str | None = None
    created_at_ms: int = 0
    updated_at_ms: int = 0
    context: object = None
    held: list[TopicEvent] | None = field(default_factory=list)
    held_bytes: int = 0
    #: Records of appends that are not complete, by append. None: there are none, as with most of many requests.
    incomplete: dict[str, list[TopicEvent]] | None = None

    def stored_events(self) -> tuple[StoredEvent, ...]:
        """Return the events of the held records. Raises Unreadable."""
        return tuple([event_of(record) for record in self.held or ()])


class Remains(NamedTuple):
    """A request that is forgotten, and whose records have no tombstones yet: they are between two offsets.

    `end` is the offset of the record that ended it, and `end_append` the append in its key. Behind that another request
    of this id may have begun.
    """

    first: int
    last: int
    end: int
    end_append: str


class PartitionState:
    """The requests of a partition, from what was read of it so far."""

    def __init__(self, position: int = 0) -> None:
        #: The offset up to which it is read.
        self.position = position
        #: In the order of their first records.
        self.requests: dict[str, RequestState] = {}
        #: Requests that are forgotten and whose records have no tombstones yet.
        self.remains: dict[str, Remains] = {}
        #: How much is held of requests, and of which, those of the longest standing first.
        self.held_bytes = 0
        self._holding: dict[str, None] = {}
        #: Appends that somebody waits for, and those of them that count.
        self.awaited: set[str] = set()
        self.counted: set[str] = set()

    def apply(self, record: StateRecord) -> None:
        """Take the next record. Its event is held until the request has finished."""
        self.position = record.offset + 1
        request_id, _, append = record.key
        event = record.event
        if event is None:
            # That of the record that ends a request comes behind those of all others.
            if request_id in self.remains and self.remains[request_id].end_append == append:
                del self.remains[request_id]
            return
        if event.kind == STATUS and event.status == FORGOTTEN:
            self._end(record, event.after)
            return
        state = self.requests.get(request_id)
        if state is None:
            state = self.requests[request_id] = RequestState(record.offset, record.offset)
        state.last_offset = record.offset
        if state.held is not None:
            self._holding[request_id] = None
            self.held_bytes += record.size
            state.held_bytes += record.size
        events = _completed(state, append, event)
        if events is None or events[0].number != state.events or event.after != state.last_append:
            return
        _count(state, append, events, record.timestamp_ms)
        if state.status == RequestStatus.FINISHED.value:
            self.drop_held(request_id)
            state.context = None
        if append in self.awaited:
            self.counted.add(append)

    def request(self, request_id: str) -> RequestState | None:
        """Return a request of which something counts."""
        state = self.requests.get(request_id)
        return None if state is None or state.last_append is None else state

    def listed(self) -> Iterable[tuple[str, RequestState]]:
        """Return the requests of which something counts, in the order in which they began."""
        return [(request_id, state) for request_id, state in self.requests.items() if state.last_append is not None]

    def drop_held(self, request_id: str | None = None) -> None:
        """Drop the records of a request, or of the one that has been held for the longest time."""
        if request_id is None:
            request_id = next(iter(self._holding), None)
        state = self.requests.get(request_id) if request_id is not None else None
        if request_id is None or state is None:
            return
        self._holding.pop(request_id, None)
        self.held_bytes -= state.held_bytes
        state.held, state.held_bytes = None, 0

    def _end(self, record: StateRecord, after: str | None) -> None:
        """End a request; with `after` only if that is its last append, since it may have gone on meanwhile.

        Where no append counts, compaction has taken the first one, which is let go when the request has ended.
        """
        request_id, offset = record.key.request_id, record.offset
        state = self.requests.get(request_id)
        if state is not None and None not in (after, state.last_append) and after != state.last_append:
            # It goes when the request does.
            state.last_offset = offset
            return
        self.drop_held(request_id)
        self.requests.pop(request_id, None)
        first, last = (offset, offset) if state is None else (state.first_offset, state.last_offset)
        before = self.remains.get(request_id)
        if before is not None:
            first, last = min(first, before.first), max(last, before.end)
        self.remains[request_id] = Remains(first, last, offset, record.key.append)


def _completed(state: RequestState, append: str, event: TopicEvent) -> list[TopicEvent] | None:
    """Return all records of an append when this was the last of them."""
    if event.number is None or event.last is None:
        return None
    if event.kind == STATUS:
        return [event]
    events = state.incomplete.pop(append, []) if state.incomplete else []
    if events and event.number != (events[-1].number or 0) + 1:
        return None
    events.append(event)
    if event.number < event.last:
        if state.incomplete is None:
            state.incomplete = {}
        state.incomplete[append] = events
        return None
    return events


def _count(state: RequestState, append: str, events: list[TopicEvent], timestamp_ms: int) -> None:
    last = events[-1]
    if state.last_append is None:
        state.created_at_ms = timestamp_ms
    state.last_append = append
    state.updated_at_ms = max(timestamp_ms, state.created_at_ms)
    state.status = last.status or state.status
    if last.kind != STATUS:
        state.events += len(events)
        if state.held is not None:
            state.held += events
    for event in events:
        if event.context is not None:
            state.context = event.context
    # Those that are incomplete now follow another append, and will never count.
    state.incomplete = None


def in_order_of_removal(keys: Iterable[StateKey]) -> list[StateKey]:
    """Return the keys of a forgotten request's records, which are in the order of the log, in that of their tombstones.

    Compaction may take the records of the first tombstones alone. So that nothing else counts then, those go first that
    could be the request's beginning, the last of them before the one that is; when that is gone, nothing counts.
    """
    beginnings: list[StateKey] = []
    others: list[StateKey] = []
    for key in keys:
        (others if key.number else beginnings).append(key)
    return [*reversed(beginnings), *others]


def replayed(records: Iterable[StateRecord]) -> RequestState | None:
    """Return a request from all records of it that were written since it began, with what they hold."""
    state: RequestState | None = None
    for record in records:
        if record.event is None:
            continue
        if state is None:
            state = RequestState(record.offset, record.offset)
        state.last_offset = record.offset
        events = _completed(state, record.key.append, record.event)
        if events and events[0].number == state.events and record.event.after == state.last_append:
            _count(state, record.key.append, events, record.timestamp_ms)
    return state
