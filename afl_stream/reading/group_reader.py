"""The reading of a deployment's topics with one consumer, for agents and audits."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Final

from afl.core.backoff import Backoff, FailedAttempts
from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.text.warning_limits import LimitedLog
from afl_stream.reading.watchdog import Watchdog
from afl_stream.settings.config import KafkaSettings
from afl_stream.transport import (
    REFUSALS,
    BrokerUnavailable,
    CommittedOffset,
    Consumer,
    OffsetOutOfRange,
    Record,
    TopicPartition,
    TransportError,
)

log = logging.getLogger(__name__)

#: The wait before what has failed for the first time is tried again: reading, decoding, committing.
FIRST_BACKOFF_S: Final = 0.05


class LostRecords(StrEnum):
    """The reaction of a reader when the log no longer holds the records at its position."""

    STOP = "stop"
    EARLIEST = "earliest"


class GroupReader:
    """The consumer of one member of a group, or of a reader outside any group, with its commits.

    A broker that is away is waited for: reads bring nothing until it is back, `backoff_s` says how long to leave it
    alone, and an outage that lasts too long is raised. Partitions that are `hold`-en back are paused. Belongs to the
    thread that reads; `problem` may be asked by any.
    """

    def __init__(
        self,
        consumer: Consumer,
        settings: KafkaSettings,
        who: str,
        *,
        lost_records: LostRecords,
        longest_backoff_s: float,
        clock_s: MonotonicClock = monotonic_s,
    ) -> None:
        """Read for `who`, a name for messages."""
        self.consumer = consumer
        self._who = who
        self._lost_records = lost_records
        self._watchdog = Watchdog(settings, who, clock_s)
        self._failures = FailedAttempts(Backoff(FIRST_BACKOFF_S, longest_backoff_s))
        self._is_away = False
        self._paused: frozenset[TopicPartition] = frozenset()
        self._warnings = LimitedLog(log)

    # Reading

    def read(self, max_records: int, timeout_s: float) -> Sequence[Record]:
        """Read a batch; none while the broker is away.

        Raises OffsetOutOfRange, UnknownTopic, and GaveUp when an outage has lasted too long.
        """
        self._is_away = False
        try:
            records = self.consumer.consume(max_records, timeout_s)
        except BrokerUnavailable as error:
            self.failed(error)
            return []
        self._failures.reset()
        self._watchdog.read(self.consumer, len(records))
        return records

    def failed(self, error: BrokerUnavailable) -> None:
        """Note that the broker could not be reached. Raises GaveUp when the outage has lasted too long."""
        self._is_away = True
        self._watchdog.failed(error)

    @property
    def is_away(self) -> bool:
        """Return whether the last attempt found no broker."""
        return self._is_away

    def backoff_s(self) -> float | None:
        """Return how long to leave the broker alone, longer each time; None when it answers."""
        return self._failures.next_wait_s() if self._is_away else None

    def skip_lost(self, error: OffsetOutOfRange) -> int:
        """Continue where the log begins, and return that offset. Raises the error where lost records are to stop it."""
        if self._lost_records is LostRecords.STOP:
            raise error
        low = error.bounds.low
        log.error(
            "%s: %s; reading continues at offset %d, %d records are lost",
            self._who,
            error,
            low,
            max(0, low - error.offset),
        )
        self.consumer.seek(error.partition, low)
        return low

    def hold(self, partitions: Collection[TopicPartition]) -> None:
        """Pause these partitions, which are assigned, and resume all others."""
        wanted = frozenset(partitions)
        if pause := wanted - self._paused:
            self.consumer.pause(sorted(pause))
        if resume := self._paused - wanted:
            self.consumer.resume(sorted(resume))
        self._paused = wanted

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Note that these were revoked or newly assigned: none of them is paused."""
        self._paused = self._paused.difference(partitions)

    # Committing and leaving

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset], *, wait: bool) -> bool:
        """Commit, and return whether that was possible. The next reader repeats what was not committed.

        Fenced, too, does not mean a loss: a commit that a rebalance overtakes is refused although the member keeps the
        partition. A real loss is told by `on_lost`. Raises REFUSALS, which no later commit mends.
        """
        try:
            self.consumer.commit(offsets, wait=wait)
        except REFUSALS:
            raise
        except TransportError as error:
            self._warnings.warning("commits that failed", "%s: a commit failed: %s", self._who, error)
            return False
        return True

    def leave(self) -> bool:
        """Commit what is finished and leave the group; False: its last commit could not be made."""
        try:
            self.consumer.close()
        except TransportError as error:
            log.warning("%s: left without its last commit: %s", self._who, error)
            return False
        return True

    # Health

    @property
    def problem(self) -> str | None:
        """The problem with the broker, in words. Any thread may ask."""
        return self._watchdog.problem

    @property
    def has_read_all(self) -> bool:
        """Return whether the broker says that nothing waits to be read."""
        return self._watchdog.has_read_all(self.consumer)
