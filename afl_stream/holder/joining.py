"""The way to an embedded log: hold it, or be the guest of the process that does."""

from __future__ import annotations

import os
import time
from pathlib import Path
from threading import Event
from typing import Final

from afl_stream.embedded.file import FileInUse
from afl_stream.embedded.transport import EmbeddedBroker, EmbeddedTransport
from afl_stream.holder.guest import GuestTransport, HolderAway
from afl_stream.holder.places import SocketUnusable, connect_to, socket_path
from afl_stream.holder.serving import HolderSocket
from afl_stream.transport import Transport

#: How long to wait for a log that a process has without letting others in: most commands need it for a moment.
WAIT_S: Final = 5.0
_INTERVAL_S: Final = 0.05


class HeldTransport(EmbeddedTransport):
    """The transport of a service that holds the log, and lets other processes use it meanwhile."""

    def __init__(self, log_path: Path) -> None:
        """Hold the log and listen. Raises FileInUse, FileUnusable, SocketUnusable."""
        super().__init__(log_path)
        try:
            self._socket = HolderSocket(self.broker, log_path)
        except SocketUnusable:
            self.broker.close()
            raise

    def close(self) -> None:
        self._socket.close()
        super().close()


def hold(log_path: Path, *, wait_s: float = WAIT_S) -> EmbeddedBroker:
    """Hold a log; a command that has it for a moment is waited for. Raises FileInUse, FileUnusable."""
    deadline_s = time.monotonic() + wait_s
    while True:
        try:
            return EmbeddedBroker(log_path)
        except FileInUse as error:
            if is_served(log_path) or not _comes_free(error, deadline_s):
                raise


def hold_or_join(log_path: Path, *, serves: bool, wait_s: float = WAIT_S) -> Transport:
    """Hold a log, or be the guest of its holder; one that lets nobody in is waited for.

    `serves`: others may join meanwhile. It is for services: a command that is over in a moment would leave its guests
    alone. Raises FileInUse, FileUnusable, SocketUnusable.
    """
    deadline_s = time.monotonic() + wait_s
    while True:
        try:
            return HeldTransport(log_path) if serves else EmbeddedTransport(log_path)
        except FileInUse as error:
            try:
                return GuestTransport(log_path)
            except HolderAway:
                if not _comes_free(error, deadline_s):
                    raise error from None


def is_served(log_path: Path) -> bool:
    """Return whether a process holds the log and lets others use it."""
    try:
        connection = connect_to(socket_path(log_path))
    except SocketUnusable:
        return False
    if connection is None:
        return False
    connection.close()
    return True


def _comes_free(error: FileInUse, deadline_s: float) -> bool:
    """Wait a moment; return whether the log may become free in time. This process's own log does not."""
    if error.pid == os.getpid() or time.monotonic() >= deadline_s:
        return False
    Event().wait(_INTERVAL_S)
    return True
