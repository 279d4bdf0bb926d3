"""What is given to a Double: an integer that no Double holds exactly fails the step that it is given to, by name.

Agents in other languages would see another number. Whether an expression can give an integer at all is asked when the
program is planned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from afl.core.values import Refused, refuse_inexact, segment
from afl.runtime.expression import gives_exact_double, gives_number
from afl.runtime.types import Value

F = TypeVar("F")

DOUBLE: Final = "Double"
#: Up to here a Double holds every integer.
_EXACT: Final = 2**53


def exact_arguments(
    given: Iterable[tuple[str, Callable[[F], Value]]], types: Mapping[str, object]
) -> tuple[tuple[str, Callable[[F], Value]], ...]:
    """Return named expressions, those of Doubles with the check that they need."""
    return tuple((name, exact(value, name, types.get(name))) for name, value in given)


def exact(value: Callable[[F], Value], name: str, declared: object) -> Callable[[F], Value]:
    """Return an expression; that of a Double raises ValueRefused for an integer that no Double holds exactly."""
    if declared != DOUBLE or gives_exact_double(value):
        return value

    def checked(frame: F) -> Value:
        found = value(frame)
        if type(found) is int and not -_EXACT <= found <= _EXACT:
            _refuse(found, name, "")
        return found

    if gives_number(value):
        checked.gives_number = True  # type: ignore[attr-defined]  # as expressions say it
    return checked


def refuse_inexact_doubles(values: Mapping[str, Value], types: Mapping[str, object], path: str) -> None:
    """Raise ValueRefused for an integer that the Double of its name does not hold."""
    for name, value in values.items():
        if type(value) is int and not -_EXACT <= value <= _EXACT and types.get(name) == DOUBLE:
            _refuse(value, name, path)


def _refuse(value: int, name: str, path: str) -> None:
    try:
        refuse_inexact(value)
    except Refused as refused:
        raise (refused.inside(segment(name)).at(path) if path else refused.at(name)) from None
