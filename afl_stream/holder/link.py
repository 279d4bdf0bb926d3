"""A guest's connection to the holder, which is made again when another holder has come."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from afl.core.release import VERSION
from afl_stream.holder.error_forms import error_in
from afl_stream.holder.frames import PROTOCOL, Frame, PeerGone, has_closed, read_frame, write_frame
from afl_stream.holder.places import connect_to, socket_path
from afl_stream.transport import BrokerUnavailable, WrongCluster

#: How long a holder may take to answer a request, beyond what the request waits for. A disk may be slow.
ANSWER_TIMEOUT_S: Final = 60.0

#: Called with a frame by which the holder calls the guest; it answers the frame itself.
OnCall = Callable[[Frame], None]


class HolderAway(BrokerUnavailable):
    """Nobody holds the log, or its holder does not answer: another one may come."""

    def __init__(self, log_path: Path, found: str) -> None:
        super().__init__(
            f"{log_path}: {found}; `afl-stream server` holds it for all who use it, and what is on disk is there"
        )
        self.log_path = log_path


class LogIdentity:
    """The log that a process is a guest of: another holder must have the same one."""

    def __init__(self, log_path: Path) -> None:
        self.log_path = log_path
        self.cluster_id: str | None = None

    def check(self, found: str) -> None:
        """Note the log's id the first time, and compare it later. Raises WrongCluster."""
        if self.cluster_id is None:
            self.cluster_id = found
        elif found != self.cluster_id:
            raise WrongCluster(
                self.cluster_id,
                found,
                "this process",
                f"{self.log_path} was replaced: start this process again",
                what_expected="the embedded log",
                what_found="the embedded log",
            )


class Link:
    """One connection, for one producer, consumer or admin. One thread at a time may use it.

    A connection that ends is not made again by itself: `connect` does that, and `generation` says which one it is.
    """

    def __init__(self, log: LogIdentity, hello: Mapping[str, Any]) -> None:
        """`hello` says what the guest is."""
        self._log = log
        self._hello = {"hello": PROTOCOL, "release": VERSION, "pid": os.getpid(), **hello}
        self._connection: socket.socket | None = None
        self._holder = 0
        #: How many connections there were; 0: none yet.
        self.generation = 0
        #: Since when there is none, by the clock of this process; None: there is one, or there was none yet.
        self.away_since_s: float | None = None

    @property
    def is_up(self) -> bool:
        """Return whether the holder is there, as far as this end knows."""
        if self._connection is not None and has_closed(self._connection):
            self._lose()
        return self._connection is not None

    def connect(self) -> None:
        """Connect if there is no connection. Raises HolderAway, SocketUnusable, WrongCluster."""
        if self.is_up:
            return
        connection = connect_to(socket_path(self._log.log_path))
        if connection is None:
            self._lose()
            raise self._away()
        connection.settimeout(ANSWER_TIMEOUT_S)
        self._connection = connection
        try:
            answer = self._exchange(connection, self._hello, b"", None).head["ok"]
            self._log.check(answer["cluster_id"])
        except WrongCluster:
            self.close()
            raise
        self._holder = int(answer["pid"])
        self.generation += 1
        self.away_since_s = None

    def request(
        self, head: Mapping[str, Any], body: bytes = b"", *, wait_s: float = 0.0, on_call: OnCall | None = None
    ) -> Frame:
        """Ask, and return the answer; `wait_s` is what the request itself waits for.

        Raises HolderAway, and the holder's error.
        """
        connection = self._connection
        if connection is None:
            raise self._away()
        connection.settimeout(ANSWER_TIMEOUT_S + wait_s)
        return self._exchange(connection, head, body, on_call)

    def send(self, head: Mapping[str, Any]) -> None:
        """Send an answer to a call of the holder. Raises HolderAway."""
        if self._connection is None:
            raise self._away()
        try:
            write_frame(self._connection, head)
        except (PeerGone, TimeoutError) as error:
            self._lose()
            raise self._away() from error

    def _exchange(
        self, connection: socket.socket, head: Mapping[str, Any], body: bytes, on_call: OnCall | None
    ) -> Frame:
        try:
            write_frame(connection, head, body)
            while True:
                frame = read_frame(connection, is_bounded=False)
                if "call" not in frame.head:
                    break
                assert on_call is not None, "only a consumer is called"
                on_call(frame)
        except PeerGone as error:
            self._lose()
            raise self._away() from error
        except TimeoutError as error:
            self._lose()
            raise HolderAway(
                self._log.log_path, f"its holder, process {self._holder}, has not answered in {ANSWER_TIMEOUT_S:g} s"
            ) from error
        except BaseException:
            # The rest of the exchange would be taken for the answer to something else.
            self._lose()
            raise
        if "error" in frame.head:
            raise error_in(frame.head["error"])
        return frame

    def _away(self) -> HolderAway:
        if not self._holder:
            return HolderAway(self._log.log_path, "no process that holds it lets others in")
        return HolderAway(self._log.log_path, f"its holder, process {self._holder}, is gone")

    def _lose(self) -> None:
        if self.away_since_s is None:
            self.away_since_s = time.monotonic()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """End the connection: the holder lets go of all that this guest has."""
        self._lose()
