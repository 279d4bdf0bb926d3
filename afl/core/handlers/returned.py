"""Careful reading of what a handler has returned: a foreign object, whose code may do anything.

No method of a result decides here: its type is looked at, never its `__class__`, and the kept copy is made of plain
dicts, lists, texts and numbers. A part that is not an AFL value raises ValueRefused; anything else that the object
raises meanwhile becomes BadResult, SystemExit included.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Mapping
from types import CoroutineType
from typing import Any, Final, cast

from afl.core.errors import AFLError
from afl.core.text.exception_text import class_name, exception_line
from afl.core.values import ValueRefused, is_flat, plain_values

#: The first part of paths into a result, and of paths into the values of an `update`.
RESULT: Final = "result"
UPDATE: Final = "partial"


class BadResult(AFLError):
    """A handler's result, or its values for `update`, is unusable; the text says what is wrong, and where."""


def answers_later(value: object) -> bool:
    """Say whether a handler has returned Deferred: an object whose `answers_later` is True, not merely true."""
    if type(value) is dict or value is None:
        return False
    try:
        # Read past the object's own `__getattr__`: a proxy has every attribute.
        return inspect.getattr_static(value, "answers_later", False) is True
    except BaseException:  # noqa: BLE001 - the handler's object, whatever it does
        return False


def awaitable_of(value: object) -> Awaitable[Any] | None:
    """Return what a handler has returned if it must be awaited; None when it is the result."""
    kind = type(value)
    if kind is dict or value is None:
        return None
    try:
        waits = issubclass(kind, Awaitable) or inspect.isawaitable(value)
    except BaseException:  # noqa: BLE001 - the handler's object, whatever it does
        return None
    return cast(Awaitable[Any], value) if waits else None


def plain_result(value: object) -> dict[str, Any]:
    """Return a handler's result as plain data; None becomes an empty result. Raises only BadResult or ValueRefused.

    A dict of plain scalars is returned as it is.
    """
    if value is None:
        return {}
    if type(value) is dict and is_flat(value):
        return value
    if not issubclass(type(value), dict):
        discard(value)
        raise BadResult(f"the handler returned a {class_name(type(value))}; a dict or None is expected")
    return _read(cast("dict[str, object]", value), RESULT, "the handler's result")


def plain_update(value: object) -> dict[str, Any]:
    """Return what a handler gives to `update` as plain data: a dict or another map. Raises as `plain_result`."""
    if type(value) is dict and is_flat(value):
        return value
    if not issubclass(type(value), Mapping):
        raise BadResult(f"update() was given a {class_name(type(value))}; a dict is expected")
    return _read(cast("Mapping[str, object]", value), UPDATE, "the update")


def _read(value: Mapping[str, object], path: str, where: str) -> dict[str, Any]:
    try:
        return plain_values(value, path)
    except ValueRefused:
        raise
    except BaseException as error:  # noqa: BLE001 - the handler's object, whatever it does
        raise BadResult(f"{where} cannot be read: {exception_line(error)}") from None


def discard(value: object) -> None:
    """Close a coroutine that will not be awaited, so that Python does not warn about it later."""
    if type(value) is CoroutineType:
        value.close()
