"""One guest's connection, at the holder: its requests are done here, on a thread of its own."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from afl.core.release import VERSION
from afl_stream.embedded.transport import EmbeddedBroker, EmbeddedConsumer, EmbeddedTransport
from afl_stream.holder.error_forms import error_out
from afl_stream.holder.frames import PROTOCOL, BadFrame, Frame, PeerGone, read_frame, write_frame
from afl_stream.holder.parties import AdminParty, ConsumerParty, Party, ProducerParty
from afl_stream.transport import Assignor, Start, TransportError

_log = logging.getLogger(__name__)

#: How long a new connection may take to say what it is.
HELLO_TIMEOUT_S: Final = 10.0


class CallbackFailed(TransportError):
    """A guest's listener has raised an error, which the guest raises itself."""

    def __init__(self) -> None:
        super().__init__("the guest's own callback failed")


class Session:
    """One connection of a guest, in this order:
      1. it says what it is: a producer, an admin, or a consumer with its group,
      2. it asks, and is answered, one request after the other; a rebalance calls it back in between,
      3. its end, however it comes, is the end of its member: others get the partitions at once.

    A frame that no guest of this release sends ends the connection, and no other.
    """

    def __init__(self, connection: socket.socket, broker: EmbeddedBroker, pid: int) -> None:
        self._connection = connection
        self._broker = broker
        self._pid = pid
        self._guest = "a guest"
        self._party: Party | None = None
        #: When it last asked for anything; None while it is being answered. The holder's thread reads it.
        self.silent_since_s: float | None = None

    def run(self) -> None:
        """Serve the guest until it ends."""
        transport = EmbeddedTransport(self._broker)
        try:
            self._connection.settimeout(HELLO_TIMEOUT_S)
            party = self._party = self._welcome(transport)
            self._connection.settimeout(None)
            while True:
                self._answer(party, self._next())
        except (PeerGone, TimeoutError):
            _log.debug("%s is gone", self._guest)
        except BadFrame as error:
            _log.warning("%s sent what is no request, and its connection is closed: %s", self._guest, error)
            with suppress(PeerGone, TimeoutError):
                write_frame(self._connection, {"error": error_out(error)})
        finally:
            # Nothing that it holds outlives it.
            transport.abandon()
            self._connection.close()

    def end(self) -> None:
        """End the connection from another thread."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def expire_after(self, silence_s: float, now_s: float) -> None:
        """Give the partitions of a member that has asked nothing for so long to others; any thread may call this."""
        since_s = self.silent_since_s
        if since_s is not None and now_s - since_s >= silence_s and isinstance(self._party, ConsumerParty):
            consumer = self._party.consumer
            if consumer.member is not None and not consumer.member.fenced:
                _log.warning("%s has asked for nothing in %.0f s: its partitions go to others", self._guest, silence_s)
                self._broker.expire(consumer)

    def _welcome(self, transport: EmbeddedTransport) -> Party:
        """Take the first frame. Raises BadFrame for what is no guest of this protocol."""
        head = self._next().head
        if head.get("hello") != PROTOCOL:
            raise BadFrame(
                f"this process (release {VERSION}) speaks protocol {PROTOCOL}, found {head.get('hello')!r} of release "
                f"{head.get('release')!r}: run both with one installation"
            )
        self._guest = f"guest {head.get('client_id') or head.get('kind')} of process {head.get('pid')}"
        try:
            party = self._party_of(transport, head)
        except (KeyError, TypeError, ValueError) as error:
            raise BadFrame(f"the first frame does not say what its guest is: {error!r}") from error
        self._send({"ok": {"cluster_id": self._broker.cluster_id, "pid": self._pid}})
        return party

    def _party_of(self, transport: EmbeddedTransport, head: Mapping[str, Any]) -> Party:
        if head["kind"] == "producer":
            return ProducerParty(transport.producer())
        if head["kind"] == "admin":
            return AdminParty(transport.admin())
        if head["kind"] == "consumer":
            group = head["group"]
            consumer: EmbeddedConsumer = transport.consumer(
                None if group is None else str(group),
                client_id=str(head["client_id"]),
                assignor=Assignor(head["assignor"]),
                start=Start(head["start"]),
            )
            return ConsumerParty(consumer, self._call)
        raise ValueError(head["kind"])

    def _next(self) -> Frame:
        self.silent_since_s = time.monotonic()
        try:
            return read_frame(self._connection, is_bounded=True)
        finally:
            self.silent_since_s = None

    def _send(self, head: Mapping[str, Any], body: bytes = b"") -> None:
        self.silent_since_s = time.monotonic()
        write_frame(self._connection, head, body)
        self.silent_since_s = None

    def _answer(self, party: Party, frame: Frame) -> None:
        """Do what a request asks for, and send what came of it. Raises BadFrame, PeerGone."""
        action: Callable[[Mapping[str, Any], bytes], tuple[Any, bytes]] | None = party.actions.get(
            str(frame.head.get("do"))
        )
        if action is None:
            raise BadFrame(
                f"there is no request {frame.head.get('do')!r}; known are {', '.join(sorted(party.actions))}"
            )
        try:
            answer, body = action(frame.head, frame.body)
        except (PeerGone, BadFrame):
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadFrame(f"request {frame.head['do']!r} is not as it should be: {error!r}") from error
        except Exception as error:  # noqa: BLE001 - whatever it is, the guest has asked for it and is told
            self._send({"error": error_out(error)})
        else:
            self._send({"ok": answer}, body)

    def _call(self, what: str, partitions: Sequence[Any]) -> Mapping[str, Any]:
        """Call the guest's listener, and do what it asks for meanwhile. Raises CallbackFailed, PeerGone."""
        assert self._party is not None
        self._send({"call": what, "partitions": partitions})
        while True:
            frame = self._next()
            if "returns" in frame.head:
                return frame.head
            if "failed" in frame.head:
                raise CallbackFailed
            self._answer(self._party, frame)
