"""What a pool orders a zygote to do: five bytes each, so that nothing of a script ever passes through it."""

from __future__ import annotations

import struct
from typing import Final

#: Fork a script's process. The two descriptors that come along are its pipes: where it reads requests, and where it
#: writes replies. The answer is its process id, or a negative error number.
FORK: Final = b"F"
#: Kill the process and reap it. There is no answer.
END: Final = b"E"
#: Wait a moment for a process that closed its pipe, kill it where it does not end, reap it. The answer is its wait
#: status.
STATUS: Final = b"S"
#: Stop the process until it is woken, so that it computes and allocates nothing between two runs. The answer comes when
#: it stands still.
REST: Final = b"R"
#: Let a stopped process go on. The answer comes when it does.
WAKE: Final = b"W"

_ORDER: Final = struct.Struct("!cI")
_ANSWER: Final = struct.Struct("!i")
ORDER_BYTES: Final = _ORDER.size
ANSWER_BYTES: Final = _ANSWER.size


def encode_order(kind: bytes, pid: int = 0) -> bytes:
    return _ORDER.pack(kind, pid)


def decode_order(order: bytes) -> tuple[bytes, int]:
    kind, pid = _ORDER.unpack(order)
    return kind, pid


def encode_answer(number: int) -> bytes:
    return _ANSWER.pack(number)


def decode_answer(answer: bytes) -> int:
    number: int = _ANSWER.unpack(answer)[0]
    return number
