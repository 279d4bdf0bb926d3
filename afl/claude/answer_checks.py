"""The check of a model's output against a tool's schema: the part of JSON Schema that our tools use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from afl.core.limits import LONG_MAX, LONG_MIN


def answer_problem(value: object, schema: Mapping[str, Any], path: str = "") -> str | None:
    """Return the first mismatch of a value, as `path: what is wanted, what was found`; None when the value fits.

    Checks `type`, `properties`, `required`, `additionalProperties: false`, `items` and `enum`.
    """
    if "enum" in schema and value not in schema["enum"]:
        return f"{_place(path)}: one of {json.dumps(schema['enum'], ensure_ascii=False)} wanted, found {_look(value)}"
    wanted = schema.get("type") or []
    kinds = [wanted] if isinstance(wanted, str) else wanted
    if kinds and not any(_is_a(value, kind) for kind in kinds):
        return f"{_place(path)}: {' or '.join(kinds)} wanted, found {_look(value)}"
    if isinstance(value, Mapping):
        return _object_problem(value, schema, path)
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for index, element in enumerate(value):
            problem = answer_problem(element, schema["items"], f"{path}[{index}]")
            if problem is not None:
                return problem
    return None


def _object_problem(value: Mapping[str, object], schema: Mapping[str, Any], path: str) -> str | None:
    properties: Mapping[str, Any] = schema.get("properties") or {}
    missing = [name for name in schema.get("required") or () if name not in value]
    if missing:
        return f"{_place(path)}: {', '.join(missing)} missing"
    for name, member in value.items():
        if name in properties:
            problem = answer_problem(member, properties[name], f"{path}.{name}" if path else name)
            if problem is not None:
                return problem
        elif schema.get("additionalProperties") is False:
            return f"{_place(path)}: {name} is not declared; there is {', '.join(properties) or 'nothing'}"
    return None


def _is_a(value: object, wanted: str) -> bool:
    if wanted == "integer":
        return isinstance(value, int) and not isinstance(value, bool) and LONG_MIN <= value <= LONG_MAX
    if wanted == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    kinds: Mapping[str, type | tuple[type, ...]] = {
        "string": str,
        "boolean": bool,
        "array": list,
        "object": Mapping,
        "null": type(None),
    }
    return isinstance(value, kinds.get(wanted, object))


def _place(path: str) -> str:
    return path or "the answer"


def _look(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."
