"""The decision whether a handler that raised is called again: a policy is asked, and its answer is checked."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from afl.core.backoff import Backoff
from afl.core.errors import AFLError
from afl.core.text.exception_text import exception_class, exception_line

log = logging.getLogger(__name__)


class RetryRule(Protocol):
    """The rule for calling a handler again that raised: a RetryPolicy, or an object of the user's making."""

    def wait_s(self, tries: int, error: BaseException) -> float | None:
        """Return the wait after this many failed tries, or None when there is no further try."""


class BadRetryPolicy(AFLError, ValueError):
    """A retry policy that cannot be used: its field, what was found there, and what would be right."""

    def __init__(self, field: str, found: object, expected: str) -> None:
        super().__init__(f"RetryPolicy: {field}: found {found!r:.100}, expected {expected}")
        self.field = field
        self.found = found
        self.expected = expected


#: An exception by its class, or by the class's name: `ConnectionError`, or `shop.cards.CardDeclined` with its module.
ErrorClass: TypeAlias = type[BaseException] | str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The number of tries of a handler that raises, before its step fails, and the waits between them.

    `max_attempts` counts the first try too. The wait before try n + 1 is `backoff_s * factor ** (n - 1)`, at most
    `max_backoff_s`; `jitter` is the part of it that is drawn: with 0.2 a wait of 10 s becomes one of 8 to 10 s, so that
    events that failed together are not tried together. `retry_on`: which exceptions are worth another try, and
    `not_on`: which of them are not. Both name classes, or their names, and mean subclasses too. Tries are not attempts
    of the step: all of them have the same event id.
    """

    max_attempts: int
    backoff_s: float = 1.0
    factor: float = 2.0
    max_backoff_s: float = 60.0
    retry_on: tuple[ErrorClass, ...] = (Exception,)
    jitter: float = 0.0
    not_on: tuple[ErrorClass, ...] = ()

    def __post_init__(self) -> None:
        _check("max_attempts", self.max_attempts, self.max_attempts >= 1, "1 or more, the first try included")
        for name in ("backoff_s", "max_backoff_s"):
            value = getattr(self, name)
            _check(name, value, math.isfinite(value) and value >= 0, "seconds, 0 or more")
        _check("factor", self.factor, math.isfinite(self.factor) and self.factor >= 1, "1 or more")
        _check("jitter", self.jitter, 0 <= self.jitter <= 1, "a part of the wait, 0 to 1")

    @classmethod
    def parse(cls, text: str) -> RetryPolicy:
        """Return the policy that a text describes, as in `attempts=5, backoff=0.5, on=ConnectionError|TimeoutError`.

        Its parts are `attempts`, `backoff` and `max` in seconds, `factor`, `jitter`, `on` and `not`. Raises
        BadRetryPolicy.
        """
        given: dict[str, Any] = {}
        for part in filter(None, (each.strip() for each in text.split(","))):
            name, equals, value = (each.strip() for each in part.partition("="))
            field, read, expected = _PARTS.get(name, ("", None, ""))
            if not equals or read is None:
                raise BadRetryPolicy("text", part, f"NAME=VALUE of {', '.join(_PARTS)}")
            try:
                given[field] = read(value)
            except ValueError:
                raise BadRetryPolicy(name, value, expected) from None
        if "max_attempts" not in given:
            raise BadRetryPolicy("text", text, "at least attempts=NUMBER")
        return cls(**given)

    def wait_s(self, tries: int, error: BaseException) -> float | None:
        """Return the wait after this many failed tries, or None when there is no other."""
        if tries >= self.max_attempts or not _is_of(error, self.retry_on) or _is_of(error, self.not_on):
            return None
        wait_s = Backoff(self.backoff_s, self.max_backoff_s, self.factor).wait_s(tries)
        # Not for secrets: any spread does.
        return wait_s * (1 - self.jitter * random.random()) if self.jitter else wait_s

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        parts = [f"{name}={_shown(getattr(self, field))}" for name, (field, _, _) in _PARTS.items()]
        return ", ".join(part for part in parts if not part.endswith("="))


def _check(field: str, found: object, is_right: bool, expected: str) -> None:
    if not is_right:
        raise BadRetryPolicy(field, found, expected)


def _is_of(error: BaseException, classes: tuple[ErrorClass, ...]) -> bool:
    """Return whether an exception is of one of these classes, by its type: it may lie about its class."""
    kinds = type(error).__mro__
    return any(
        any(kind in (named.__name__, f"{named.__module__}.{named.__qualname__}") for named in kinds)
        if isinstance(kind, str)
        else issubclass(type(error), kind)
        for kind in classes
    )


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split("|"))
    if not all(part.isidentifier() for name in names for part in name.split(".")):
        raise ValueError(text)
    return names


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return "|".join(each if isinstance(each, str) else _name_of(each) for each in value)
    return f"{value:g}"


def _name_of(kind: type) -> str:
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


_SECONDS: Final = "seconds, 0 or more"
_CLASSES: Final = "names of exception classes, separated by |"
#: The parts of a policy's text: the field of each, what reads its value, and what is expected there.
_PARTS: Final[Mapping[str, tuple[str, Callable[[str], Any], str]]] = {
    "attempts": ("max_attempts", int, "a number, 1 or more, the first try included"),
    "backoff": ("backoff_s", float, _SECONDS),
    "factor": ("factor", float, "1 or more"),
    "max": ("max_backoff_s", float, _SECONDS),
    "jitter": ("jitter", float, "a part of the wait, 0 to 1"),
    "on": ("retry_on", _names, _CLASSES),
    "not": ("not_on", _names, _CLASSES),
}


def next_try_s(policy: RetryRule | None, tries: int, error: BaseException) -> float | None:
    """Ask a policy, which may be anybody's code. None where there is none, where it says so, and where it fails."""
    if policy is None:
        return None
    try:
        wait_s = policy.wait_s(tries, error)
        if wait_s is None or (type(wait_s) in (int, float) and math.isfinite(wait_s)):
            return None if wait_s is None else max(0.0, float(wait_s))
        found = f"gave {wait_s!r:.100}, expected seconds or None"
    except Exception as failure:  # noqa: BLE001 - a policy is the user's code, and looks at a handler's exception
        found = f"raised {exception_line(failure)}"
    log.warning("the retry policy %s; the handler that raised %s is not tried again", found, exception_class(error))
    return None
