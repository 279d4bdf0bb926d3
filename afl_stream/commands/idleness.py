"""The end of a service: drained after a signal, or when it is idle because it has read everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from afl.core.clock import MonotonicClock, monotonic_s
from afl_stream.transport import TransportError

if TYPE_CHECKING:
    from afl_stream.settings.config import StreamConfig

#: How long a drain may take before the process ends all the same: then it waits for something that does not answer. An
#: agent's handlers have their grace period before that.
DRAIN_LIMIT_S: Final = 20.0
#: Consecutive empty reads after which everything is read.
_EMPTY_READS = 3
#: On Kafka a first read comes back while the fetch behind it is still under way: quiet means quiet for so long.
_QUIET_S = 1.0
#: How long a member may be without partitions. On Kafka one that died keeps its own until its session is over, by
#: default 45 s.
_JOIN_TIMEOUT_S = 10.0
_JOIN_TIMEOUT_ON_KAFKA_S = 60.0


class NoPartitions(TransportError):
    """A group assigns no partitions to this member: others have all of them."""

    def __init__(self, groups: Sequence[str], waited_s: float) -> None:
        super().__init__(
            f"{', '.join(groups)} gave this process no partitions within {waited_s:g} s: other members have them all, "
            "or one that died is still counted; nothing was read"
        )
        self.groups = tuple(groups)


class Idleness:
    """Watches the reads of one service, and says when it is idle. Joining the groups comes first."""

    def __init__(self, config: StreamConfig, *, clock_s: MonotonicClock = monotonic_s) -> None:
        self._clock_s = clock_s
        self._is_kafka = config.is_kafka
        self._quiet_s = _QUIET_S if config.is_kafka else 0.0
        self._join_timeout_s = _JOIN_TIMEOUT_ON_KAFKA_S if config.is_kafka else _JOIN_TIMEOUT_S
        self._joining_since_s = clock_s()
        self._quiet_since_s = 0.0
        self._empty = 0

    def busy(self) -> None:
        """Note that records were read, or that work is left."""
        self._empty = 0

    def is_over(self, without_partitions: Sequence[str] = (), has_read_all: bool = True) -> bool:
        """Note a read that returned nothing, and return whether there were enough of them.

        `has_read_all`: whether the broker says that no record is left; reads without it do not count, because its
        replies may be lost. `without_partitions`: the groups that have assigned none to this process yet. Raises
        NoPartitions, on Kafka, when they do not in time.
        """
        now_s = self._clock_s()
        if without_partitions:
            self._empty = 0
            waited_s = now_s - self._joining_since_s
            if waited_s < self._join_timeout_s:
                return False
            if self._is_kafka:
                raise NoPartitions(without_partitions, self._join_timeout_s)
            return True
        self._joining_since_s = now_s
        if not has_read_all:
            self._empty = 0
            return False
        if self._empty == 0:
            self._quiet_since_s = now_s
        self._empty += 1
        return self._empty >= _EMPTY_READS and now_s - self._quiet_since_s >= self._quiet_s


def ends_when(until_idle: bool) -> str:
    """Return in words when a service ends by itself, or what ends it."""
    return "ends when it is idle" if until_idle else "Ctrl-C drains and ends it"
