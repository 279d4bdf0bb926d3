"""Sizes of values: each value is counted once, however often it is passed on or contained in others.

A text counts one byte for each character, or three if it is not all ASCII; a number, a Boolean or null in a list or map
eight; a list or map its content and two bytes for each entry, and a map also its keys and two more bytes. That is close
to the size of the value as JSON, without writing it. Numbers that are a whole attribute are not counted: their size is
bounded anyway.

The size of a large list or map is cached by the object, for the thread that works on it: values are never changed in
place. So a value that contains another costs only its own entries, and `[x, x]` of `[x, x]` of ..., which is small in
memory and huge as JSON, is measured without walking through it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from typing import Any, Final

from afl.engine import limits

_NUMBER_BYTES: Final = 8
_ENTRY_BYTES: Final = 2
#: The least size of a list's entry: that of an empty text.
LEAST_ENTRY_BYTES: Final = _ENTRY_BYTES

#: The approximate bytes of a character outside ASCII.
_WIDE_BYTES: Final = 3

#: The least size of a cached list or map, and the most that are cached: smaller ones are counted again as quickly.
_WORTH_REMEMBERING: Final = 1_024
_MOST_REMEMBERED: Final = 4_096

_PLAIN: Final = frozenset({int, float, bool, type(None)})


class TooDeep(Exception):
    """A value nests lists and maps deeper than MAX_VALUE_DEPTH, or contains itself."""


class _Counting(threading.local):
    """The state of one thread during evaluation."""

    def __init__(self) -> None:
        #: Size and height by identity. The object is kept, so that no other object gets its identity.
        self.known: dict[int, tuple[object, int, int]] = {}
        #: The largest value that this thread's current run may make.
        self.max_bytes = limits.MAX_VALUE_BYTES
        #: Entries that operators have read, since the thread began.
        self.entries_read = 0


#: The thread's own state. Before a thread evaluates a run, `RunBounds.begin` sets the run's limit here.
counting = _Counting()


def forget() -> None:
    """Clear the cache: this thread's work is committed, or given up."""
    if counting.known:
        counting.known = {}


def bytes_of(value: object) -> int:
    """Return a value's size. Raises TooDeep."""
    kind = type(value)
    if kind is str:
        return text_bytes(value)  # type: ignore[arg-type]  # a str
    if kind is list or kind is dict or kind is tuple:
        return _counted(value, limits.MAX_VALUE_DEPTH)[0]
    return _NUMBER_BYTES


def text_bytes(text: str) -> int:
    """Return the size of a text."""
    return len(text) if text.isascii() else _WIDE_BYTES * len(text)


def attribute_bytes(values: Mapping[str, object]) -> int:
    """Return the size of a step's attributes: of those that are texts, lists and maps. Raises TooDeep."""
    total = 0
    for value in values.values():
        kind = type(value)
        if kind in _PLAIN:
            continue
        if kind is str:
            total += len(value) if value.isascii() else _WIDE_BYTES * len(value)  # type: ignore[attr-defined,arg-type]
        elif kind is list or kind is dict or kind is tuple:
            total += _counted(value, limits.MAX_VALUE_DEPTH)[0]
    return total


def _counted(container: object, room: int) -> tuple[int, int]:
    """Return size and height of a list or map that may be `room` levels high."""
    known = counting.known.get(id(container))
    if known is not None and known[0] is container:
        if known[2] > room:
            raise TooDeep
        return known[1], known[2]
    if not room:
        raise TooDeep
    parts: Collection[Any]
    if isinstance(container, dict):
        parts = container.values()
        total = 2 + 2 * _ENTRY_BYTES * len(parts) + sum(len(str(key)) for key in container)
    else:
        parts = container  # type: ignore[assignment]  # a list
        total = 2 + _ENTRY_BYTES * len(parts)
    height = 0
    kinds = set(map(type, parts))
    if kinds <= _PLAIN:
        total += _NUMBER_BYTES * len(parts)
    else:
        for part in parts:
            kind = type(part)
            if kind is str:
                total += len(part) if part.isascii() else _WIDE_BYTES * len(part)
            elif kind is list or kind is dict or kind is tuple:
                inner, levels = _counted(part, room - 1)
                total += inner
                if levels > height:
                    height = levels
            else:
                total += _NUMBER_BYTES
    height += 1
    if total >= _WORTH_REMEMBERING:
        if len(counting.known) >= _MOST_REMEMBERED:
            counting.known.clear()
        counting.known[id(container)] = (container, total, height)
    return total, height
