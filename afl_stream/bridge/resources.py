"""What the parts of one bridge share: settings, the event loop, and what is opened when the bridge starts."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import dataclass, fields
from threading import Lock
from typing import Final
from weakref import WeakValueDictionary

from afl.core.probes import Probe, no_probe
from afl_stream.bridge.errors import BridgeNotRunning
from afl_stream.bridge.loop_thread import LoopThread
from afl_stream.pubsub import Publisher
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declared import Topology
from afl_stream.transport import Transport
from afl_stream.wire.codec import Codec

#: The sender of the bridge's records, in CloudEvents headers.
SOURCE: Final = "/afl-stream/bridge"


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeCounts:
    """Counters of a bridge since it started.

    `published`: events of AFL workflows on topics. `raised`: external events. `skipped`: records that are for no
    workflow, and replies that nothing waits for. `answered`: results and failures that were sent for deferred steps.
    """

    published: int = 0
    raised: int = 0
    skipped: int = 0
    dead_lettered: int = 0
    deferred: int = 0
    replies: int = 0
    answered: int = 0
    retried: int = 0


class Counters:
    """Counters that any thread may change; readers get a frozen snapshot."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts = {field.name: 0 for field in fields(BridgeCounts)}

    def add(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    def snapshot(self) -> BridgeCounts:
        with self._lock:
            return BridgeCounts(**self._counts)


@dataclass(frozen=True, slots=True)
class _Opened:
    transport: Transport
    codec: Codec
    publisher: Publisher


class BridgeResources:
    """The resources of one bridge. What is `opened` is there while the bridge runs; else BridgeNotRunning is raised."""

    def __init__(self, config: StreamConfig, probe: Probe = no_probe) -> None:
        self.config = config
        self.topology = Topology(config)
        self.loop = LoopThread("bridge-loop")
        self.probe = probe
        self.counters = Counters()
        #: Who answers, as StepContinue and StepFailed say it.
        self.agent = f"{socket.gethostname()}-{os.getpid()}"
        self._opened: _Opened | None = None

    def opened(self, transport: Transport, codec: Codec, publisher: Publisher) -> None:
        """Note what the start has opened."""
        self._opened = _Opened(transport, codec, publisher)

    @property
    def transport(self) -> Transport:
        return self._there().transport

    @property
    def codec(self) -> Codec:
        return self._there().codec

    @property
    def publisher(self) -> Publisher:
        return self._there().publisher

    def _there(self) -> _Opened:
        if self._opened is None:
            raise BridgeNotRunning
        return self._opened


class OneAtATime:
    """A lock for each id, there as long as somebody has it. On one event loop; first come, first served."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, id: str) -> asyncio.Lock:
        """Return the lock of an id; keep it while it is used."""
        lock = self._locks.get(id)
        if lock is None:
            lock = self._locks[id] = asyncio.Lock()
        return lock
