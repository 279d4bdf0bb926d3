"""Appends what happens in a request to the event store: in order, and what has gathered in one append."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from typing import Protocol, TypeAlias

from afl.core.probes import Probe
from afl.core.text.exception_text import exception_line
from afl_stream.pubsub.errors import PubSubError
from afl_stream.pubsub.event_stores.store import EventStore, RequestKey, RequestStatus
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent, StoredEvent, TopicEvent, consumed_event
from afl_stream.pubsub.running.errors import EventsNotStored
from afl_stream.pubsub.running.topic_log import Cursor

#: The method `append_now` that a store may have: it does what `append` does, without waiting and without a task.
AppendNow: TypeAlias = Callable[[RequestKey, InvokeContext, int, Sequence[StoredEvent], RequestStatus], None]


def _append_now_of(store: EventStore) -> AppendNow | None:
    """Return it, if the store has it. To ask a protocol that is checked at run time would cost as much as to append."""
    found: AppendNow | None = getattr(store, "append_now", None)
    return found


class WritesFor(Protocol):
    """What the writer tells: the run."""

    def status_with(self, published: int) -> RequestStatus:
        """Return where the request stands once what is written now is stored, this many new events among it."""

    def events_stored(self, published: Sequence[TopicEvent], committed: Mapping[Cursor, ConsumeFromTopicEvent]) -> None:
        """Show stored events to their consumers, and let go what is committed: up to the last event of each cursor."""

    def writing_failed(self, error: BaseException) -> None:
        """End the run: nothing more can be stored."""

    def settle(self) -> None:
        """Go on with what can go on now."""


class EventWriter:
    """The writer of one request.

    What comes while an append is on its way goes into the next one. A batch is, in this order:
      1. appended to the store, in one piece                                            (run.appended)
      2. seen by its consumers

    A crash before 1 (run.before_append) loses what nobody has seen: the nodes run again. After 1 all of it is restored.
    """

    __slots__ = (
        "_append_now",
        "_commits",
        "_context",
        "_key",
        "_loop",
        "_owner",
        "_probe",
        "_published",
        "_status",
        "_store",
        "_stored_waiters",
        "_variables",
        "busy",
        "error",
        "stored",
        "task",
    )

    def __init__(
        self,
        owner: WritesFor,
        store: EventStore,
        key: RequestKey,
        context: InvokeContext,
        probe: Probe,
    ) -> None:
        self._owner = owner
        self._store = store
        self._key = key
        self._context = context
        self._probe = probe
        self._append_now = _append_now_of(store)
        self._loop = asyncio.get_running_loop()
        # Those of whoever opens the run. What publishes first is a node, and its variables are its own.
        self._variables = copy_context()
        self._published: list[TopicEvent] = []
        # By its cursor: of several commits in one append only the last says anything.
        self._commits: dict[Cursor, ConsumeFromTopicEvent] = {}
        self._stored_waiters: list[asyncio.Future[None]] = []
        self._status: RequestStatus | None = None
        #: Events that are stored of the request.
        self.stored = 0
        #: Whether something is to be stored, or on its way.
        self.busy = False
        self.task: asyncio.Task[None] | None = None
        self.error: BaseException | None = None

    def restored(self, stored: int, status: RequestStatus) -> None:
        """Note what the store has."""
        self.stored = stored
        self._status = status

    def publish(self, event: TopicEvent) -> None:
        """Store an event, soon."""
        self._published.append(event)
        if not self.busy:
            self._begin()

    def commit(self, cursor: Cursor, last: ConsumeFromTopicEvent) -> None:
        """Store that a consumer is finished with everything up to this event, soon."""
        self._commits[cursor] = last
        if not self.busy:
            self._begin()

    async def until_stored(self) -> None:
        """Wait until everything so far is stored. What went wrong is in `error`."""
        if self._append_now is not None:
            self._write_now()
        elif self.busy:
            await self.next_append()

    async def next_append(self) -> None:
        """Wait until what waits now is stored, and others had their turn."""
        waiter = self._loop.create_future()
        self._stored_waiters.append(waiter)
        if not self.busy:
            self._begin()
        await waiter

    async def store_status(self) -> None:
        """Store everything so far, and where the request stands."""
        await self.until_stored()
        if self.lacks_status():
            if self._append_now is not None:
                self._store_now([], self._owner.status_with(0))
            else:
                await self.next_append()

    def lacks_status(self) -> bool:
        """Say whether the store has the request, with another status than it has now."""
        return self.error is None and self.stored > 0 and self._status != self._owner.status_with(0)

    def cancel(self) -> None:
        """Give up the append that is on its way. Whether it is stored is known when the request is read again."""
        if self.task is not None:
            self.task.cancel()

    def drop(self) -> None:
        """Forget what is not stored: the run has ended as in a crash."""
        self._published = []
        self._commits = {}

    # --- one append after the other ---------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.busy = True
        if self._append_now is not None:
            self._loop.call_soon(self._write_now, context=self._variables)
        else:
            # A task of our own making: the loop's factory may begin it here and now, and consumers inside publishers.
            self.task = asyncio.Task(
                self._write_all(),
                loop=self._loop,
                name=f"{self._key.workflow} store",
                context=self._variables.copy(),
            )
            self.task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if self.task is task:
            # It was cancelled before its first step.
            self._fail(asyncio.CancelledError())

    def _batch(self) -> tuple[list[TopicEvent], dict[Cursor, ConsumeFromTopicEvent], list[StoredEvent]]:
        """Take what waits: what was published, what was committed, and what to append of it."""
        published, commits = self._published, self._commits
        self._published, self._commits = [], {}
        events: list[StoredEvent] = [*published]
        # What was taken is stored already: of it there are only the id and the offset.
        events += [consumed_event((*last[:4], None, *last[5:8])) for last in commits.values()]
        return published, commits, events

    def _write_now(self) -> None:
        while self._published or self._commits:
            published, commits, events = self._batch()
            if not self._store_now(events, self._owner.status_with(len(published))):
                return
            self._owner.events_stored(published, commits)
        self._rest()

    def _store_now(self, events: Sequence[StoredEvent], status: RequestStatus) -> bool:
        """Append at once, and return whether that went well."""
        assert self._append_now is not None
        try:
            self._probe("run.before_append")
            self._append_now(self._key, self._context, self.stored, events, status)
            self._probe("run.appended")
        except BaseException as error:  # noqa: BLE001 - whatever it is ends the run, and reaches the caller of invoke
            self._fail(error)
            return False
        self.stored += len(events)
        self._status = status
        return True

    async def _write_all(self) -> None:
        try:
            while self._published or self._commits or self._stored_waiters:
                waiters, self._stored_waiters = self._stored_waiters, []
                published, commits, events = self._batch()
                status = self._owner.status_with(len(published))
                if events or (self.stored and status != self._status):
                    self._probe("run.before_append")
                    await self._store.append(self._key, self._context, self.stored, events, status)
                    self._probe("run.appended")
                    self.stored += len(events)
                    self._status = status
                self._owner.events_stored(published, commits)
                _wake(waiters)
        except BaseException as error:  # noqa: BLE001 - as in _store_now
            _wake(waiters)
            self._fail(error)
        else:
            self._rest()

    def _rest(self) -> None:
        self._be_idle()
        self._owner.settle()

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, Exception) and not isinstance(error, PubSubError):
            failure: BaseException = EventsNotStored(self._key.workflow, self._key.request_id, exception_line(error))
            failure.__cause__ = error
        else:
            failure = error
        self.error = failure
        self.drop()
        self._be_idle()
        self._owner.writing_failed(failure)

    def _be_idle(self) -> None:
        self.busy = False
        self.task = None
        waiters, self._stored_waiters = self._stored_waiters, []
        _wake(waiters)


def _wake(waiters: Sequence[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
