"""The values of the mixins that the runtime itself acts on: `Timeout`, the time that an agent has, and `Retry`.

Compiler and engine read them by the same rules here, each from its own form of a program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from afl.core.errors import AFLError
from afl.core.limits import MAX_TIMEOUT_MS

TIMEOUT: Final = "Timeout"
RETRY: Final = "Retry"
_UNITS_MS: Final = {"hours": 3_600_000, "minutes": 60_000, "seconds": 1_000, "ms": 1}

#: The most further attempts, and the largest factor; a pause has a bound of its own.
_MOST_TIMES: Final = 2**31 - 1
_MOST_FACTOR: Final = 1_000_000

_PAUSE: Final = f"a whole number of milliseconds from 0 to {MAX_TIMEOUT_MS}, which are a hundred years"


class NoLiteral:
    """A value that is computed while a program runs."""

    def __repr__(self) -> str:
        return "no literal"


NO_LITERAL: Final = NoLiteral()


class WrongRetry(AFLError):
    """A value of a `Retry` that the runtime cannot use."""

    def __init__(self, name: str, wanted: str, found: object) -> None:
        super().__init__(f"{name} of {RETRY} is {wanted}, found {found!r}")
        self.name = name
        self.wanted = wanted
        self.found = found


class RetryValues(NamedTuple):
    """What `Retry` says: the defaults are those of the library."""

    times: int = 3
    delay_ms: int = 1_000
    factor: float = 2.0
    #: None: pauses have no limit.
    max_delay_ms: int | None = 60_000
    errors: frozenset[str] = frozenset()


def retry_values(given: Mapping[str, object]) -> RetryValues:
    """Return what the literals of a `Retry` say.

    Without `max_delay_ms`, a pause lasts a minute at most, or `delay_ms` where that is longer. Raises WrongRetry.
    """
    default = RetryValues()
    times = _whole(given, "times", default.times, _MOST_TIMES, f"a whole number from 0 to {_MOST_TIMES}")
    delay_ms = _whole(given, "delay_ms", default.delay_ms, MAX_TIMEOUT_MS, _PAUSE)
    factor = given.get("factor", default.factor)
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor <= _MOST_FACTOR:
        raise WrongRetry("factor", f"a number from 1 to {_MOST_FACTOR}", factor)
    max_delay_ms: int | None = max(60_000, delay_ms)
    if "max_delay_ms" in given:
        unlimited = given["max_delay_ms"] is None
        max_delay_ms = None if unlimited else _whole(given, "max_delay_ms", 0, MAX_TIMEOUT_MS, _PAUSE)
    errors = given.get("errors", [])
    names = [name for name in errors if isinstance(name, str)] if isinstance(errors, list) else None
    if names is None or names != errors:
        raise WrongRetry("errors", "a list of texts, the names of error types", errors)
    return RetryValues(times, delay_ms, float(factor), max_delay_ms, frozenset(names))


def time_limit_ms(given: Iterable[tuple[str, object]]) -> int | None:
    """Return the milliseconds that the literals of `Timeout` give together, None without any.

    What is not a unit of time, or not a whole number of at least 0, counts as nothing.
    """
    known = [
        _UNITS_MS[name] * value
        for name, value in given
        if name in _UNITS_MS and isinstance(value, int) and not isinstance(value, bool) and value >= 0
    ]
    return sum(known) if known else None


def _whole(given: Mapping[str, object], name: str, default: int, most: int, wanted: str) -> int:
    value = given.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise WrongRetry(name, wanted, value)
    return value
