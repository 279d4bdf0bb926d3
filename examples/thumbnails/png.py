"""PNG images of 8 bits a channel: read, shrunk and written, with zlib and struct alone."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
#: Bytes of a pixel by colour type: grey, RGB, grey with alpha, RGBA.
_CHANNELS: Final = {0: 1, 2: 3, 4: 2, 6: 4}


class NotReadable(ValueError):
    """A file is no PNG image, or one of a kind that is not read here."""


class Image(NamedTuple):
    """Rows of pixels, `channels` bytes each."""

    width: int
    height: int
    channels: int
    rows: Sequence[bytes]


def read(data: bytes) -> Image:
    """Return the image of a PNG file. Raises NotReadable."""
    if not data.startswith(_SIGNATURE):
        raise NotReadable("it does not begin as PNG files do")
    chunks = list(_chunks(data))
    if not chunks or chunks[0][0] != b"IHDR":
        raise NotReadable("it has no header")
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    if depth != 8 or colour not in _CHANNELS or interlaced:
        raise NotReadable(f"depth {depth}, colour type {colour}, interlaced {interlaced} is of no kind that is read")
    try:
        raw = zlib.decompress(b"".join(body for kind, body in chunks if kind == b"IDAT"))
    except zlib.error as error:
        raise NotReadable(f"its pixels cannot be unpacked: {error}") from None
    channels = _CHANNELS[colour]
    if len(raw) != height * (1 + width * channels):
        raise NotReadable(f"it holds {len(raw)} bytes of pixels, not {height * (1 + width * channels)}")
    return Image(width, height, channels, _unfiltered(raw, width * channels, channels))


def shrunk(image: Image, width: int) -> Image:
    """Return an image that is no wider: each pixel is the average of those that it stands for."""
    if image.width <= width:
        return image
    height = max(1, image.height * width // image.width)
    across, down = _spans(image.width, width), _spans(image.height, height)
    rows = [
        bytes(_average(image, rows, columns, channel) for columns in across for channel in range(image.channels))
        for rows in down
    ]
    return Image(width, height, image.channels, rows)


def _spans(length: int, parts: int) -> list[range]:
    """Return the pixels of a line that each of so many parts stands for."""
    return [range(length * part // parts, length * (part + 1) // parts) for part in range(parts)]


def _average(image: Image, rows: range, columns: range, channel: int) -> int:
    start, end, step = columns.start * image.channels + channel, columns.stop * image.channels, image.channels
    total = sum(sum(image.rows[row][start:end:step]) for row in rows)
    return round(total / (len(rows) * len(columns)))


def written(image: Image) -> bytes:
    """Return the PNG file of an image."""
    colour = next(colour for colour, channels in _CHANNELS.items() if channels == image.channels)
    header = struct.pack(">IIBBBBB", image.width, image.height, 8, colour, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in image.rows), 9)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGNATURE)
    while at < len(data):
        if at + 12 > len(data):
            raise NotReadable("it ends within a chunk")
        (length,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        if data[at + 8 + length : at + 12 + length] != struct.pack(">I", zlib.crc32(kind + body)):
            raise NotReadable(f"its chunk {kind.decode('ascii', 'replace')} is damaged")
        yield kind, body
        at += 12 + length


def _unfiltered(raw: bytes, stride: int, channels: int) -> list[bytes]:
    rows: list[bytes] = []
    above = bytes(stride)
    for start in range(0, len(raw), stride + 1):
        kind, row = raw[start], bytearray(raw[start + 1 : start + 1 + stride])
        for i in range(stride):
            left, up = (row[i - channels] if i >= channels else 0), above[i]
            corner = above[i - channels] if i >= channels else 0
            row[i] = (row[i] + _predicted(kind, left, up, corner)) & 0xFF
        above = bytes(row)
        rows.append(above)
    return rows


def _predicted(kind: int, left: int, up: int, corner: int) -> int:
    """Return what a filter of PNG says a byte would be: none, left, up, their average, or the nearest of three."""
    if kind == 4:
        estimate = left + up - corner
        return min((left, up, corner), key=lambda one: abs(estimate - one))
    if kind > 4:
        raise NotReadable(f"a row has the filter {kind}, which there is not")
    return (0, left, up, (left + up) // 2)[kind]
