"""The thread that reads a workflow's topics for a worker, and commits what is finished."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as TookTooLong
from contextlib import suppress
from threading import Event, Thread
from typing import Final, NamedTuple, Protocol, TypeVar

from afl.core.backoff import Backoff
from afl.core.clock import monotonic_s
from afl.core.text.warning_limits import LimitedLog
from afl_stream.pubsub.hosting.config import WorkerConfig
from afl_stream.pubsub.hosting.records import Incoming
from afl_stream.reading.group_reader import FIRST_BACKOFF_S, GroupReader
from afl_stream.reading.offset_tracker import MAX_WINDOW, PartitionProgress, was_at_work
from afl_stream.reading.record_queue import RecordQueue
from afl_stream.transport import CommittedOffset, Consumer, OffsetOutOfRange, Record, TopicPartition

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: How long one read waits for a record, and so how soon the thread commits what was finished.
_READ_S: Final = 0.1
#: How long the thread waits for room before it pauses the partitions. A client drops what it has fetched of a paused
#: partition, so a worker that is only a little slower pauses none.
_FULL_S: Final = 0.25


class ReadPartition:
    """A partition from its assignment to its revocation. Assigned again, it is another one."""

    __slots__ = (
        "handed",
        "is_announced",
        "is_assigned",
        "is_dirty",
        "place",
        "progress",
        "repeats_before",
        "undecoded",
    )

    def __init__(self, place: TopicPartition, progress: PartitionProgress, undecoded: RecordQueue) -> None:
        self.place = place
        self.progress = progress
        self.undecoded = undecoded
        self.is_assigned = True
        self.is_dirty = False
        #: Whether it is committed that this worker is at work on it.
        self.is_announced = False
        #: Records before this offset were there when the last owner died, which may have read them too.
        self.repeats_before = 0
        #: Records that the owner has, and has not finished with.
        self.handed = 0


class Received(NamedTuple):
    """A record that was read and decoded. `finished` of the reader is told of it when it needs not be read again."""

    record: Record
    incoming: Incoming
    partition: ReadPartition

    @property
    def is_repeat(self) -> bool:
        """Whether a worker that died may have read it too."""
        return self.record.offset < self.partition.repeats_before


class ReaderOwner(Protocol):
    """What the worker does about its reader's news. All of it on the event loop."""

    def received(self, records: Sequence[Received]) -> None:
        """Take records."""

    def assigned(self, partitions: frozenset[int], crashed: frozenset[int]) -> None:
        """Take partitions, all topics' alike; `crashed`: those whose last owner did not leave in good order."""

    async def revoke(self, partitions: frozenset[int]) -> None:
        """Give up partitions: what is finished by the end of this is committed."""

    def lost(self, partitions: frozenset[int]) -> None:
        """Drop partitions that another worker has already."""

    def reader_failed(self, error: BaseException) -> None:
        """Take the error that ended the reading."""


