"""What a handler has returned, read with care: it is an object of somebody else's making, and may do anything.

Nothing here lets a result's own methods decide: its type is looked at, never its `__class__`, and what is kept is made
of plain dicts, lists, texts and numbers. Whatever the object raises meanwhile becomes BadResult, SystemExit included.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Mapping
from types import CoroutineType
from typing import Any, Final, cast

from afl.core.exception_text import class_name, exception_line

#: Levels that are looked through. Readers and writers have lower limits of their own, with names of their own.
_MAX_DEPTH: Final = 200
#: Entries taken from a map that is no dict: it may have no end.
_MAX_FOREIGN_ENTRIES: Final = 1_000_000
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


class BadResult(Exception):
    """What a handler has returned, or told by `update`, is no result; the text says what is wrong, and where."""


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
    """Return what a handler has returned if it is to be awaited; None when it is the result."""
    kind = type(value)
    if kind is dict or value is None:
        return None
    try:
        waits = issubclass(kind, Awaitable) or inspect.isawaitable(value)
    except BaseException:  # noqa: BLE001 - the handler's object, whatever it does
        return None
    return cast(Awaitable[Any], value) if waits else None


def plain_result(value: object) -> dict[str, Any]:
    """Return a handler's result as plain data; None is an empty one. Raises BadResult, and nothing else.

    A dict that holds nothing but plain scalars is returned as it is.
    """
    if value is None:
        return {}
    if type(value) is dict and _is_flat(value):
        return value
    if not issubclass(type(value), dict):
        _discard(value)
        raise BadResult(f"the handler returned a {class_name(type(value))}; a dict or None is expected")
    return _read(value, "the handler returned", "the handler's result")


def plain_update(value: object) -> dict[str, Any]:
    """Return what a handler tells by `update` as plain data: a dict or another map. Raises BadResult."""
    if type(value) is dict and _is_flat(value):
        return value
    return _read(value, "update() was given", "the update")


def _is_flat(value: dict[Any, Any]) -> bool:
    try:
        for key, item in value.items():
            if type(key) is not str or type(item) not in _SCALARS:
                return False
    except RuntimeError:  # The handler's own thread changes it meanwhile.
        return False
    return True


def _read(value: object, given: str, where: str) -> dict[str, Any]:
    try:
        if not _is_map(type(value)):
            raise BadResult(f"{given} a {class_name(type(value))}; a dict is expected")
        if any(not issubclass(type(key), str) for key in _entries(value)):
            raise BadResult(f"{given} a dict with keys that are no text; a dict or None is expected")
        return cast(dict[str, Any], _plain(value, "", 0))
    except BadResult:
        raise
    except BaseException as error:  # noqa: BLE001 - the handler's object, whatever it does
        raise BadResult(f"{where} cannot be read: {exception_line(error)}") from None


def _plain(value: object, path: str, depth: int) -> object:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if depth > _MAX_DEPTH:
        raise BadResult(f"{path[:200]}: nested deeper than {_MAX_DEPTH} levels")
    # Of subclasses only what they hold is taken, by the methods of the class that they are of.
    if issubclass(kind, str):
        return str.__str__(cast(str, value))
    if issubclass(kind, int):
        return int.__int__(cast(int, value))
    if issubclass(kind, float):
        return float.__float__(cast(float, value))
    if issubclass(kind, list):
        items = list.__iter__(cast("list[object]", value))
        return [_plain(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(items)]
    if issubclass(kind, tuple):
        parts = tuple.__iter__(cast("tuple[object, ...]", value))
        return [_plain(part, f"{path}[{index}]", depth + 1) for index, part in enumerate(parts)]
    if _is_map(kind):
        entries = _entries(value)
        return {_key(key, path): _plain(item, _inside(path, key), depth + 1) for key, item in entries.items()}
    raise BadResult(f"{path}: a {class_name(kind)} is not a value that JSON can hold")


def _is_map(kind: type) -> bool:
    return issubclass(kind, dict) or issubclass(kind, Mapping)


def _entries(value: object) -> dict[object, object]:
    """The entries of a map, by `dict`'s own methods where it is one."""
    if type(value) is dict:
        return value
    if issubclass(type(value), dict):
        return dict(dict.items(cast("dict[object, object]", value)))
    entries: dict[object, object] = {}
    for key, item in cast("Mapping[object, object]", value).items():
        if len(entries) >= _MAX_FOREIGN_ENTRIES:
            raise BadResult(f"a {class_name(type(value))} has more than {_MAX_FOREIGN_ENTRIES} entries")
        # A key's own `__hash__` and `__eq__` are not asked.
        entries[str.__str__(key) if issubclass(type(key), str) else id(key)] = item
    return entries


def _key(key: object, path: str) -> str:
    if not issubclass(type(key), str):
        raise BadResult(f"{path}: a key must be a text, found a {class_name(type(key))}")
    return str.__str__(cast(str, key))


def _inside(path: str, key: object) -> str:
    name = _key(key, path)
    return name if not path else f"{path}.{name}"


def _discard(value: object) -> None:
    """Close a coroutine that nobody will await, so that Python does not warn about it later."""
    if type(value) is CoroutineType:
        value.close()
