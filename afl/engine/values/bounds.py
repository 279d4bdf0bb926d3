"""The limits on size and depth of values: measured without recursion, and in detail only near a limit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from afl.core.values import segment, too_deep
from afl.engine import limits
from afl.engine.errors import PayloadTooLarge, ValueTooDeep, ValueTooLarge
from afl.engine.values.sizes import TooDeep, attribute_bytes, bytes_of

#: The most bytes in JSON of a character, and of the longest number that is not a long integer.
_CHARACTER_BYTES: Final = 6
_NUMBER_BYTES: Final = 25


#: The digits of the longest integer that an expression may make.
_INTEGER_BYTES: Final = 1_300
#: The number of values in a payload up to which they need not be measured one by one.
SMALL_PAYLOAD_VALUES: Final = 64


def check_payload(what: str, values: Mapping[str, object], limit: int) -> int:
    """Raise ValueTooDeep, or PayloadTooLarge for values that take more than `limit` bytes as JSON in UTF-8.

    Returns their size where it is near the limit; 0 where it is not.
    """
    # Most payloads are some numbers and short texts: for those this loop is enough.
    characters, is_flat = 0, True
    for name, value in values.items():
        kind = type(value)
        characters += len(name)
        if kind is str:
            characters += len(value)  # type: ignore[arg-type]  # a str
        elif kind is list or kind is dict:
            is_flat = False
    near = limits.near(limit)
    if is_flat and characters * _CHARACTER_BYTES + len(values) * _INTEGER_BYTES <= near:
        return 0
    if not is_flat:
        check_depth(what, values)
    return _measured(what, values, limit, near)


def check_depth(what: str, values: Mapping[str, object]) -> None:
    """Raise ValueTooDeep where one of the values nests deeper than values may. A scalar has depth 0."""
    for name, value in values.items():
        kind = type(value)
        if (kind is dict or kind is list) and is_too_deep(value):
            raise ValueTooDeep(f"{name} in {what}", limits.MAX_VALUE_DEPTH)


def is_too_deep(value: object) -> bool:
    """Say whether lists and maps nest in more than MAX_VALUE_DEPTH levels, including the outermost."""
    try:
        bytes_of(value)
    except TooDeep:
        return True
    return False


def check_given(what: str, values: Mapping[str, object], limit: int, path: str) -> int:
    """Return the size of values from outside.

    Raises ValueRefused for one that nests too deep, or contains itself, and ValueTooLarge: before any other code walks
    through them or copies them.
    """
    try:
        size = attribute_bytes(values)
    except TooDeep:
        name, value = next((name, value) for name, value in values.items() if is_too_deep(value))
        raise too_deep(value).inside(segment(name)).at(path) from None
    if size > limit:
        raise ValueTooLarge(what, size, limit)
    return size


def small_payload_bytes(limit: int) -> int:
    """Return the size, names included, up to which SMALL_PAYLOAD_VALUES values are certainly below `limit` as JSON.

    Sizes are those of values/sizes.py, which counts eight bytes for a number inside of a list or map.
    """
    return (limits.near(limit) - SMALL_PAYLOAD_VALUES * _INTEGER_BYTES) // (_INTEGER_BYTES // 8 + 1)


def _measured(what: str, values: Mapping[str, object], limit: int, near: int) -> int:
    if _at_most(values, near) <= near:
        return 0
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"), default=str)
    found = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if found > limit:
        raise PayloadTooLarge(what, found, limit)
    return found if found > near else 0


def _at_most(values: Mapping[str, object], enough: int) -> int:
    """Return an upper bound of the bytes of values that is cheaper to compute; counting stops when it is exceeded."""
    total, pending = 2, [values]
    while pending and total <= enough:
        current: object = pending.pop()
        if isinstance(current, Mapping):
            total += sum(map(len, current)) * _CHARACTER_BYTES + 4 * len(current)
            current = current.values()
        else:
            total += len(current)  # type: ignore[arg-type]  # a list
        for value in current:  # type: ignore[attr-defined]  # a list, or a map's values
            kind = type(value)
            if kind is str:
                total += len(value) * _CHARACTER_BYTES + 2
            elif kind is dict or kind is list:
                total += 2
                pending.append(value)
            elif kind is int:
                total += _NUMBER_BYTES + value.bit_length() // 3
            else:
                total += _NUMBER_BYTES
    return total
