"""The thread that reads output and statuses of a workflow for a client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from threading import Event, Thread
from typing import Final, NamedTuple, TypeVar

from afl.core.backoff import Backoff, FailedAttempts
from afl_stream.errors import SchemaUnavailable, Unreadable
from afl_stream.pubsub.hosting.config import WorkerConfig
from afl_stream.pubsub.hosting.records import RequestReport, WorkflowRecords
from afl_stream.pubsub.model.events import TopicEvent
from afl_stream.reading.group_reader import FIRST_BACKOFF_S, GroupReader
from afl_stream.transport import Record, TopicPartition, Transport

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: How long one read waits for a record, and so how soon the thread sees that it is to end.
_READ_S: Final = 0.1


class ReadNews(NamedTuple):
    """What one read brought: events and reports of requests that are followed, and up to where it was read."""

    found: Sequence[TopicEvent | RequestReport]
    positions: Mapping[TopicPartition, int]


class OutputReader:
    """Reads the output topics and the status topic, from where they end when it starts.

    `wanted` has the keys of the requests that are followed; records of others are not decoded. While `room` is not set
    nothing is read. `take` and `fail` are called on the event loop.
    """

    def __init__(
        self,
        transport: Transport,
        places: Sequence[TopicPartition],
        status_topic: str,
        records: WorkflowRecords,
        config: WorkerConfig,
        *,
        wanted: Collection[bytes],
        take: Callable[[ReadNews], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._transport = transport
        self._places = places
        self._status_topic = status_topic
        self._records = records
        self._config = config
        self._wanted = wanted
        self._take = take
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        #: Set when the thread is to end.
        self._ending = Event()
        self.room = Event()
        self.room.set()
        #: Done when every record that is produced from now on will be read.
        self.opened: asyncio.Future[None] = self._loop.create_future()
        self._thread = Thread(target=self._run, name="afl-pubsub-outputs", daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def close(self) -> None:
        """End the thread."""
        self._ending.set()
        self.room.set()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)

    # --- on the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            consumer = self._transport.consumer(None)
            try:
                ends = {place: consumer.watermarks(place).high for place in self._places}
                consumer.assign(ends)
                # A report may be about output that stands before: that counts as read.
                self._tell(self._take, ReadNews((), {place: end - 1 for place, end in ends.items()}))
                self._tell(self._opened, None)
                reader = GroupReader(
                    consumer,
                    self._config.stream.kafka,
                    f"client {self._config.name}",
                    lost_records=self._config.lost_records,
                    longest_backoff_s=self._config.max_backoff_s,
                )
                while not self._ending.is_set() and not self._loop.is_closed():
                    self._turn(reader)
            finally:
                consumer.close()
        except BaseException as error:  # noqa: BLE001 - the callers of the client hear of it
            self._tell(self._failed, error)

    def _turn(self, reader: GroupReader) -> None:
        is_full = not self.room.is_set() and not self.room.wait(_READ_S)
        if (backoff_s := reader.backoff_s()) is not None:
            self._ending.wait(backoff_s)
        reader.hold(self._places if is_full else ())
        records = reader.read(self._config.read_records, 0.0 if is_full else _READ_S)
        if not records:
            return
        found = [
            item for record in records if record.key in self._wanted and (item := self._decoded(record)) is not None
        ]
        positions = {record.topic_partition: record.offset for record in records}
        self._tell(self._take, ReadNews(found, positions))

    def _decoded(self, record: Record) -> TopicEvent | RequestReport | None:
        attempts = FailedAttempts(Backoff(FIRST_BACKOFF_S, self._config.max_backoff_s))
        while not self._ending.is_set():
            try:
                if record.topic == self._status_topic:
                    return self._records.report(record)
                return self._records.output(record)
            except Unreadable as error:
                # A worker makes a dead letter of it.
                _log.warning("%s[%d] offset %d is left out: %s", *record.topic_partition, record.offset, error)
                return None
            except SchemaUnavailable as error:
                _log.warning("%s[%d] offset %d waits: %s", *record.topic_partition, record.offset, error)
                self._ending.wait(attempts.next_wait_s())
        return None

    def _tell(self, news: Callable[[T], None], what: T) -> None:
        with suppress(RuntimeError):  # the loop is closed: the client was not closed before it
            self._loop.call_soon_threadsafe(news, what)

    def _opened(self, _nothing: None) -> None:
        if not self.opened.done():
            self.opened.set_result(None)

    def _failed(self, error: BaseException) -> None:
        if not self.opened.done():
            self.opened.set_exception(error)
            return
        self._fail(error)
