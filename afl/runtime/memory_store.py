"""The store in memory: the reference of what every store does, for tests and for runs that need not outlive them."""

from afl.stores.memory.store import (
    MemoryStore,
)

__all__ = [
    "MemoryStore",
]
