"""The base of the engine's errors, and how they show the path of a step."""

from __future__ import annotations

import copyreg
from typing import Final

from afl.errors import AFLError


class RuntimeError(AFLError):  # shadows the builtin inside this module only: the name is part of the public API
    """The base of the engine's errors."""

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions copy and pickle by their positional arguments, which errors made by keyword need not have.
        return copyreg.__newobj__, (type(self),), dict(self.__dict__)  # type: ignore[attr-defined]  # not in typeshed


def shown_path(path: str) -> str:
    """Return the path for messages: of a very deep path only its two ends, which show where it begins and ends."""
    return path if len(path) <= _MAX_SHOWN_PATH else f"{path[:60]} ... {path[-120:]}"


_MAX_SHOWN_PATH: Final = 240
