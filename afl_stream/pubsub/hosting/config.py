"""The settings of one worker or client, beside those of the deployment."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field

from afl.core.probes import Probe, no_probe
from afl_stream.reading.group_reader import LostRecords
from afl_stream.settings.config import StreamConfig


def _default_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """The settings of a worker. Those of section [pubsub] are in `stream`.

    `lost_records`: what the worker does when the log no longer holds the records at its position.
    """

    stream: StreamConfig = field(default_factory=StreamConfig)
    name: str = field(default_factory=_default_name)
    lost_records: LostRecords = LostRecords.STOP
    commit_interval_s: float = 0.1
    max_backoff_s: float = 5.0
    #: How long requests are kept whose partitions were taken away, since most partitions come back at once.
    suspended_s: float = 30.0
    #: Records of one read.
    read_records: int = 500
    #: Records that were read, and are not stored yet.
    max_handed: int = 2_000
    #: What the requests of partitions that are taken away may need longer than their time, for the store. Then they are
    #: dropped as they are.
    giving_up_s: float = 60.0
    #: How long the end may take after the requests had their time: for commands that take their time to be cancelled.
    ending_s: float = 30.0
    #: How often old requests are looked for.
    forget_interval_s: float = 60.0
    probe: Probe = no_probe

    @property
    def drain_s(self) -> float:
        """How long requests go on when their partitions are taken away."""
        return self.stream.pubsub.drain_s
