"""Headers of a record in a store's row: short bytes in place of JSON.

A byte for the form, then for each header the length of its name, the name in UTF-8, the length of its value and one,
and the value; 0 stands for a value that is null. Lengths are varints: seven bits a byte, the lowest first, and the
eighth bit says that more follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias, cast

from afl.stores.documents import decode_value
from afl.stores.stored_text import text_of

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]

#: The first byte. Rows of earlier formats hold JSON, which begins with "[".
_SHORT: Final = b"\x01"
#: Names that were encoded before, with their lengths: all records of a deployment have the same few.
_NAMED: Final[dict[str, bytes]] = {}
_MOST_NAMES: Final = 256


def encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """Return headers in their short form."""
    parts = [_SHORT]
    for name, value in headers:
        size = 0 if value is None else len(value) + 1
        parts += (
            _NAMED.get(name) or _named(name),
            _LENGTHS[size] if size < len(_LENGTHS) else _length(size),
            value or b"",
        )
    return b"".join(parts)


def decode_headers(content: bytes | None) -> Headers:
    """Return the headers of a row, in this form or in that of an earlier format; None stands for none.

    Raises ValueError or IndexError for bytes that are neither.
    """
    if content is None:
        return ()
    if content[:1] != _SHORT:
        listed = cast("list[tuple[str, str | None]]", decode_value(content))
        return tuple((name, None if value is None else value.encode("latin-1")) for name, value in listed)
    found: list[tuple[str, bytes | None]] = []
    at, end = 1, len(content)
    while at < end:
        length, at = _read_length(content, at)
        name, at = content[at : at + length], at + length
        length, at = _read_length(content, at)
        if not length:
            value = None
        else:
            value, at = content[at : at + length - 1], at + length - 1
        if at > end:
            raise ValueError(f"headers end after {end} bytes, {at - end} too early")
        found.append((text_of(name), value))
    return tuple(found)


def encode_outbox_headers(headers: Headers | bytes) -> bytes | None:
    """Return the headers of an outbox row: bytes are a form of the writer's own, which is stored as it is."""
    if headers.__class__ is bytes:
        return headers
    return encode_headers(headers) if headers else None  # type: ignore[arg-type]  # no bytes here


def decode_outbox_headers(content: bytes | None) -> Headers | bytes:
    """Return the headers of an outbox row as they were given. Raises ValueError or IndexError for spoilt bytes."""
    if content is None or content[:1] in (_SHORT, b"["):
        return decode_headers(content)
    return content


def _named(name: str) -> bytes:
    coded = name.encode(errors="surrogatepass")
    with_length = _length(len(coded)) + coded
    if len(_NAMED) < _MOST_NAMES:
        _NAMED[name] = with_length
    return with_length


def _length(number: int) -> bytes:
    coded = bytearray()
    while number > 127:
        coded.append(number & 127 | 128)
        number >>= 7
    coded.append(number)
    return bytes(coded)


def _read_length(content: bytes, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = content[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7


#: Lengths up to that of a structured header with long ids.
_LENGTHS: Final = tuple(_length(number) for number in range(1_024))
