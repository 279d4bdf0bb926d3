"""Programs that callers give as mappings, known again: what was read and fingerprinted once is not read each time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from afl.compiled.program import CompiledProgram, Node

#: Mappings that are known at a time. They are held, with a copy of each: a caller has few programs that it gives again.
_KNOWN: Final = 16


class KnownPrograms:
    """The programs that were given last, by the identity of the mappings that they were made of. Thread-safe.

    The mappings are held here, so that none of them is taken for another that came to its place in memory. A caller may
    change what it has given: one that is given a second time is copied, and each time after that it is compared with
    its copy, which costs a tenth of serialising it or less. One that was changed is read anew.
    """

    def __init__(self, most: int = _KNOWN) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[object, ...], _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def of(self, tree: Node) -> CompiledProgram:
        """The program of a mapping. Raises ProgramError as its constructor."""
        return self.made_of((tree,), lambda: CompiledProgram(tree))

    def made_of(self, given: tuple[Node, ...], make: Callable[[], CompiledProgram], kind: str = "") -> CompiledProgram:
        """The program that `make` makes of these mappings; `kind` tells several ways of making one apart."""
        key = (kind, *map(id, given))
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
        if entry is not None and entry.is_unchanged():
            return entry.program
        # Before the program is made: a change in between is then found the next time.
        copy = None if entry is None else _copy_of(given)
        made = _Entry(given, make(), copy)
        if copy is not None:
            # At once, or a change that comes before it is asked for would be in it.
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
    #: What was given, as it was; None: given once only, or of values that no JSON has.
    copy: tuple[Any, ...] | None = None

    def is_unchanged(self) -> bool:
        try:
            return self.copy is not None and self.copy == self.given
        except RecursionError:
            return False


class _Number:
    """A number in a copy: equal to the same number of the same type only, where `1 == 1.0 == True` for Python."""

    __slots__ = ("_value",)

    def __init__(self, value: float) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return other.__class__ is self._value.__class__ and other == self._value


class _Double(_Number):
    """The same for a float, whose two zeros are equal for Python, too."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other.__class__ is float and repr(other) == repr(self._value)


class _NotCopied(Exception):
    """Something in a mapping is no JSON."""


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
        # Places are many, and numbers alone: they are compared as Python compares numbers.
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


#: Those of this process.
KNOWN_PROGRAMS: Final = KnownPrograms()
