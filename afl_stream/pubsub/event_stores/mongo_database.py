"""The MongoDB side of an event store: what one thread reads and writes, with no need of transactions."""

from __future__ import annotations

import time
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

import bson
from pymongo import ASCENDING, DESCENDING, UpdateOne

from afl.core.clock import MonotonicClock, WallClock, epoch_ms, monotonic_s
from afl.core.probes import Probe, no_probe
from afl_stream.limits import MAX_DOCUMENT_EVENTS_BYTES
from afl_stream.pubsub.errors import PubSubError, RequestConflict
from afl_stream.pubsub.event_stores.errors import EventsTooLarge, EventStoreUnavailable
from afl_stream.pubsub.event_stores.mongo_connection import MongoConnection, insert
from afl_stream.pubsub.event_stores.mongo_documents import (
    FINISHED,
    FORGOTTEN,
    RUNNING,
    Document,
    RequestEnd,
    append_document,
    append_id,
    appends_of,
    key_text,
    mark_of_forgotten,
    request_document,
    rows_of,
)
from afl_stream.pubsub.event_stores.rows import Append, StoredRow, damaged, stored_request
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus, StoredRequest

#: Requests whose end is remembered, and for how long. After that it is looked up.
_REMEMBERED: Final = 10_000
_REMEMBERED_S: Final = 1_800.0
#: How long the mark of a forgotten request stays, for those that append to it still: longer than they remember it.
_MARK_MS: Final = 2 * 3_600_000
#: How many requests one call of forget_old removes.
_REQUESTS_AT_ONCE: Final = 100
#: How many appends one command removes.
_APPENDS_AT_ONCE: Final = 5_000
#: How often an append is tried behind appends of others that changed nothing but a status.
_ATTEMPTS: Final = 10
_PAUSE_S: Final = 0.02


