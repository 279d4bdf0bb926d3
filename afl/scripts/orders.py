"""The orders of a pool to a zygote: five bytes each, so that no data of a script ever passes through it."""

from __future__ import annotations

import struct
from typing import Final

#: Fork a script's process. The two descriptors that come with the order are its pipes: one to read requests, one to
#: write replies. The answer is its process id, or a negative error number.
FORK: Final = b"F"
#: Kill the process and reap it. This order has no answer.
END: Final = b"E"
#: Wait briefly for a process that closed its pipe, kill it if it does not end, and reap it. The answer is its wait
#: status.
STATUS: Final = b"S"
#: Stop the process until it is woken, so that it uses no processor time and memory between two runs. The answer comes
#: when it has stopped.
REST: Final = b"R"
#: Let a stopped process continue. The answer comes when it does.
WAKE: Final = b"W"

_ORDER: Final = struct.Struct("!cI")
_ANSWER: Final = struct.Struct("!i")
ORDER_BYTES: Final = _ORDER.size
ANSWER_BYTES: Final = _ANSWER.size


def encode_order(kind: bytes, pid: int = 0) -> bytes:
    """Return the bytes of an order, with the process that it is about."""
    return _ORDER.pack(kind, pid)


def decode_order(order: bytes) -> tuple[bytes, int]:
    """Return the kind of an order, and the id of its process."""
    kind, pid = _ORDER.unpack(order)
    return kind, pid


def encode_answer(number: int) -> bytes:
    """Return the bytes of an answer."""
    return _ANSWER.pack(number)


def decode_answer(answer: bytes) -> int:
    """Return the number that an answer holds."""
    number: int = _ANSWER.unpack(answer)[0]
    return number
