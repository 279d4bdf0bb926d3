"""Rows that cannot be decoded: the errors that indicate it, and the message about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from afl.core.text.printable import printable
from afl.engine.errors import StoreCorrupt

#: Errors that decoding raises for damaged values.
DAMAGE: Final = (ValueError, TypeError, LookupError, AttributeError)

_KEY_CHARS: Final = 200
_REASON_CHARS: Final = 500

R = TypeVar("R")
T = TypeVar("T")


def damaged(path: str, what: str, key: object, error: Exception) -> StoreCorrupt:
    """Return the error of a row: its table or kind, its key, its content, and the fault."""
    text = key.decode(errors="backslashreplace") if isinstance(key, bytes) else str(key)
    return StoreCorrupt(
        path=path, reason=f"{what} {printable(text, _KEY_CHARS)}: {printable(str(error), _REASON_CHARS)}"
    )


def taken(path: str, what: str, rows: Iterable[R], take: Callable[[R], T], key: Callable[[R], object]) -> list[T]:
    """Return the result of `take` for each row. Raises StoreCorrupt, which names the unreadable row."""
    made: list[T] = []
    for row in rows:
        try:
            made.append(take(row))
        except DAMAGE as error:
            raise damaged(path, what, key(row), error) from error
    return made