class MongoDatabase:
    """Requests and their events in a database of MongoDB.

    A request has a document that names it, and one for each of its appends, with the append's number in its id: an
    append is there or not, and of two with one number the second is refused. The status of a request is that of its
    last append. The request's own document repeats it, so that requests are found by it; where it may be behind, it
    says "running".

    It is for one thread at a time; any number of processes may use the database beside it.
    """

    def __init__(
        self,
        connection: MongoConnection,
        *,
        clock: WallClock = epoch_ms,
        clock_s: MonotonicClock = monotonic_s,
        probe: Probe = no_probe,
    ) -> None:
        """Take the connection, and finish what a crash has left. Raises EventStoreUnavailable."""
        self.name = connection.name
        self._connection = connection
        self._requests, self._appends = connection.requests, connection.appends
        self._clock, self._clock_s, self._probe = clock, clock_s, probe
        self._ends: OrderedDict[RequestKey, RequestEnd] = OrderedDict()
        with connection.speaking():
            self._sweep()

    def append(self, appends: Sequence[Append]) -> list[Exception | None]:
        """Append events to requests; return what became of each: stored, refused, or the server was away.

        Appends of one request are written one after the other, those of different ones together, in this order:
          1. look up where the requests end, unless that is known,
          2. make the documents of new requests,
          3. mark as running the requests whose status changes,
          4. write the appends,
          5. set the status of requests that do not run any more.

        A crash after 2 leaves a request without an append, which counts as none; after 3 one that is marked as running
        and is not, as its last append says. After 4 the append counts.
        """
        outcomes: list[Exception | None] = [None] * len(appends)
        waiting = list(range(len(appends)))
        while waiting:
            group: dict[RequestKey, int] = {}
            for index in waiting:
                group.setdefault(appends[index].key, index)
            waiting = [index for index in waiting if group[appends[index].key] != index]
            try:
                refused = self._append_group({key: appends[index] for key, index in group.items()})
            except EventStoreUnavailable as error:
                # Whether they are stored is not known.
                self._forget_ends(group)
                for index in (*group.values(), *waiting):
                    outcomes[index] = error
                break
            for key, index in group.items():
                outcomes[index] = refused.get(key)
        return outcomes

    def _append_group(self, appends: Mapping[RequestKey, Append]) -> dict[RequestKey, Exception]:
        """Write one append for each of these requests; return the errors of those that are refused."""
        refused: dict[RequestKey, Exception] = {}
        left = dict(appends)
        with self._connection.speaking():
            for attempt in range(_ATTEMPTS):
                if attempt:
                    time.sleep(_PAUSE_S)
                ends = self._ends_of(left)
                for key, append in appends.items():
                    if key in left and (error := self._refusal(append, ends.get(key))) is not None:
                        refused[key] = error
                        del left[key]
                for key in self._write(left, ends) if left else ():
                    del left[key]
                if not left:
                    return refused
                # Another process was faster. It may have changed nothing but the status.
                self._forget_ends(left)
        rivals = "others append to it all the time"
        return refused | {key: EventStoreUnavailable(self.name, f"request {key.request_id}: {rivals}") for key in left}

    def _refusal(self, append: Append, end: RequestEnd | None) -> PubSubError | None:
        found = 0 if end is None else end.events
        if append.first != found:
            return RequestConflict(*append.key, append.first, found)
        if append.size <= MAX_DOCUMENT_EVENTS_BYTES // 4:  # A character takes four bytes at most.
            return None
        size = len(bson.encode(append_document(append, "", 0)))
        if size <= MAX_DOCUMENT_EVENTS_BYTES:
            return None
        what = f"what is appended at once to request {append.key.request_id} ({len(append.rows)} events)"
        return EventsTooLarge(self.name, what, size, MAX_DOCUMENT_EVENTS_BYTES)

    def _write(self, appends: Mapping[RequestKey, Append], ends: Mapping[RequestKey, RequestEnd]) -> list[RequestKey]:
        """Do steps 2 to 5 of `append`; return the requests whose append is stored. Rivals were faster at the rest."""
        known = {**ends, **self._make({key: append for key, append in appends.items() if key not in ends})}
        self._mark([(known[key], append.status) for key, append in appends.items() if key in known])
        self._probe("mongo_events.marked")
        keys = [key for key in appends if key in known]
        documents = [append_document(appends[key], known[key].request, known[key].appends + 1) for key in keys]
        stored = self._insert(documents)
        self._probe("mongo_events.appended")
        written: list[RequestKey] = []
        for key, document, is_stored in zip(keys, documents, stored, strict=True):
            if is_stored:
                self._remember(key, RequestEnd.at(known[key].request, document, self._clock_s()))
                written.append(key)
        self._set_statuses(
            RequestEnd.at(known[key].request, document, 0)
            for key, document, is_stored in zip(keys, documents, stored, strict=True)
            if is_stored
        )
        return written

    def _make(self, appends: Mapping[RequestKey, Append]) -> dict[RequestKey, RequestEnd]:
        """Make the documents of new requests. Return those that no other process has made meanwhile."""
        if not appends:
            return {}
        ends = [RequestEnd(request=str(bson.ObjectId()), read_s=self._clock_s()) for _ in appends]
        documents = [request_document(end.request, append) for end, append in zip(ends, appends.values(), strict=True)]
        refused = insert(self._requests, documents)
        self._probe("mongo_events.made")
        return {key: ends[index] for index, key in enumerate(appends) if index not in refused}

    def _mark(self, changes: Iterable[tuple[RequestEnd, str]]) -> None:
        """Mark requests as running that are going to change their status.

        The number of the append goes with it, so that a process which is late to set the status of an earlier one does
        nothing.
        """
        marks = [
            UpdateOne(
                {"_id": end.request, "appends": {"$lte": end.appends}, "status": {"$ne": FORGOTTEN}},
                {"$set": {"status": RUNNING, "appends": end.appends + 1}},
            )
            for end, status in changes
            if end.status not in (RUNNING, status)
        ]
        if marks:
            self._requests.bulk_write(marks, ordered=False)

    def _insert(self, documents: list[Document]) -> list[bool]:
        """Insert appends; return which of them are stored."""
        refused = insert(self._appends, documents) if documents else set()
        for index in list(refused):
            # The driver sends again what was not acknowledged, and then finds it there.
            document = documents[index]
            found = self._appends.find_one({"_id": document["_id"]}, {"token": 1})
            if found is not None and found.get("token") == document["token"]:
                refused.remove(index)
        return [index not in refused for index in range(len(documents))]

    def _set_statuses(self, ends: Iterable[RequestEnd]) -> None:
        changes = [
            UpdateOne(
                {"_id": end.request, "appends": {"$lte": end.appends}, "status": {"$ne": FORGOTTEN}},
                {"$set": {"status": end.status, "appends": end.appends, "updated_at_ms": end.updated_at_ms}},
            )
            for end in ends
            if end.status != RUNNING
        ]
        if changes:
            self._requests.bulk_write(changes, ordered=False)

    # --- where requests end -------------------------------------------------------------------------------------------

    def _ends_of(self, appends: Mapping[RequestKey, Append]) -> dict[RequestKey, RequestEnd]:
        """Return where the requests of these appends end. One that is left out has not begun."""
        now_s = self._clock_s()
        ends: dict[RequestKey, RequestEnd] = {}
        unknown: dict[str, RequestKey] = {}
        for key, append in appends.items():
            end = self._ends.get(key)
            if end is None or end.events != append.first or now_s - end.read_s > _REMEMBERED_S:
                unknown[key_text(key)] = key
            else:
                ends[key] = end
        if unknown:
            for found in self._requests.find({"key": {"$in": list(unknown)}}, {"key": 1}):
                end = self._end_of(found["_id"])
                if end.status != FORGOTTEN:
                    ends[unknown[found["key"]]] = end
        return ends

    def _end_of(self, request: str) -> RequestEnd:
        fields = {"first": 1, "count": 1, "status": 1, "at_ms": 1}
        found = self._appends.find(appends_of(request), fields).sort("_id", DESCENDING).limit(1)
        return RequestEnd.at(request, next(iter(found), None), self._clock_s())

    def _remember(self, key: RequestKey, end: RequestEnd) -> None:
        self._ends.pop(key, None)
        if end.status != FINISHED:
            self._ends[key] = end
        if len(self._ends) > _REMEMBERED:
            self._ends.popitem(last=False)

    def _forget_ends(self, keys: Iterable[RequestKey]) -> None:
        for key in keys:
            self._ends.pop(key, None)

    # --- reading ------------------------------------------------------------------------------------------------------

    def request(self, key: RequestKey) -> StoredRequest | None:
        with self._connection.speaking():
            found = self._requests.find_one({"key": key_text(key)})
            appends = list(self._appends.find(appends_of(found["_id"])).sort("_id", ASCENDING)) if found else []
        if found is None or not appends or appends[-1]["status"] == FORGOTTEN:
            return None
        try:
            last = appends[-1]
            stored = StoredRow(last["context"], last["status"], found["created_at_ms"], last["at_ms"])
            rows = list(rows_of(appends))
        except (LookupError, TypeError, ValueError) as error:
            raise damaged(self.name, f"request {key.request_id}", error) from error
        return stored_request(self.name, key, stored, rows)

    def requests(self, workflow: str, statuses: Sequence[RequestStatus]) -> list[RequestKey]:
        wanted = {status.value for status in statuses or RequestStatus}
        query = {"workflow": workflow, "status": {"$in": sorted(wanted | {RUNNING})}}
        with self._connection.speaking():
            found = self._requests.find(query, {"request_id": 1, "status": 1})
            listed = list(found.sort([("created_at_ms", ASCENDING), ("_id", ASCENDING)]))
            return [
                RequestKey(workflow, each["request_id"])
                for each in listed
                if (each["status"] if each["status"] != RUNNING else self._true_status(each["_id"])) in wanted
            ]

    def _true_status(self, request: str) -> str | None:
        """Return the status of a request that is marked as running, and correct the mark; None: it has no append."""
        end = self._end_of(request)
        self._set_statuses([end] if end.status != FORGOTTEN else [])
        return end.status if end.appends else None

    # --- forgetting ---------------------------------------------------------------------------------------------------

    def forget(self, key: RequestKey) -> None:
        """Remove a request.

        In this order:
          1. take its key from it: from here on it is not there,
          2. append a mark to it, which refuses those who know where it ended,
          3. remove what was appended before,
          4. remove the mark and the document, two hours later.

        What a crash leaves undone is done by the next call of this, and when the store is opened.
        """
        self._ends.pop(key, None)
        with self._connection.speaking():
            found = self._requests.find_one({"key": key_text(key)}, {"_id": 1})
            for request in self._take_keys({"key": key_text(key)}, [found["_id"]] if found is not None else []):
                self._clear(request)
            self._sweep()

    def workflows(self) -> list[str]:
        with self._connection.speaking():
            return [name for name in self._requests.distinct("workflow") if name is not None]

    def forget_old(self, workflow: str, before_ms: int, statuses: Sequence[RequestStatus]) -> int:
        """Remove some requests of a workflow that stand so since before this time; return how many."""
        with self._connection.speaking():
            for status in statuses:
                old = {"workflow": workflow, "status": status.value, "updated_at_ms": {"$lt": before_ms}}
                found = list(self._requests.find(old, {"appends": 1}).limit(_REQUESTS_AT_ONCE))
                # One that goes on again is left.
                if taken := self._take_keys(old, [each["_id"] for each in found]):
                    self._clear_all({each["_id"]: each["appends"] for each in found if each["_id"] in taken})
                    self._sweep()
                    return len(taken)
            self._sweep()
        return 0

    def _take_keys(self, query: Document, requests: Sequence[str]) -> set[str]:
        """Do step 1 of `forget` for those of these requests that the query finds still; return them."""
        if not requests:
            return set()
        token = uuid.uuid4().hex
        gone = {"workflow": None, "status": FORGOTTEN, "forgotten_at_ms": self._clock(), "forgotten_by": token}
        self._requests.update_many({**query, "_id": {"$in": list(requests)}}, [{"$set": {**gone, "key": "$_id"}}])
        self._probe("mongo_events.key_taken")
        taken = self._requests.find({"_id": {"$in": list(requests)}, "forgotten_by": token}, {"_id": 1})
        return {each["_id"] for each in taken}

    def _clear_all(self, appends: Mapping[str, int]) -> None:
        """Do steps 2 and 3 of `forget` for requests with these numbers of appends, as their documents say."""
        marks = [mark_of_forgotten(request, number + 1) for request, number in appends.items()]
        behind = {marks[index]["_id"] for index in insert(self._appends, marks)}
        self._probe("mongo_events.ended")
        ended = [request for request, mark in zip(appends, marks, strict=True) if mark["_id"] not in behind]
        if ended:
            self._remove(append_id(each, number) for each in ended for number in range(1, appends[each] + 1))
            self._probe("mongo_events.cleared")
            self._requests.update_many({"_id": {"$in": ended}}, {"$set": {"is_cleared": True}})
        for request in appends.keys() - set(ended):
            # Its document is behind its appends.
            self._clear(request)

    def _clear(self, request: str) -> None:
        """Do steps 2 and 3 of `forget`."""
        end = self._end_of(request)
        while end.status != FORGOTTEN:
            insert(self._appends, [mark_of_forgotten(request, end.appends + 1)])
            end = self._end_of(request)
        self._probe("mongo_events.ended")
        self._appends.delete_many(appends_of(request, before=end.appends))
        self._probe("mongo_events.cleared")
        self._requests.update_one({"_id": request}, {"$set": {"is_cleared": True}})

    def _remove(self, appends: Iterable[str]) -> None:
        """Remove appends by their ids, some thousand with each command."""
        ids = iter(appends)
        while some := list(islice(ids, _APPENDS_AT_ONCE)):
            self._appends.delete_many({"_id": {"$in": some}})

    def _sweep(self) -> None:
        """Finish what was forgotten and not cleared, and do step 4 for what was forgotten long ago."""
        for each in list(self._requests.find({"forgotten_at_ms": {"$gt": 0}, "is_cleared": None}, {"_id": 1})):
            self._clear(each["_id"])
        long_ago = {"forgotten_at_ms": {"$lt": self._clock() - _MARK_MS}, "is_cleared": True}
        while found := [each["_id"] for each in self._requests.find(long_ago, {"_id": 1}).limit(_REQUESTS_AT_ONCE)]:
            for request in found:
                self._appends.delete_many(appends_of(request))
            self._requests.delete_many({"_id": {"$in": found}})

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