class WorkflowReader:
    """Reads all topics of a workflow in its group. The thread owns the consumer; the event loop owns the rest.

    A record is read, decoded, and handed to the owner; when the owner has finished with it, the offset moves past it,
    and past nothing unfinished. `max_records`: how many may be with the owner; beyond that nothing is read.
    """

    def __init__(
        self,
        consumer: Callable[[], Consumer],
        topics: Sequence[str],
        config: WorkerConfig,
        decode: Callable[[Record], Incoming],
        owner: ReaderOwner,
        who: str,
    ) -> None:
        self._open = consumer
        self._topics = topics
        self._config = config
        self._decode = decode
        self._owner = owner
        self._who = who
        self._loop = asyncio.get_running_loop()
        self._probe = config.probe
        self._warnings = LimitedLog(_log)
        self._partitions: dict[TopicPartition, ReadPartition] = {}
        #: What the owner has finished with; the loop appends, the thread takes.
        self._finished: deque[tuple[ReadPartition, int]] = deque()
        self._handed = 0
        self._last_commit_s = 0.0
        self._wake = Event()
        self._stops_reading = self._is_ending = self._is_dead = self._waits_for_room = False
        self._is_watched = self._has_read_all = False
        self._reader: GroupReader | None = None
        self._thread = Thread(target=self._run, name=f"afl-pubsub-reader {who}", daemon=True)

    # --- called on the event loop -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Join the group, on the thread."""
        self._thread.start()

    def finished(self, received: Received) -> None:
        """Note that a record needs not be read again."""
        self._finished.append((received.partition, received.record.offset))
        if self._waits_for_room and len(self._finished) * 2 >= self._config.max_handed:
            self._wake.set()

    def stop_reading(self) -> None:
        """Read nothing more; stay in the group, and commit."""
        self._stops_reading = True

    async def close(self, *, is_dead: bool = False) -> None:
        """Commit, leave the group and end the thread; `is_dead`: end as a killed process does."""
        self._is_dead |= is_dead
        self._stops_reading = self._is_ending = True
        self._wake.set()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)

    @property
    def has_partitions(self) -> bool:
        """Return whether the group has assigned partitions."""
        return bool(self._partitions)

    def watch_for_idleness(self) -> None:
        """Look from now on, after reads without records, whether the broker says that none is left."""
        self._is_watched = True

    def has_read_all(self) -> bool:
        """Return whether the owner has finished with everything, and the broker says that no record is left.

        False unless that is watched.
        """
        return self._has_read_all and not self._handed

    def problems(self) -> tuple[str, ...]:
        """Return what is wrong with the reading, in words."""
        listed = [why for partition in tuple(self._partitions.values()) if (why := partition.undecoded.problem)]
        if self._reader is not None and (problem := self._reader.problem) is not None:
            listed.append(problem)
        return tuple(listed)

    # --- on the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self._read_until_closed()
        except BaseException as raised:  # noqa: BLE001 - the worker ends with it, wherever it comes from
            error = raised
        if error is not None and not isinstance(error, Exception):
            self._is_dead = True
        if self._reader is not None and not self._is_dead and not self._loop.is_closed():
            try:
                self._leave(self._reader)
            except BaseException as raised:  # noqa: BLE001 - the same
                error = error or raised
        if error is not None:
            self._tell(self._owner.reader_failed, error)

    def _read_until_closed(self) -> None:
        consumer = self._open()
        self._reader = reader = GroupReader(
            consumer,
            self._config.stream.kafka,
            self._who,
            lost_records=self._config.lost_records,
            longest_backoff_s=self._config.max_backoff_s,
        )
        consumer.subscribe(self._topics, listener=_Rebalance(self, consumer))
        while not self._is_ending and not self._loop.is_closed():
            self._turn(reader)

    def _leave(self, reader: GroupReader) -> None:
        self._is_ending = True
        self._take_finished()
        try:
            self._commit(reader, tuple(self._partitions.values()), wait=True, clean=True)
        except Exception:
            reader.leave()
            raise
        reader.leave()

    def _turn(self, reader: GroupReader) -> None:
        is_full = self._wait_for_room()
        backoff_s = reader.backoff_s()
        if backoff_s is not None:
            self._wake.wait(backoff_s)
            self._wake.clear()
        reader.hold(set(self._partitions) if is_full else self._held_up())
        try:
            room = max(1, self._config.max_handed - self._handed)
            records = reader.read(min(room, self._config.read_records), 0.0 if is_full else _READ_S)
        except OffsetOutOfRange as error:
            self._lost_records(reader, error)
            return
        for record in records:
            partition = self._partitions.get(record.topic_partition)
            if partition is not None:
                partition.undecoded.records.append(record)
        if records:
            self._probe("pubsub.read")
        if self._has_announced(reader):
            self._hand_over()
        self._take_finished()
        self._commit_when_due(reader)
        if self._is_watched:
            is_quiet = not records and not self._handed and not self._held_up()
            self._has_read_all = is_quiet and reader.has_read_all

    def _wait_for_room(self) -> bool:
        """Wait a little for the owner if it has all that it may have; return whether it still has."""
        self._take_finished()
        if not self._stops_reading and self._handed < self._config.max_handed:
            return False
        self._waits_for_room = True
        self._wake.wait(_FULL_S)
        self._wake.clear()
        self._waits_for_room = False
        self._take_finished()
        return self._stops_reading or self._handed >= self._config.max_handed

    def _held_up(self) -> set[TopicPartition]:
        """Return the partitions whose first record waits for its schema, or for a newer release."""
        return {place for place, partition in self._partitions.items() if partition.undecoded.records}

    def _hand_over(self) -> None:
        received: list[Received] = []
        for partition in self._partitions.values():
            queue = partition.undecoded
            while queue.records and not queue.is_held_up:
                record = queue.records[0]
                incoming = queue.decode_first(self._decoded)
                if incoming is None:
                    break
                queue.remove_first()
                partition.is_dirty = True
                if not partition.progress.take(record.offset):
                    continue
                if incoming[0] is None:
                    partition.progress.finish(record.offset)
                else:
                    partition.handed += 1
                    received.append(Received(record, incoming[0], partition))
        if received:
            self._probe("pubsub.decoded")
            self._handed += len(received)
            self._tell(self._owner.received, received)

    def _decoded(self, record: Record) -> tuple[Incoming]:
        # None is an answer of `_decode`, and for the queue it is a record that has to wait.
        return (self._decode(record),)

    def _take_finished(self) -> None:
        with suppress(IndexError):
            while True:
                partition, offset = self._finished.popleft()
                if partition.is_assigned:
                    partition.progress.finish(offset)
                    partition.is_dirty = True
                    partition.handed -= 1
                    self._handed -= 1

    def _lost_records(self, reader: GroupReader, error: OffsetOutOfRange) -> None:
        low = reader.skip_lost(error)
        self._drop([error.partition])
        self.hold(error.partition, CommittedOffset(offset=low)).is_dirty = True

    def _tell(self, news: Callable[[T], None], what: T) -> None:
        with suppress(RuntimeError):  # the loop is closed: the worker was not closed before it
            self._loop.call_soon_threadsafe(news, what)

    def _has_announced(self, reader: GroupReader) -> bool:
        """Commit that this worker is at work, before it is; return whether that is committed of all partitions.

        The next owner of a partition finds it if this worker dies.
        """
        new = [partition for partition in self._partitions.values() if not partition.is_announced]
        if new and not self._commit(reader, new, wait=True):
            return False
        for partition in new:
            partition.is_announced = True
        return True

    # --- commits ----------------------------------------------------------------------------------------------------

    def _commit_when_due(self, reader: GroupReader) -> None:
        now_s = monotonic_s()
        if now_s - self._last_commit_s < self._config.commit_interval_s:
            return
        if dirty := [partition for partition in self._partitions.values() if partition.is_dirty]:
            self._last_commit_s = now_s
            self._commit(reader, dirty, wait=False)

    def _commit(
        self, reader: GroupReader, partitions: Sequence[ReadPartition], *, wait: bool, clean: bool = False
    ) -> bool:
        """Commit these partitions, and return whether they are; `clean`: this worker leaves them in good order."""
        offsets = {}
        for partition in partitions:
            checkpoint = partition.progress.checkpoint(clean=clean)
            if checkpoint is not None:
                offsets[partition.place] = checkpoint
        if not offsets or self._is_dead:
            return not offsets
        self._probe("pubsub.before_commit")
        if not reader.commit(offsets, wait=wait):
            return False
        for place in offsets:
            self._partitions[place].is_dirty = False
        self._probe("pubsub.committed")
        return True

    # --- partitions that come and go, inside the consumer's own calls -------------------------------------------------

    def hold(self, place: TopicPartition, committed: CommittedOffset) -> ReadPartition:
        """Take a partition from where the group is."""
        queue = RecordQueue(Backoff(FIRST_BACKOFF_S, self._config.max_backoff_s), monotonic_s, self._warnings)
        partition = self._partitions[place] = ReadPartition(place, PartitionProgress(committed, MAX_WINDOW), queue)
        if self._reader is not None:
            self._reader.forget([place])
        return partition

    def assigned(self, partitions: Sequence[TopicPartition], crashed: Sequence[TopicPartition]) -> None:
        """Tell the owner of new partitions."""
        with suppress(RuntimeError):  # as in `_tell`
            self._loop.call_soon_threadsafe(self._owner.assigned, _numbers(partitions), _numbers(crashed))

    def revoke(self, partitions: Sequence[TopicPartition]) -> None:
        """Let the owner finish, commit, and drop the partitions."""
        if self._is_dead:
            return
        # The owner has finished with everything when the thread is told to end.
        if not self._is_ending:
            self._await_revoked(_numbers(partitions))
        if self._is_dead or self._reader is None:
            return
        self._take_finished()
        mine = [self._partitions[place] for place in partitions if place in self._partitions]
        self._commit(self._reader, mine, wait=True, clean=True)
        self._drop(partitions)

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        """Drop partitions that another member has already."""
        self._tell(self._owner.lost, _numbers(partitions))
        self._drop(partitions)

    def _drop(self, partitions: Sequence[TopicPartition]) -> None:
        if self._reader is not None:
            self._reader.forget(partitions)
        for place in partitions:
            partition = self._partitions.pop(place, None)
            if partition is not None:
                partition.is_assigned = False
                partition.undecoded.records.clear()
                self._handed -= partition.handed

    def _await_revoked(self, numbers: frozenset[int]) -> None:
        giving_up = self._owner.revoke(numbers)
        try:
            running = asyncio.run_coroutine_threadsafe(giving_up, self._loop)
        except RuntimeError:  # the loop is closed
            giving_up.close()
            return
        try:
            running.result(self._config.drain_s + self._config.giving_up_s)
        except TookTooLong:
            running.cancel()
            _log.error("%s: gives up partitions that it has not finished with", self._who)
            # Requests that were suspended, and of which nobody says any more whose they are, would stay so for ever.
            self._tell(self._owner.lost, numbers)
        except CancelledError:
            _log.debug("%s: ends while partitions are taken away", self._who)


class _Rebalance:
    """The reader as the listener of its consumer."""

    def __init__(self, reader: WorkflowReader, consumer: Consumer) -> None:
        self._reader = reader
        self._consumer = consumer

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        committed, crashed = self._consumer.committed(partitions), list[TopicPartition]()
        for place in partitions:
            # Where the group has no offset yet, one is committed all the same: see `_has_announced`.
            begin = committed.get(place) or CommittedOffset(offset=self._consumer.watermarks(place).low)
            partition = self._reader.hold(place, begin)
            if was_at_work(begin):
                crashed.append(place)
                partition.repeats_before = self._consumer.watermarks(place).high
        self._reader.assigned(partitions, crashed)
        return None

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._reader.revoke(partitions)

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._reader.lose(partitions)


def _numbers(partitions: Sequence[TopicPartition]) -> frozenset[int]:
    """Return the numbers of the partitions: the same number of every topic has the same owner."""
    return frozenset(partition.partition for partition in partitions)
