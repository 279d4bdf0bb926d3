"""The audit: a line of JSON for each record, of every facet's events and all answers."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from threading import Lock

from afl.core.backoff import Backoff
from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.probes import Probe, no_probe
from afl.core.process.stopping import PROCESS_STOP
from afl.core.text.warning_limits import LimitedLog
from afl_stream.audit.assignment import OwnAssignment
from afl_stream.audit.config import AuditConfig, AuditCounts
from afl_stream.audit.file_sink import AuditFile
from afl_stream.audit.followed_topics import FollowedTopics
from afl_stream.audit.gaps import Gap, OffsetGaps
from afl_stream.audit.group import default_group
from afl_stream.audit.lines import encode_line, filter_line
from afl_stream.audit.lost_offsets import behind_the_group, written_before_offsets_were_lost
from afl_stream.audit.record_lines import UNDECIDED, RecordLines
from afl_stream.audit.sinks import AuditSink, AuditStream, LastWritten
from afl_stream.reading.group_reader import FIRST_BACKOFF_S, GroupReader
from afl_stream.reading.lag import ReaderProgress
from afl_stream.reading.record_queue import RecordQueue
from afl_stream.reading.watchdog import Health
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.sensitive.redaction import Redaction
from afl_stream.topics.declared import Topology
from afl_stream.transport import (
    BrokerUnavailable,
    CommittedOffset,
    Consumer,
    OffsetOutOfRange,
    TopicPartition,
    Transport,
    UnknownTopic,
)
from afl_stream.wire.codec import Codec

__all__ = ["Audit", "AuditConfig", "AuditCounts", "AuditFile", "AuditStream"]

log = logging.getLogger(__name__)


class Audit:
    """A writer of one line for each record, in the order of each partition.

    A batch, in this order:
      1. it is read                        (audit.polled)
      2. its lines are written             (audit.written)
      3. they are on disk                  (audit.synced)
      4. the offsets move past them        (audit.committed)

    A sink may collect the lines of several batches before 3.

    After a crash before 3 the missing lines are written after the restart, which first removes a torn line. After a
    crash between 3 and 4 the records are delivered again: those that the end of the file has are not written twice, nor
    those that this process wrote before it lost and regained a partition. Where neither tells (another member has the
    partition now, or the sink is a stream and the process another one), a line may be there twice: topic, partition and
    offset identify it.

    Without a group there is no step 4: each run begins where it is told to, and takes nothing from another audit.

    The topic of a new facet is followed from its first record. `turn` and `run` belong to one thread.
    """

    def __init__(
        self,
        config: AuditConfig,
        transport: Transport,
        sink: AuditSink,
        *,
        topology: Topology | None = None,
        codec: Codec | None = None,
        probe: Probe = no_probe,
        clock_s: MonotonicClock = monotonic_s,
    ) -> None:
        self.config = config
        self._transport = transport
        self._sink = sink
        self._topology = topology if topology is not None else Topology(config.stream)
        self._codec = codec
        self._schemas: DeploymentCodec | None = None
        self._probe, self._clock_s = probe, clock_s
        self._reader: GroupReader | None = None
        #: What was wrong with the broker when the audit ended.
        self._last_problem: str | None = None
        #: What is read outside any group; None in a group.
        self._own: OwnAssignment | None = None
        self._written = {} if config.from_beginning else sink.written()
        #: Where each partition's first assignment began, in a run from the beginning.
        self._begun: set[TopicPartition] = set()
        self._queues: dict[TopicPartition, RecordQueue] = {}
        self._positions: dict[TopicPartition, int] = {}
        #: How far the lines go that the sink has taken, and that are not durable yet.
        self._taken: dict[TopicPartition, LastWritten] = {}
        self._gaps = OffsetGaps(transport.admin(), clock_s, is_filtered=not config.wanted.takes_all)
        self._lines: RecordLines | None = None
        self._is_undecided = False  # Records wait until it is known whether they are wanted.
        self._followed = FollowedTopics(self._topology, config)
        #: Topics that were deleted while a group read them.
        self._gone: set[str] = set()
        self._warnings = LimitedLog(log)
        self._backoff = Backoff(FIRST_BACKOFF_S, config.max_backoff_s)
        #: When to ask again for a schema, where they could not be asked for.
        self._retry_at_s = float("-inf")
        self._counts = AuditCounts()
        self._counts_lock = Lock()
        self._is_stopping = self._is_dead = False
        self.progress = ReaderProgress(clock_s)

    @property
    def group(self) -> str | None:
        """The group that the audit reads in, or None without one."""
        config = self.config
        return None if config.alone is not None else config.group or default_group(config.stream)

    @property
    def is_stopping(self) -> bool:
        """Return whether `stop` was called."""
        return self._is_stopping

    @property
    def has_read_all(self) -> bool:
        """Return whether the broker says that nothing waits to be read. For the thread that calls `turn`."""
        return self._reader is not None and not self._is_undecided and self._reader.has_read_all

    @property
    def has_partitions(self) -> bool:
        """Return whether partitions are assigned: the group's, or all without one. For the thread that calls `turn`."""
        return self._reader is not None and bool(self._reader.consumer.assignment())

    @property
    def counts(self) -> AuditCounts:
        """The counters up to now. Any thread may read them."""
        with self._counts_lock:
            return self._counts

    @property
    def problems(self) -> tuple[str, ...]:
        """The reasons why partitions are not followed. Any thread may ask."""
        return tuple(why for queue in self._queues.copy().values() if (why := queue.problem) is not None)

    def health(self) -> Health:
        """Return the health of the audit. Any thread may ask."""
        problem = self._last_problem if self._reader is None else self._reader.problem
        reasons = (*self.problems, *(() if problem is None else (problem,)))
        return Health(ready=not reasons, reasons=reasons)

    def run(self) -> int:
        """Follow until `stop`, and return 0. Raises the error that ended it otherwise."""
        try:
            while not self._is_stopping:
                self.turn(self.config.poll_timeout_s)
        except BrokerUnavailable:
            # `stop` was called during a wait: nothing depends on its result any more.
            if not self._is_stopping:
                raise
        finally:
            self.close()
        return 0

    def stop(self) -> None:
        """Ask the audit to end. Safe in a signal handler."""
        self._is_stopping = True

    def start(self) -> None:
        """Join the group, or assign all partitions. Raises TopicMissing and what the transport raises."""
        if self._reader is not None:
            return
        config = self.config
        self._followed.check(self._transport.admin())
        if self._codec is None:
            self._schemas = DeploymentCodec(config.stream, self._transport, self._topology)
            self._codec = self._schemas.codec
        asking, redaction = self._sink.asking_steps(), Redaction(config.stream.sensitive.patterns)
        self._lines = RecordLines(self._topology, self._codec, config.wanted, asking, self._count, redaction)
        consumer = self._transport.consumer(self.group, client_id=self.group or default_group(config.stream))
        self._reader = GroupReader(
            consumer,
            config.stream.kafka,
            "the audit" if self.group is None else f"group {self.group}",
            lost_records=config.lost_records,
            longest_backoff_s=config.max_backoff_s,
            clock_s=self._clock_s,
        )
        if config.alone is None:
            consumer.subscribe(self._followed.required, pattern=self._followed.pattern, listener=self)
            if not config.wanted.takes_all:
                self._sink.write([encode_line(filter_line(config.wanted.document()))])
            return
        start = config.alone if config.wanted.from_ms is None else config.wanted.from_ms
        self._own = OwnAssignment(self._transport.admin(), consumer, self._followed, start, self._clock_s)

    def turn(self, timeout_s: float) -> int:
        """Read a batch and write it; return the number of lines written.

        Raises BrokerUnavailable when an outage has lasted too long, and what `start` raises.
        """
        self.start()
        reader = self._reader
        assert reader is not None
        self.progress.turned(reader.consumer, lambda p: at.offset + 1 if (at := self._written.get(p)) else None)
        if (backoff_s := reader.backoff_s()) is not None:
            PROCESS_STOP.wait(min(backoff_s, timeout_s))
        try:
            return self._turn(reader, timeout_s)
        except BrokerUnavailable as error:
            reader.failed(error)
            return 0
        except Exception:
            raise
        except BaseException:
            # The process was killed: nothing is written or committed after that.
            self._is_dead = True
            raise

    def close(self) -> None:
        """Commit what is written, leave the group, close the sink."""
        try:
            # The last first, and each of them also when another one fails.
            with ExitStack() as closing:
                closing.callback(self._sink.close)
                if self._schemas is not None:
                    closing.callback(self._schemas.close)
                if self._reader is not None:
                    self._last_problem = self._reader.problem
                    if not self._is_dead:
                        closing.callback(self._reader.leave)
                        self._sync()
        finally:
            self._reader = None

    def _turn(self, reader: GroupReader, timeout_s: float) -> int:
        reader.hold({partition for partition, queue in self._queues.items() if queue.records})
        reached: dict[TopicPartition, LastWritten] = {}
        lines = self._read(reader, timeout_s, reached)
        if reader.is_away:
            return 0
        self._probe("audit.polled")
        if self._clock_s() >= self._retry_at_s:
            lines += self._decode_all(reader, reached)
        if lines:
            self._sink.write(lines)
            self._probe("audit.written")
        self._taken |= reached
        if self._sink.is_due():
            self._sync()
            if lines:
                self._probe("audit.synced")
        self._commit(self._positions, wait=False)
        return len(lines)

    def _sync(self) -> None:
        """Make durable what the sink has taken: only then may offsets move past it."""
        if self._taken:
            self._sink.sync(self._taken)
            self._note(self._taken)
            self._taken = {}

    def _read(self, reader: GroupReader, timeout_s: float, reached: dict[TopicPartition, LastWritten]) -> list[bytes]:
        """Put a batch into the queues, and return the lines that tell of lost records."""
        try:
            self._follow_topics()
            records = reader.read(self.config.batch_records, timeout_s)
        except UnknownTopic as error:
            if self._own is not None:
                self._own.look_soon(missing=error.topic)
            else:
                self._continue_without(reader.consumer, error)
            return []
        except OffsetOutOfRange as error:
            if self._own is not None:
                self._own.look_soon()
                if error.partition in self._follow_topics():
                    return []
            return [self._lost(reader, error, reached)]
        for record in records:
            queue = self._queues.get(record.topic_partition)
            if queue is None:
                queue = RecordQueue(self._backoff, self._clock_s, self._warnings)
                self._queues[record.topic_partition] = queue
            queue.records.append(record)
        if self._own is not None:
            self._own.note(records)
        return []

    def _continue_without(self, consumer: Consumer, error: UnknownTopic) -> None:
        """Drop a facet's topic, in a group, until it exists again. Raises UnknownTopic for a topic that is needed."""
        topic = error.topic
        if topic in self._followed.required:
            raise error
        if topic in self._transport.admin().topic_names():
            return  # It was recreated, or one broker did not know it yet.
        self._gone.add(topic)
        log.error("topic %s does not exist any more; the audit continues with the others until it exists again", topic)
        held = {*consumer.assignment(), *self._queues, *self._positions, *self._written}
        self._forget([partition for partition in held if partition.topic == topic])

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        """Drop partitions whose topic is gone or was recreated."""
        self.on_lost(tuple(partitions))
        for partition in partitions:
            self._written.pop(partition, None)

    def _follow_topics(self) -> frozenset[TopicPartition]:
        """Read new partitions, without a group; drop and return those of topics that are gone or recreated."""
        if self._own is None:
            return frozenset()
        ended = self._own.look_when_due()
        self._forget(ended)
        return ended

    def _decode_all(self, reader: GroupReader, reached: dict[TopicPartition, LastWritten]) -> list[bytes]:
        assert self._lines is not None
        lines: list[bytes] = []
        undecided: dict[TopicPartition, int] = {}
        self._lines.answers.look(reader.consumer, [p for p, queue in self._queues.items() if queue.records])
        for partition in list(self._queues):
            found, is_undecided = self._decode(partition, reader.consumer, reached)
            lines += found
            if is_undecided:
                undecided[partition] = self._queues[partition].records[-1].offset
        self._is_undecided = bool(undecided)
        if undecided:
            self._lines.answers.ask(reader.consumer, undecided)
        return lines

    def _decode(
        self, partition: TopicPartition, consumer: Consumer, reached: dict[TopicPartition, LastWritten]
    ) -> tuple[list[bytes], bool]:
        """Return the lines of what was read of a partition, up to a record that has to wait.

        The second value: it waits until it is known whether it is wanted.
        """
        assert self._lines is not None
        lines: list[bytes] = []
        queue = self._queues[partition]
        while queue.records and not queue.is_held_up:
            record = queue.records[0]
            if partition.topic not in self._followed:
                pass
            elif self._is_written(partition, LastWritten(record.offset, record.timestamp_ms)):
                self._count(repeated=1)
            else:
                found = queue.decode_first(self._lines.of)
                if found is UNDECIDED:
                    return lines, True
                if found is None:
                    if queue.paused_reason is None and queue.is_away:
                        # No schema can be asked for, which takes long to find out: all partitions wait.
                        self._retry_at_s = queue.retry_at_s
                    break
                try:
                    gap = self._gaps.before(record, consumer, self._written)
                except BrokerUnavailable:
                    break  # Whether anything is missing cannot be asked now: the record stays in its queue.
                if gap is not None:
                    lines.append(self._lines.of_gap(gap))
                lines += found
            queue.remove_first()
            self._gaps.note(partition, record.offset + 1)
            before = reached.get(partition)
            latest_ms = record.timestamp_ms if before is None else max(before.time_ms, record.timestamp_ms)
            reached[partition] = LastWritten(record.offset, latest_ms)
        return lines, False

    def _note(self, reached: Mapping[TopicPartition, LastWritten]) -> None:
        """Remember how far the lines on disk go. Call this only then: what is noted is committed, also at the end."""
        for partition, last in reached.items():
            self._positions[partition] = last.offset + 1
            if not self._is_written(partition, last):
                before = self._written.get(partition, last)
                self._written[partition] = LastWritten(last.offset, max(before.time_ms, last.time_ms))

    def _lost(self, reader: GroupReader, error: OffsetOutOfRange, reached: dict[TopicPartition, LastWritten]) -> bytes:
        """Continue where the log begins, and return a line about the gap."""
        assert self._lines is not None
        partition, low = error.partition, reader.skip_lost(error)
        reached[partition] = LastWritten(low - 1, -1)
        self._gaps.note(partition, low)
        return self._lines.of_gap(Gap(partition, error.offset, low, None))

    def _is_written(self, partition: TopicPartition, record: LastWritten) -> bool:
        """Return whether this record was written. A recreated topic counts from 0 again, at a later time."""
        last = self._written.get(partition)
        return last is not None and record.offset <= last.offset and record.time_ms <= last.time_ms

    def _commit(self, positions: Mapping[TopicPartition, int], *, wait: bool) -> None:
        if not positions or self._reader is None or self._own is not None:
            return
        offsets = {partition: CommittedOffset(offset=offset) for partition, offset in positions.items()}
        if not self._reader.commit(offsets, wait=wait):
            # The positions stay: the next commit takes them along. Of a topic that is gone reading tells.
            self._count(commit_failures=1)
            return
        for partition in offsets:
            self._positions.pop(partition, None)
        self._count(commits=1)
        self._probe("audit.committed")

    def _count(self, **more: int) -> None:
        with self._counts_lock:
            self._counts = self._counts.plus(**more)

    # Called inside the consumer's own calls

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        if self._reader is None:
            return None
        consumer = self._reader.consumer
        for topic in sorted(self._gone & {partition.topic for partition in partitions}):
            self._gone.discard(topic)
            log.warning("topics that exist again and are read: %s", topic)
        if self.config.from_beginning:
            fresh = [partition for partition in partitions if partition not in self._begun]
            self._begun.update(fresh)
            return {partition: consumer.watermarks(partition).low for partition in fresh}
        if self._own is not None:
            return None
        # Without an offset the log is read from its beginning; the file knows what of it is written.
        self._written.update(written_before_offsets_were_lost(consumer, self.group, partitions, self._sink))
        starts: dict[TopicPartition, int] = {}
        if self.config.continues_sink:
            starts = behind_the_group(consumer, self.group, partitions, self._written)
        if self.config.wanted.from_ms is not None:
            new = set(partitions) - starts.keys() - self._written.keys() - consumer.committed(partitions).keys()
            starts |= consumer.offsets_for_times(dict.fromkeys(new, self.config.wanted.from_ms)) if new else {}
        for partition, offset in starts.items():
            self._gaps.note(partition, offset)
        return starts or None

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        if not self._is_dead and self._reader is not None:
            self._sync()
            self._commit({w: o for w, o in self._positions.items() if w in partitions}, wait=True)
        self.on_lost(partitions)

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        if self._reader is not None:
            self._reader.forget(partitions)
        if not self._is_dead:
            self._sync()
        self._gaps.forget(partitions)
        for partition in partitions:
            self._queues.pop(partition, None)
            self._positions.pop(partition, None)
