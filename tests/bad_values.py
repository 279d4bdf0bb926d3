"""Values that are not AFL values, and the texts of their refusals, for every entry to the engine and every store."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple
from uuid import UUID


class BadValue(NamedTuple):
    """A value that no path takes: how it is made, and a part of what is said to have been found."""

    name: str
    make: Callable[[], Any]
    found: str


def array_in_itself() -> Any:
    value: list[Any] = [1]
    value.append(value)
    return value


def map_in_itself() -> Any:
    value: dict[str, Any] = {}
    value["up"] = [value]
    return value


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


#: Of Python's own making: no JSON text can say these.
OF_PYTHON: tuple[BadValue, ...] = (
    BadValue("a set", lambda: {1, 2}, "a value of Python type set; a list would fit"),
    BadValue("a frozen set", lambda: frozenset({1}), "a value of Python type frozenset; a list would fit"),
    BadValue("bytes", lambda: b"raw", "a value of Python type bytes; text would fit, for instance base64"),
    BadValue("a byte array", lambda: bytearray(b"raw"), "a value of Python type bytearray"),
    BadValue("a Decimal", lambda: Decimal("1.10"), "a value of Python type Decimal; a Double would fit"),
    BadValue("a Fraction", lambda: Fraction(1, 3), "a value of Python type Fraction"),
    BadValue("a date", lambda: date(2026, 1, 2), "a value of Python type date; text would fit"),
    BadValue("a moment", lambda: datetime(2026, 1, 2, tzinfo=UTC), "a value of Python type datetime; text would fit"),
    BadValue("a duration", lambda: timedelta(seconds=1), "a value of Python type timedelta"),
    BadValue("a UUID", lambda: UUID(int=7), "a value of Python type UUID; text would fit"),
    BadValue("a complex number", lambda: 1j, "a value of Python type complex"),
    BadValue("an object", object, "a value of Python type object"),
    BadValue("a function", lambda: len, "a value of Python type builtin_function_or_method"),
    BadValue("an integer key", lambda: {1: "x"}, "a map key that is the integer 1; keys are Strings"),
    BadValue("a null key", lambda: {None: "x"}, "a map key that is null; keys are Strings"),
    BadValue("a Boolean key", lambda: {True: "x"}, "a map key that is the Boolean true; keys are Strings"),
    BadValue("an array in itself", array_in_itself, "an array that contains itself"),
    BadValue("a map in itself", map_in_itself, "a map that contains itself"),
    BadValue("too deep", lambda: nested(101), "a value nested deeper than 100 levels"),
    BadValue("far too deep", lambda: nested(900), "a value nested deeper than 100 levels"),
)


class BadNumber(NamedTuple):
    """A number or text that JSON can say, as Python's own reader takes it, and no AFL value can be."""

    name: str
    text: str
    value: Any
    found: str


#: These come as JSON as well.
OF_JSON: tuple[BadNumber, ...] = (
    BadNumber("infinity", "Infinity", math.inf, "the Double inf, which is not a finite number"),
    BadNumber("minus infinity", "-Infinity", -math.inf, "the Double -inf, which is not a finite number"),
    BadNumber("not a number", "NaN", math.nan, "the Double nan, which is not a finite number"),
    BadNumber("beyond all Doubles", "1e999", math.inf, "the Double inf, which is not a finite number"),
    BadNumber("half of a pair", r'"a\ud800"', "a\ud800", "a lone surrogate at index 1"),
    BadNumber("half of a pair as key", r'{"a\ud800": 1}', {"a\ud800": 1}, "a lone surrogate at index 1"),
)

#: An integer beyond 64 bits: expressions may make one, but no caller may pass one in.
BEYOND_64_BITS = BadNumber("64 bits", str(2**63), 2**63, "the integer 9223372036854775808, beyond 64 bits")

#: What no store keeps.
NOT_KEPT: tuple[BadValue, ...] = (
    *OF_PYTHON,
    *(BadValue(bad.name, lambda bad=bad: bad.value, bad.found) for bad in OF_JSON),  # type: ignore[misc]  # a default
)
#: Values that no caller passes in.
NOT_TAKEN: tuple[BadValue, ...] = (
    *NOT_KEPT,
    BadValue(BEYOND_64_BITS.name, lambda: BEYOND_64_BITS.value, BEYOND_64_BITS.found),
)
