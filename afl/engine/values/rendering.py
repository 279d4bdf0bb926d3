"""Values as text: AFL's names of their types, and their rendering by `++` and prompts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from afl.engine.types import infer_type_hint

#: AFL's words for the stored names of `infer_type_hint`.
_LANGUAGE_NAMES: Final = {"List": "Array"}


def type_name(value: object) -> str:
    """Return AFL's name of a value's type; "null" for null."""
    if value is None:
        return "null"
    hint = infer_type_hint(value)
    if hint == "Any":
        return type(value).__name__
    return _LANGUAGE_NAMES.get(hint, hint)


def render_text(value: object) -> str:
    """Return the text that `++` and prompts use for a value.

    Strings are unchanged, null is empty, Booleans are `true` and `false`, Doubles take the shortest form that reads
    back, arrays and maps are compact JSON. Raises TypeError for an object that is not an AFL value, ValueError for an
    integer with more digits than Python converts.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, list | tuple | Mapping):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    raise TypeError(f"a {type(value).__name__} has no text form")
