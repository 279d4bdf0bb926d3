"""A cache of programs that callers give as mappings: a known one is not parsed and fingerprinted again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from afl.compiled.program import CompiledProgram, Node

#: The most mappings in the cache. They are held, with a copy of each: a caller repeats only few programs.
_KNOWN: Final = 16


class KnownPrograms:
    """The last programs that were given, by the identity of their mappings. Thread-safe.

    The cache holds the mappings, so that none can be confused with another at the same address. A caller may change a
    mapping: one that is given a second time is copied, and each time after that it is compared with its copy, which
    costs at most a tenth of serialising it. A changed one is parsed again.
    """

    def __init__(self, most: int = _KNOWN) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[object, ...], _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def of(self, tree: Node) -> CompiledProgram:
        """Return the program of a mapping. Raises ProgramError as its constructor."""
        return self.made_of((tree,), lambda: CompiledProgram(tree))

    def made_of(self, given: tuple[Node, ...], make: Callable[[], CompiledProgram], kind: str = "") -> CompiledProgram:
        """Return the program that `make` makes of these mappings; `kind` distinguishes several ways of making one."""
        key = (kind, *map(id, given))
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
        if entry is not None and entry.is_unchanged():
            return entry.program
        # Before the program is made: a change in between is then noticed the next time.
        copy = None if entry is None else _copy_of(given)
        made = _Entry(given, make(), copy)
        if copy is not None:
            # Immediately: otherwise a change before the first use would be included.
            _ = made.program.fingerprint
        with self._lock:
            self._entries[key] = made
            self._entries.move_to_end(key)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)
        return made.program


@dataclass(slots=True, eq=False)
class _Entry:
    given: tuple[Node, ...]
    program: CompiledProgram
    #: The given mappings at that time; None: given once only, or with values that JSON lacks.
    copy: tuple[Any, ...] | None = None

    def is_unchanged(self) -> bool:
        try:
            return self.copy is not None and self.copy == self.given
        except RecursionError:
            return False


class _Number:
    """A number in a copy: equal only to the same number of the same type, whereas in Python `1 == 1.0 == True`."""

    __slots__ = ("_value",)

    def __init__(self, value: float) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return other.__class__ is self._value.__class__ and other == self._value


class _Double(_Number):
    """A float in a copy: its two zeros are equal in Python too."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other.__class__ is float and repr(other) == repr(self._value)


class _NotCopied(Exception):
    """A part of a mapping is not JSON."""


def _copy_of(given: tuple[Node, ...]) -> tuple[Any, ...] | None:
    try:
        return tuple(map(_copied, given))
    except (_NotCopied, RecursionError):
        return None


def _copied(value: object) -> object:
    kind = value.__class__
    if kind is str or value is None:
        return value
    if kind is dict:
        # Source places are many, and only numbers: they are compared as Python compares numbers.
        return {
            key: dict(child) if key == "location" and _is_flat(child) else _copied(child)
            for key, child in value.items()  # type: ignore[attr-defined]  # it is a dict
        }
    if kind is list or kind is tuple:
        return kind(map(_copied, value))  # type: ignore[call-overload]  # it is a list or a tuple
    if kind is float:
        return _Double(value)  # type: ignore[arg-type]  # it is a float
    if kind is int or kind is bool:
        return _Number(value)  # type: ignore[arg-type]  # it is a number
    raise _NotCopied


def _is_flat(place: object) -> bool:
    return place.__class__ is dict and all(part.__class__ is int for part in place.values())


#: The cache of this process.
KNOWN_PROGRAMS: Final = KnownPrograms()
