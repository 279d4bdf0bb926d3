"""The check of integers that are given to Doubles: one that a Double cannot hold exactly fails its step, by name.

Agents in other languages would see another number. Whether a type holds a Double, in arrays and schemas too, and
whether an expression can give an integer at all, is decided when the program is planned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from afl.core.limits import EXACT_IN_DOUBLE
from afl.core.values import Refused, segment
from afl.engine.expressions.expression import gives_exact_double, gives_number
from afl.engine.types import Value
from afl.engine.values.declared import Look, look_at_double

F = TypeVar("F")


def exact_arguments(
    given: Iterable[tuple[str, Callable[[F], Value]]], looks: Mapping[str, Look]
) -> tuple[tuple[str, Callable[[F], Value]], ...]:
    """Return named expressions; those of types that hold Doubles get the check."""
    return tuple((name, exact(value, name, looks.get(name))) for name, value in given)


def exact(value: Callable[[F], Value], name: str, look: Look | None) -> Callable[[F], Value]:
    """Return an expression; for a type with a Double it raises ValueRefused for an integer inexact as a Double."""
    if look is None:
        return value
    if look is not look_at_double:
        return value if gives_number(value) else _looked_into(value, name, look)
    if gives_exact_double(value):
        return value

    def checked(frame: F) -> Value:
        found = value(frame)
        if type(found) is int and not -EXACT_IN_DOUBLE <= found <= EXACT_IN_DOUBLE:
            _look(look_at_double, found, name, "")
        return found

    if gives_number(value):
        checked.gives_number = True  # type: ignore[attr-defined]  # as expressions say it
    return checked


def refuse_inexact_doubles(values: Mapping[str, Value], looks: Mapping[str, Look], path: str) -> None:
    """Raise ValueRefused for an integer that a Double in its place cannot hold."""
    for name, look in looks.items():
        if name in values:
            _look(look, values[name], name, path)


def _looked_into(value: Callable[[F], Value], name: str, look: Look) -> Callable[[F], Value]:
    def checked(frame: F) -> Value:
        found = value(frame)
        kind = type(found)
        if kind is list or kind is dict:
            _look(look, found, name, "")
        return found

    return checked


def _look(look: Look, value: Value, name: str, path: str) -> None:
    try:
        look(value)
    except Refused as refused:
        raise (refused.inside(segment(name)).at(path) if path else refused.at(name)) from None
