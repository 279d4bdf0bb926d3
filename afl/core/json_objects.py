"""JSON at the edges: reading foreign texts, and writing documents that any reader accepts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from afl.core.errors import AFLError
from afl.core.values import describe_value

#: The most characters of a key that a message quotes.
_SHOWN_CHARS: Final = 40
#: The most digits of an integer that is read: more than any value may have, and few enough to be read at once.
_MAX_DIGITS: Final = 1_000
#: The most levels of a document that is written. Readers have limits of their own, and the writer recurses.
_MAX_LEVELS: Final = 150


class DuplicateKey(AFLError, ValueError):
    """A JSON object has a key twice."""

    def __init__(self, key: str) -> None:
        shown = key if len(key) <= _SHOWN_CHARS else f"{key[:_SHOWN_CHARS]}..."
        super().__init__(f"the key {shown!r} stands twice in one object")
        self.key = key


class NotJson(AFLError, ValueError):
    """A text was meant as JSON, and has a mistake; the message says which."""


def unique_keys(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Return an object's members; for `json.loads(object_pairs_hook=...)`. Raises DuplicateKey."""
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise DuplicateKey(key)
            seen.add(key)
    return found


def read_json(text: str) -> Any:
    """Return what a JSON text holds. Raises DuplicateKey and json.JSONDecodeError (ValueErrors), and RecursionError.

    Numbers that are not AFL values (`NaN`, `1e999`, `9223372036854775808`) are read: `plain_value` refuses them later,
    and names their place.
    """
    return json.loads(text, object_pairs_hook=unique_keys, parse_int=_integer)


def input_value(text: str, declared: object) -> Any:
    """Return the value of an input given as text on a command line: the text itself for a String, else its JSON value.

    A text that is not JSON stays a text: the check of its type reports that it does not fit. Raises DuplicateKey, and
    NotJson for a text that must be meant as JSON: a Boolean in another language's spelling, a list or map with a
    mistake.
    """
    if declared == "String":
        return text
    try:
        return read_json(text)
    except DuplicateKey:
        raise
    except (ValueError, RecursionError) as error:
        if declared == "Boolean" and text.strip().lower() in ("true", "false"):
            raise NotJson(f"found {text}; a Boolean is written {text.strip().lower()}") from None
        if declared not in (None, "Json") and text.lstrip()[:1] in ("[", "{"):
            raise NotJson(f"not JSON: {_where(error)}") from None
        return text


def _where(error: Exception) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    return f"{error.msg} (line {error.lineno}, column {error.colno})"


def _integer(digits: str) -> int:
    # The first of thousands of digits are enough: that integer is out of range too, and parsing all takes minutes.
    return int(digits[:_MAX_DIGITS])


def write_json(document: object, *, indent: int | None = 2, separators: tuple[str, str] | None = None) -> str:
    """Return a document as JSON, whatever it holds: rows of earlier releases may hold data that is not a value now.

    Numbers without an end become texts (`"NaN"`, `"Infinity"`), and anything else that JSON lacks becomes a
    description.
    """
    try:
        return json.dumps(document, ensure_ascii=False, indent=indent, separators=separators, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(tellable(document), ensure_ascii=False, indent=indent, separators=separators, allow_nan=False)


def tellable(value: object, levels: int = _MAX_LEVELS) -> object:
    """Return a value as JSON can hold it, with a description in place of each part that it cannot."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, float):
        if value - value == 0.0:
            return value
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, int):
        # Python refuses to print integers of many thousand digits.
        return value if value.bit_length() < 4_096 else describe_value(value)
    if isinstance(value, Mapping | list | tuple) and not levels:
        return describe_value(value)
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): tellable(entry, levels - 1) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [tellable(entry, levels - 1) for entry in value]
    return str(value)
