"""Messages over pipes: a length of four bytes, then the bytes; whoever waits has a deadline."""

from __future__ import annotations

import os
import select
import struct
import time

_LENGTH = struct.Struct(">I")
_CHUNK_BYTES = 256 * 1024
#: `poll` is asked again after this long at most: its time-out is a C int of milliseconds.
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
    """Takes messages out of what arrives, and remembers what is left over."""

    def __init__(self, max_bytes: int) -> None:
        self._buffer = bytearray()
        self._max_bytes = max_bytes

    def feed(self, arrived: bytes) -> None:
        self._buffer += arrived

    def take(self) -> bytes | None:
        """Return the next whole message, None while there is none. Raises FrameTooLarge."""
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > self._max_bytes:
            raise FrameTooLarge
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        frame = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        return frame


def exchange(
    request: bytes,
    *,
    to_descriptor: int,
    from_descriptor: int,
    replies: int,
    deadline_s: float,
    max_bytes: int,
    watched_descriptor: int | None = None,
) -> list[bytes]:
    """Send a request and read its replies, whatever the other side does.

    Both descriptors must not block. `deadline_s` is a reading of `time.monotonic()`. When the other end of
    `watched_descriptor` closes, there is no one left to answer.
    Raises FramesEnded, FrameTooLarge, FrameDeadline.
    """
    poller = select.poll()
    poller.register(from_descriptor, select.POLLIN)
    if watched_descriptor is not None:
        poller.register(watched_descriptor, 0)
    reader, frames = FrameReader(max_bytes), list[bytes]()
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
                while (frame := reader.take()) is not None:
                    frames.append(frame)
                    if len(frames) == replies:
                        return frames
            elif descriptor == to_descriptor:
                unsent = unsent[_write_some(to_descriptor, unsent) :]
                if not unsent:
                    poller.unregister(to_descriptor)
            else:
                raise FramesEnded


def _write_some(descriptor: int, message: memoryview) -> int:
    """How much of the message was taken; all of it when no one will ever read, which reading then shows."""
    try:
        return os.write(descriptor, message)
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(message)
