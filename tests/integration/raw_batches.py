"""Record batches made byte by byte, for records that no client library writes: header names that are no UTF-8, times
out of any range, batches compressed or transactional by hand.
"""

import socket
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

_PRODUCE = 0
_METADATA_OF_LEADER_VERSION = 7
#: CRC-32C, the checksum of a batch.
_CASTAGNOLI = 0x82F63B78


@dataclass(frozen=True, kw_only=True)
class RawRecord:
    """One record of a batch. None is Kafka's null; a header name is any bytes."""

    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[bytes, bytes | None]] = ()


def produce_raw(
    bootstrap: str, topic: str, records: Sequence[RawRecord], *, timestamp_ms: int = 0, gzip: bool = False
) -> int:
    """Append one batch to partition 0 and return the offset of its first record. Raises AssertionError when the broker
    refuses it.
    """
    batch = record_batch(records, timestamp_ms=timestamp_ms, gzip=gzip)
    name = topic.encode()
    body = struct.pack(">hhih", -1, -1, 30_000, 0)[:2] + struct.pack(">hi", -1, 30_000)
    body += struct.pack(">i", 1) + _string(name) + struct.pack(">ii", 1, 0) + struct.pack(">i", len(batch)) + batch
    header = struct.pack(">hhi", _PRODUCE, _METADATA_OF_LEADER_VERSION, 1) + _string(b"raw-batches")
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(struct.pack(">i", len(header + body)) + header + body)
        answer = _exactly(connection, struct.unpack(">i", _exactly(connection, 4))[0])
    # Correlation id, one topic, its name, one partition: number, error, offset of the first record.
    at = 4 + 4 + 2 + len(name) + 4 + 4
    error, offset = struct.unpack_from(">hq", answer, at)
    assert error == 0, f"the broker refused the batch for {topic}: error {error}"
    return int(offset)


def record_batch(records: Sequence[RawRecord], *, timestamp_ms: int = 0, gzip: bool = False) -> bytes:
    """Return a batch of format 2 whose records all have this time."""
    coded = b"".join(_record(number, record) for number, record in enumerate(records))
    if gzip:
        packer = zlib.compressobj(wbits=31)
        coded = packer.compress(coded) + packer.flush()
    count = len(records)
    checked = struct.pack(">hiqqqhii", int(gzip), count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count) + coded
    return struct.pack(">qiibI", 0, 4 + 1 + 4 + len(checked), -1, 2, _crc32c(checked)) + checked


def _record(number: int, record: RawRecord) -> bytes:
    body = b"\0" + _varint(0) + _varint(number) + _bytes(record.key) + _bytes(record.value)
    body += _varint(len(record.headers)) + b"".join(_bytes(name) + _bytes(value) for name, value in record.headers)
    return _varint(len(body)) + body


def _bytes(value: bytes | None) -> bytes:
    return _varint(-1) if value is None else _varint(len(value)) + value


def _varint(number: int) -> bytes:
    coded, out = (number << 1) ^ (number >> 63), bytearray()
    while coded > 127:
        out.append(coded & 127 | 128)
        coded >>= 7
    out.append(coded)
    return bytes(out)


def _string(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_CASTAGNOLI if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        piece = connection.recv(size - len(received))
        assert piece, "the broker closed the connection"
        received += piece
    return received
