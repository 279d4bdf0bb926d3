"""Frames between a holder and its guests: a head in JSON, and the bytes that it tells the lengths of.

4 bytes: length of the head, big-endian
4 bytes: length of the body
head: one JSON object, in UTF-8
body: keys, values and headers of records, one behind the other
"""

from __future__ import annotations

import json
import select
import socket
import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from afl_stream.transport import TransportError

#: The protocol that this release speaks. Both sides must speak the same one: they are one installation.
PROTOCOL: Final = 1

#: Most bytes of a request's head and body. An answer may be larger: it is as large as what was asked for.
MAX_HEAD_BYTES: Final = 4 * 1024 * 1024
MAX_BODY_BYTES: Final = 64 * 1024 * 1024

_LENGTHS: Final = struct.Struct(">II")


class Frame(NamedTuple):
    """One message: its head, and the bytes behind it."""

    head: dict[str, Any]
    body: bytes = b""


class BadFrame(TransportError):
    """A peer sent bytes that are no frame, or a frame that no request looks like. It ends its connection alone."""


class PeerGone(TransportError):
    """The other end of a connection has closed it, or died."""


def write_frame(connection: socket.socket, head: Mapping[str, Any], body: bytes = b"") -> None:
    """Send a frame. Raises PeerGone, and TimeoutError when the peer takes nothing."""
    encoded = json.dumps(head, separators=(",", ":")).encode()
    try:
        connection.sendall(_LENGTHS.pack(len(encoded), len(body)) + encoded + body)
    except TimeoutError:
        raise
    except OSError as error:
        raise PeerGone(f"the connection is closed: {error.strerror or error}") from error


def read_frame(connection: socket.socket, *, is_bounded: bool) -> Frame:
    """Receive a frame. Raises PeerGone, BadFrame, and TimeoutError when nothing comes.

    `is_bounded`: refuse what is longer than a request may be, before any of it is read.
    """
    head_bytes, body_bytes = _LENGTHS.unpack(_read(connection, _LENGTHS.size))
    if is_bounded and (head_bytes > MAX_HEAD_BYTES or body_bytes > MAX_BODY_BYTES):
        raise BadFrame(
            f"a request of {head_bytes:,} + {body_bytes:,} bytes is refused: at most {MAX_HEAD_BYTES:,} bytes of JSON, "
            f"and {MAX_BODY_BYTES:,} bytes of records behind it"
        )
    encoded = _read(connection, head_bytes)
    try:
        head = json.loads(encoded)
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"a frame's head is not JSON: {error}") from error
    if not isinstance(head, dict):
        raise BadFrame(f"a frame's head is a JSON object, found {type(head).__name__}")
    return Frame(head, _read(connection, body_bytes) if body_bytes else b"")


def has_closed(connection: socket.socket) -> bool:
    """Return whether the peer has closed a connection on which nothing is due."""
    try:
        due = select.poll()
        due.register(connection, select.POLLIN)
        # Asked first: a connection with a timeout would wait for it, whatever the flags of recv.
        return bool(due.poll(0)) and connection.recv(1, socket.MSG_PEEK) == b""
    except (OSError, ValueError):
        return True


def _read(connection: socket.socket, count: int) -> bytes:
    """Return exactly so many bytes."""
    found = bytearray()
    while len(found) < count:
        try:
            part = connection.recv(min(count - len(found), 1 << 20))
        except TimeoutError:
            raise
        except OSError as error:
            raise PeerGone(f"the connection is closed: {error.strerror or error}") from error
        if not part:
            raise PeerGone("the connection is closed")
        found += part
    return bytes(found)
