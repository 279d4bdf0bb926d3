"""Where the socket of a holder is: beside its log, for its owner alone."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from afl.core.process.private_files import PRIVATE_FILE
from afl_stream.transport import TransportError

#: The name of the socket, in the data directory.
SOCKET_FILE: Final = "holder.sock"
#: What an address of a socket may take, on every system: macOS has room for 104 bytes with the zero behind it.
_MOST_BYTES: Final = 103
#: Connections that may wait to be accepted.
_BACKLOG: Final = 128


class SocketUnusable(TransportError):
    """The socket cannot be made or reached."""

    def __init__(self, path: Path, found: str) -> None:
        super().__init__(f"{path} cannot be used as the socket of the embedded log: {found}")
        self.path = path


def socket_path(log_path: Path) -> Path:
    """Return where the holder of a log listens."""
    return log_path.with_name(SOCKET_FILE)


def listen_at(path: Path) -> socket.socket:
    """Listen there, and replace a socket that a dead holder has left: the log's lock says that it is dead.

    It gets its mode before it gets its name: nobody else can connect in between. Raises SocketUnusable.
    """
    made = path.with_name(f"{path.name}.{os.getpid()}")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with suppress(FileNotFoundError):
            made.unlink()
        with _address(made) as address:
            listener.bind(address)
        made.chmod(PRIVATE_FILE)
        listener.listen(_BACKLOG)
        made.replace(path)
    except OSError as error:
        listener.close()
        with suppress(OSError):
            made.unlink()
        raise SocketUnusable(path, error.strerror or str(error)) from error
    return listener


def connect_to(path: Path) -> socket.socket | None:
    """Return a connection to the holder; None: nobody listens. Raises SocketUnusable."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _address(path) as address:
            connection.connect(address)
    except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError):
        connection.close()
        return None
    except OSError as error:
        connection.close()
        raise SocketUnusable(path, error.strerror or str(error)) from error
    return connection


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """Return a path that fits into an address. A longer one is reached through its folder's descriptor, on Linux."""
    whole = str(path)
    if len(os.fsencode(whole)) <= _MOST_BYTES:
        yield whole
        return
    if not Path("/proc/self/fd").is_dir():
        raise SocketUnusable(
            path,
            f"its path has {len(os.fsencode(whole))} bytes, and an address has room for {_MOST_BYTES}: choose a "
            "shorter data directory (--data-dir)",
        )
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
