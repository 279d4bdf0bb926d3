"""The root of the errors that this distribution raises on purpose."""

from __future__ import annotations

import copyreg


class AFLError(Exception):
    """Base of every error that this package raises on purpose."""


class RuntimeError(AFLError):  # shadows the builtin inside this module only: the name is part of the public API
    """The base of the engine's errors, and of those of Claude's client, which loads no engine."""

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions copy and pickle by their positional arguments, which errors made by keyword need not have.
        return copyreg.__newobj__, (type(self),), dict(self.__dict__)  # type: ignore[attr-defined]  # not in typeshed
