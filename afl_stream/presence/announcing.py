"""Announces a process on the topic of presence, from a thread of its own: the work never waits for it."""

from __future__ import annotations

import logging
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from threading import Event, Thread
from typing import Final

from afl.core.clock import epoch_ms
from afl.core.text.exception_text import exception_line
from afl.core.text.warning_limits import LimitedLog
from afl.core.versions import RUNTIME_VERSION
from afl_stream.acls import hidden_among, hidden_topic
from afl_stream.presence.records import Presence, encode
from afl_stream.transport import Producer, Transport, TransportError

_log = logging.getLogger(__name__)

#: How long a record may take, the last one at the end of the process too.
_FLUSH_S: Final = 2.0


def new_member(kind: str, interval_s: int, *, member_id: str = "", name: str = "") -> Presence:
    """Return what is known of this process at its start; without an id it draws one."""
    host = socket.gethostname()
    drawn = f"{kind}-{uuid.uuid4().hex[:12]}"
    now_ms = epoch_ms()
    return Presence(
        id=member_id or drawn,
        kind=kind,
        seen_at=now_ms,
        started_at=now_ms,
        interval_s=interval_s,
        name=name or host,
        host=host,
        language="python",
        version=RUNTIME_VERSION,
    )


class Announcer:
    """Announces a process now and then, and says at a clean end that it is gone: a record without a value."""

    def __init__(
        self, transport: Transport, topic: str, describe: Callable[[], Presence], wall_ms: Callable[[], int] = epoch_ms
    ) -> None:
        """`describe` returns what the process says of itself now; it is asked from another thread."""
        self._transport = transport
        self._topic = topic
        self._describe = describe
        self._wall_ms = wall_ms
        self._producer: Producer | None = None
        self._warnings = LimitedLog(_log)
        self._last: Presence | None = None
        self._stopped = Event()

    def announce(self) -> bool:
        """Announce once; return whether the broker has it. A deployment without the topic has no presence."""
        try:
            found = replace(self._describe(), seen_at=self._wall_ms())
            return self._send(found, encode(found))
        except TransportError as error:
            self._warnings.warning("presence", "this process is not announced on %s: %s", self._topic, error)
        except Exception as error:  # noqa: BLE001 - a process that cannot say how it does works all the same
            self._warnings.error("presence", "this process cannot say how it does: %s", exception_line(error))
        return False

    def leave(self) -> None:
        """Say that this process has ended in good order, if it was announced."""
        last, self._last = self._last, None
        try:
            if last is not None:
                self._send(last, None)
        except TransportError as error:
            _log.info("the end of this process is not announced on %s: %s", self._topic, error)
        finally:
            if self._producer is not None:
                self._producer.close()

    def run(self, interval_s: float) -> None:
        """Announce until `stop`, then leave."""
        while True:
            self.announce()
            if self._stopped.wait(interval_s):
                break
        self.leave()

    def stop(self) -> None:
        """Have `run` end."""
        self._stopped.set()

    def _send(self, presence: Presence, value: bytes | None) -> bool:
        if self._producer is None:
            admin = self._transport.admin()
            if self._topic not in admin.topic_names():
                if hidden_among(admin, [self._topic]):
                    raise hidden_topic(self._topic)
                text = "topic %s does not exist, so `afl-stream servers` does not list this process; create it: %s"
                self._warnings.log(logging.INFO, "presence", text, self._topic, "afl-stream topics apply FILE.afl")
                return False
            self._producer = self._transport.producer()
        failed: list[Exception] = []
        self._producer.produce(
            self._topic,
            value,
            key=presence.id.encode(),
            on_delivery=lambda error, _partition, _offset: failed.extend(() if error is None else (error,)),
        )
        left = self._producer.flush(_FLUSH_S)
        if failed:
            raise failed[0]
        self._last = presence
        return not left


def sign_off(transport: Transport, topic: str, member_id: str) -> bool:
    """Say of a process that cannot say it itself that it is gone; return whether the broker has it.

    Raises what the transport raises. A deployment without the topic has no presence.
    """
    if topic not in transport.admin().topic_names():
        return False
    failed: list[Exception] = []
    with closing(transport.producer()) as producer:
        producer.produce(
            topic,
            None,
            key=member_id.encode(),
            on_delivery=lambda error, _partition, _offset: failed.extend(() if error is None else (error,)),
        )
        left = producer.flush(_FLUSH_S)
    if failed:
        raise failed[0]
    return not left


@contextmanager
def announced(transport: Transport, topic: str, interval_s: int, describe: Callable[[], Presence]) -> Iterator[None]:
    """Announce this process while this lasts; never with an interval of 0."""
    if not interval_s:
        yield
        return
    announcer = Announcer(transport, topic, describe)
    thread = Thread(target=announcer.run, args=(interval_s,), name="afl-presence", daemon=True)
    thread.start()
    try:
        yield
    finally:
        announcer.stop()
        thread.join(2 * _FLUSH_S)
