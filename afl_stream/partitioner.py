"""The partition of a key: murmur2, as Kafka's Java clients and librdkafka's `murmur2_random` compute it."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_MASK: Final = 0xFFFFFFFF
_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995


def murmur2(key: bytes) -> int:
    """Return Kafka's murmur2 hash of the bytes as a signed number of 32 bits."""
    size = len(key)
    h = _SEED ^ size
    whole = size & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    if size > whole:
        h = (h ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    h ^= h >> 15
    return h - 2**32 if h >= 2**31 else h


#: The hashes of keys that come again and again: computing one takes as long as the rest of what is done to a record.
_hash_of: Final = lru_cache(maxsize=10_000)(murmur2)


def partition_for(key: bytes, partitions: int) -> int:
    """Return the partition of a key among this many.

    A record without a key has no fixed partition; its producer chooses one, usually in turn.
    """
    # The sign bit is cleared, not negated, as Java's toPositive does.
    return (_hash_of(key) & 0x7FFFFFFF) % partitions
