"""One request of a hosted workflow: its records, its run, and what its clients are told."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from afl.core.text.exception_text import exception_line
from afl_stream.errors import EventTooLarge, ValueRefused
from afl_stream.pubsub.errors import NodeFailed, PubSubError, RequestConflict
from afl_stream.pubsub.event_stores.errors import EventsTooLarge
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus, StoredRequest
from afl_stream.pubsub.hosting.crash_suspects import CrashSuspects, WorkersDied, crashes_noted
from afl_stream.pubsub.hosting.failures import RequestFailed
from afl_stream.pubsub.hosting.outbox import Receipts
from afl_stream.pubsub.hosting.ownership import Ownership
from afl_stream.pubsub.hosting.reader import Received
from afl_stream.pubsub.hosting.records import EventReceived, StatusAsked, is_of_client
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.running.errors import ConditionFailed, StoredEventsUnusable
from afl_stream.pubsub.running.run import WorkflowRun
from afl_stream.transport import RecordTooLarge

if TYPE_CHECKING:
    from afl_stream.pubsub.hosting.publishing_store import PublishingStore

_log = logging.getLogger(__name__)

#: How many of the last inputs and questions of clients a report names.
_HEARD: Final = 256
#: What no further attempt mends: events that cannot be stored, written to their topic, or put back on it.
_HOPELESS: Final = (EventsTooLarge, EventTooLarge, RecordTooLarge, StoredEventsUnusable, ValueRefused, WorkersDied)


class HostedRequest:
    """A request from its first record or takeover until nothing can go on, or its partition goes.

    `serve` is its task: it opens the run, folds the records that have come into it, and drives it. A record is finished
    with when its event is stored, or when it asks something, when that is answered. All on the event loop.
    """

    def __init__(self, store: PublishingStore, suspects: CrashSuspects, request_id: str, partition: int) -> None:
        self._suspects = suspects
        self.key = RequestKey(store.workflow.name, request_id)
        self.partition = partition
        self.store = store
        self.ownership = Ownership(self.key)
        self.inbox: deque[Received] = deque()
        self.receipts = Receipts()
        self.run: WorkflowRun | None = None
        self.task: asyncio.Task[None] | None = None
        #: What was read of the store, until the run is made of it.
        self.stored: StoredRequest | None = None
        self.stored_count = 0
        #: By output topic: how many events there are.
        self.outputs: dict[str, int] = {}
        #: The last inputs and questions of clients that what was told takes into account. Events of others would push
        #: them out: nobody waits for a report that names those.
        self.heard: deque[str] = deque(maxlen=_HEARD)
        #: Ids of events that stand on the workflow's topics already, and are about to be stored.
        self.from_topics: set[str] = set()
        #: Why the request failed last.
        self.failure: NodeFailed | RequestFailed | None = None
        #: Whether the next attempt to serve it has to wait.
        self.is_delayed = False
        #: Whether it is to be served once more than its records need.
        self.is_wanted = False
        #: Whether clients know that it failed: what comes from now on is for another run.
        self.has_told_failure = False
        #: Whether the store says that it failed, and so that no worker needs to go on with it.
        self._stands_failed = False
        #: Whether anything came that is to try it again; what a worker that died has read too is none.
        self._may_try_again = False
        self._is_secluded = False
        self._asking: list[Received] = []
        self._folding: asyncio.Task[None] | None = None
        self._is_driving = False
        self._has_news = False

    # --- records ----------------------------------------------------------------------------------------------------

    def take(self, received: Received) -> None:
        """Take a record of this request."""
        self.inbox.append(received)
        if self._is_driving and not self.has_told_failure and self._can_fold():
            folding = self._fold_all(is_alone=False)
            self._folding = asyncio.get_running_loop().create_task(folding, name=f"{self.key.workflow} fold")

    def _can_fold(self) -> bool:
        """Return whether nothing is folded now, and the last attempt did not fail."""
        folding = self._folding
        return folding is None or (folding.done() and not folding.cancelled() and folding.exception() is None)

    async def _fold_all(self, *, is_alone: bool) -> None:
        assert self.run is not None
        while self.inbox and not self.has_told_failure:
            # It stays there until it is stored: if that fails, another run of the request gets it.
            received = self.inbox[0]
            await self._fold(self.run, received, is_alone=is_alone)
            self._remove(received)

    async def _fold(self, run: WorkflowRun, received: Received, *, is_alone: bool) -> None:
        """Publish a record's event in the run. `is_alone`: no node is at work, so a failure is about this event."""
        incoming = received.incoming
        if not isinstance(incoming, EventReceived):
            self._ask(received)
            return
        event = incoming.event
        self.from_topics.add(event.event_id)
        try:
            is_new = await run.publish_external(
                event.name,
                event.data,
                event_id=event.event_id,
                publisher=event.publisher_name,
                publisher_type=event.publisher_type,
            )
        except ConditionFailed as error:
            # It is about this record alone.
            await self.store.dead_letter(received, error)
            return
        except PubSubError as error:
            if is_alone and (reason := _hopeless(error)) is not None:
                await self.store.dead_letter(received, reason)
                self._remove(received)
            raise
        finally:
            self.from_topics.discard(event.event_id)
        if is_new:
            self._has_news = self._may_try_again = True
            self.store.finished(received)
        elif run.logs[event.name].topic.accepts(event.data):
            self._ask(received)
        else:
            _log.warning("%s, request %s: topic %s does not take event %s", *self.key, event.name, event.event_id)
            self.store.finished(received)

    def _remove(self, received: Received) -> None:
        if self.inbox and self.inbox[0] is received:
            self.inbox.popleft()

    def unfinished(self) -> list[Received]:
        """Return the records that are not finished with."""
        return [*self._asking, *self.inbox]

    def drop_records(self) -> None:
        """Forget the records: they are read again."""
        self._asking.clear()
        self.inbox.clear()

    def _ask(self, received: Received) -> None:
        """Note that a client wants to be told how the request stands: it asks, or its input is known."""
        self._asking.append(received)
        self._has_news = True
        self._may_try_again |= not received.is_repeat

    # --- running ----------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Run until nothing can go on.

        Raises RequestMoved, RequestConflict, and what the store or the transport raises. A request that failed is no
        error: `failure` says why, and its run is closed.
        """
        self._may_try_again = self.is_wanted
        self.is_wanted = self.has_told_failure = False
        try:
            await self._serve()
        except BaseException as error:
            could_open = self.run is not None
            await self._drop_run()
            if isinstance(error, PubSubError) and (reason := _hopeless(error)) is not None:
                # One that failed for its crashes can be opened again.
                if not could_open and not isinstance(reason, WorkersDied):
                    await self._refuse_records(reason)
                await self._fail(reason)
                return
            raise
        finally:
            if self._is_secluded:
                self._is_secluded = False
                self._suspects.seclusion.release()

    async def _serve(self) -> None:
        run = self.run = self.run or await self._open()
        if run is None:
            if self._asking:
                await self._answer(RequestStatus.FAILED)
            return
        self._has_news = True
        while self._has_news:
            await self._fold_all(is_alone=True)
            self._has_news = False
            if run.is_fresh:
                # No topic takes what has come.
                return
            if self._stands_failed and not self._may_try_again:
                self.failure = RequestFailed(*self.key, "it has failed before; invoke it again to try it again")
                status = RequestStatus.FAILED
                await self._drop_run()
            else:
                status = await self._driven(run)
            if self._asking:
                await self._answer(status)
            if status is RequestStatus.FAILED:
                self.run = None
                return

    async def _open(self) -> WorkflowRun | None:
        """Return the run; None: nothing is known of the request but questions."""
        stored = self.stored = await self.store.restored(self)
        if stored is None and not self.inbox:
            return None
        events = [received.incoming for received in self.inbox if isinstance(received.incoming, EventReceived)]
        if stored is None and not events:
            self._asking.extend(self.inbox)
            self.inbox.clear()
            self.failure = RequestFailed(*self.key, "nothing is stored of it, and it was invoked without input")
            return None
        if stored is not None:
            context = stored.context
            self._stands_failed = stored.status is RequestStatus.FAILED
            if stored.status is RequestStatus.RUNNING and self._suspects.take(self.key.request_id):
                self.stored = await self._survive(stored)
        else:
            given = [event.context for event in events if event.context is not None]
            context = given[0] if given else InvokeContext(assistant_request_id=self.key.request_id)
        return await WorkflowRun.open(self.store.workflow, context, self.store)

    async def _survive(self, stored: StoredRequest) -> StoredRequest:
        """Note that a worker died while this ran, and return the request with that note. Raises WorkersDied."""
        crashes, suspects = crashes_noted(stored.events), self._suspects
        if crashes >= suspects.limit:
            raise WorkersDied(*self.key, crashes)
        if crashes:
            await suspects.seclusion.acquire()
            self._is_secluded = True
        return await self.store.noted(self, stored, suspects.note(self.key.request_id))

    async def _driven(self, run: WorkflowRun) -> RequestStatus:
        if self._stands_failed:
            # Workers go on with it again, should this one die.
            await self.store.resumed(self, run.context)
            self._stands_failed = False
        self._is_driving = True
        self.failure = None
        try:
            status = await run.drive()
        except NodeFailed as error:
            if run.writer.error is not None:
                # The failure is not stored.
                raise run.writer.error from error
            self.failure = error
            status = RequestStatus.FAILED
        finally:
            self._is_driving = False
        folding, self._folding = self._folding, None
        if folding is not None:
            # After a failure what could not be folded is still in the inbox.
            with suppress(NodeFailed):
                await folding
        return status

    async def _answer(self, status: RequestStatus) -> None:
        asking = tuple(self._asking)
        for received in asking:
            incoming = received.incoming
            if isinstance(incoming, EventReceived):
                if is_of_client(incoming.event):
                    self.heard.append(incoming.event.event_id)
            elif isinstance(incoming, StatusAsked):
                self.heard.append(incoming.event_id)
        try:
            await self.store.tell_again(self, status)
        except RequestConflict:
            # What asks about a request that was forgotten is for a new one.
            self.inbox.extendleft(reversed(self._asking))
            self._asking.clear()
            raise
        del self._asking[: len(asking)]
        for received in asking:
            self.store.finished(received)

    async def _fail(self, reason: Exception) -> None:
        """Store and tell that the request failed for something that no node raised."""
        text = str(reason) if isinstance(reason, WorkersDied) else exception_line(reason)
        self.failure = RequestFailed(*self.key, text)
        await self.store.fail(self)
        if self._asking:
            # Else they would have the request tried again at once, for ever.
            await self._answer(RequestStatus.FAILED)

    async def _refuse_records(self, reason: Exception) -> None:
        """Finish with the records of a request that cannot be opened: else they would open it again at once, for ever.

        Events become dead letters. Clients, those that ask included, hear of it by the report of the failure.
        """
        while self.inbox:
            received = self.inbox[0]
            incoming = received.incoming
            if isinstance(incoming, StatusAsked):
                self._asking.append(received)
            else:
                if isinstance(incoming, EventReceived) and is_of_client(incoming.event):
                    self.heard.append(incoming.event.event_id)
                await self.store.dead_letter(received, reason)
            self._remove(received)

    async def _drop_run(self) -> None:
        """End the run and what folds into it. The inbox stays."""
        folding, self._folding = self._folding, None
        run, self.run = self.run, None
        if folding is not None:
            folding.cancel()
            with suppress(Exception, asyncio.CancelledError):
                await folding
        if run is not None:
            with suppress(PubSubError):
                await run.close()


def _hopeless(error: PubSubError) -> Exception | None:
    """Return why no further attempt can go better; None: one can."""
    for each in (error, error.__cause__):
        if isinstance(each, _HOPELESS):
            return each
    return None
