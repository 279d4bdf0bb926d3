"""What is wrong with a parameter of a request."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Any, TypeVar

from afl.core.values import describe_value
from afl_stream.errors import StreamError

Choice = TypeVar("Choice", bound=StrEnum)


class BadParameter(StreamError):
    """A parameter of a request has no meaning; the message names it."""

    def __init__(self, name: str, found: object, expected: str, *, shown: str = "") -> None:
        """`found` is the value, None where it is missing or null; `shown` tells it where the value says too little."""
        super().__init__(f"{name}: found {shown or _shown(found)}, expected {expected}")
        self.name = name


def unknown_parameter(name: str, known: Collection[str]) -> BadParameter:
    """Return the error of a parameter that an operation does not take."""
    expected = f"one of {', '.join(sorted(known))}" if known else "none"
    return BadParameter(name[:100], None, expected, shown="an unknown parameter")


def _shown(found: object) -> str:
    if found is None:
        return "nothing"
    return repr(found[:100]) if isinstance(found, str) else describe_value(found)


def one_of(name: str, found: Any, kind: type[Choice]) -> Choice:
    """Return the value of an enumeration that a parameter names. Raises BadParameter."""
    try:
        # Of a text alone: no other value is equal to one of them.
        return kind(found)
    except ValueError:
        raise BadParameter(name, found, " or ".join(kind)) from None
