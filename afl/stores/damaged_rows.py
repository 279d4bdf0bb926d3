"""Rows that cannot be read as what was written: which errors tell of them, and how they are told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from afl.core.text.printable import printable
from afl.engine.errors import StoreCorrupt

#: What decoding raises for values that are not what was written.
DAMAGE: Final = (ValueError, TypeError, LookupError, AttributeError)

_KEY_CHARS: Final = 200
_REASON_CHARS: Final = 500

R = TypeVar("R")
T = TypeVar("T")


def damaged(path: str, what: str, key: object, error: Exception) -> StoreCorrupt:
    """Return the error of a row: which table or kind it is of, its key, whatever stands there, and what is wrong."""
    text = key.decode(errors="backslashreplace") if isinstance(key, bytes) else str(key)
    return StoreCorrupt(
        path=path, reason=f"{what} {printable(text, _KEY_CHARS)}: {printable(str(error), _REASON_CHARS)}"
    )


def taken(path: str, what: str, rows: Iterable[R], take: Callable[[R], T], key: Callable[[R], object]) -> list[T]:
    """Return what `take` makes of each row. Raises StoreCorrupt, which names the row that nothing can be made of."""
    made: list[T] = []
    for row in rows:
        try:
            made.append(take(row))
        except DAMAGE as error:
            raise damaged(path, what, key(row), error) from error
    return made
