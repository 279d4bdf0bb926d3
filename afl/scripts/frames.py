"""Messages over pipes: a length of four bytes, then the bytes. Every wait has a deadline."""

from __future__ import annotations

import os
import select
import struct
import time

_LENGTH = struct.Struct(">I")
_CHUNK_BYTES = 256 * 1024
#: The longest single `poll`: its time-out is a C int of milliseconds.
_LONGEST_POLL_S = 3600.0


class FramesEnded(Exception):
    """The other side closed its pipe, or ended."""


class FrameTooLarge(Exception):
    """The other side sends more than was agreed."""


class FrameDeadline(Exception):
    """The other side did not answer in time."""


def encode_frame(body: bytes) -> bytes:
    """Return the body with its length in front."""
    return _LENGTH.pack(len(body)) + body


def read_frame(descriptor: int) -> bytes:
    """Read one message from a blocking pipe. Raises FramesEnded."""
    (length,) = _LENGTH.unpack(_read_exactly(descriptor, _LENGTH.size))
    return _read_exactly(descriptor, length)


def _read_exactly(descriptor: int, count: int) -> bytes:
    parts = []
    while count:
        part = os.read(descriptor, min(count, _CHUNK_BYTES))
        if not part:
            raise FramesEnded
        parts.append(part)
        count -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def write_all(descriptor: int, message: bytes) -> None:
    """Write a whole message to a blocking pipe."""
    view = memoryview(message)
    while view:
        view = view[os.write(descriptor, view) :]


class FrameReader:
    """Reader that assembles the one expected message."""

    def __init__(self, max_bytes: int) -> None:
        self._buffer = bytearray()
        self._max_bytes = max_bytes

    def feed(self, arrived: bytes) -> None:
        self._buffer += arrived

    def take(self) -> bytes | None:
        """Return the expected message, None while it is incomplete. Raises FrameTooLarge for more bytes."""
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        end = _LENGTH.size + length
        if length > self._max_bytes or len(self._buffer) > end:
            raise FrameTooLarge
        return bytes(memoryview(self._buffer)[_LENGTH.size :]) if len(self._buffer) == end else None


def exchange(request: bytes, *, to_descriptor: int, from_descriptor: int, deadline_s: float, max_bytes: int) -> bytes:
    """Send a request and return its reply, whatever the other side does.

    Both descriptors must be non-blocking. `deadline_s` is a reading of `time.monotonic()`. Raises FramesEnded,
    FrameTooLarge, FrameDeadline.
    """
    poller = select.poll()
    poller.register(from_descriptor, select.POLLIN)
    reader = FrameReader(max_bytes)
    unsent = memoryview(request)
    unsent = unsent[_write_some(to_descriptor, unsent) :]
    if unsent:
        poller.register(to_descriptor, select.POLLOUT)
    while True:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise FrameDeadline
        for descriptor, _ in poller.poll(min(left_s, _LONGEST_POLL_S) * 1000):
            if descriptor == from_descriptor:
                arrived = os.read(from_descriptor, _CHUNK_BYTES)
                if not arrived:
                    raise FramesEnded
                reader.feed(arrived)
                frame = reader.take()
                if frame is not None:
                    return frame
            else:
                unsent = unsent[_write_some(to_descriptor, unsent) :]
                if not unsent:
                    poller.unregister(to_descriptor)


def _write_some(descriptor: int, message: memoryview) -> int:
    """Write some of a message, and return how many bytes went.

    A closed pipe counts as having taken all: reading then reports it.
    """
    try:
        return os.write(descriptor, message)
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(message)
