"""Schemas that refer to others by name, as one text that stands alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from afl_stream.errors import Reason, Unreadable

#: How many schemas one may refer to, those of the others included.
MAX_REFERENCED_SCHEMAS: Final = 200
_MAX_DEPTH: Final = 64


def inlined(text: str, others: Mapping[str, str]) -> str:
    """Return a schema's text in which the first mention of each name among `others` is that schema.

    Raises Unreadable (BAD_SCHEMA) for texts that are not JSON, or that nest too deep.
    """
    try:
        schemas = {name: json.loads(other) for name, other in others.items()}
        return json.dumps(_Inliner(schemas).of(json.loads(text), "", 0), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError) as error:
        raise Unreadable(Reason.BAD_SCHEMA, f"a schema that refers to others cannot be read: {error}") from error


class _Inliner:
    """Replaces names by their schemas, each once: the second mention is by name, as Avro wants it."""

    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self._schemas = schemas
        self._defined: set[str] = set()

    def of(self, node: Any, namespace: str, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError(f"types nest deeper than {_MAX_DEPTH}")
        if isinstance(node, str):
            return self._named(node, namespace, depth)
        if isinstance(node, list):
            return [self.of(branch, namespace, depth + 1) for branch in node]
        if not isinstance(node, dict):
            return node
        if node.get("type") in ("record", "error", "enum", "fixed"):
            namespace, name = _full(node, namespace)
            self._defined.add(name)
        whole = dict(node)
        for key in ("type", "items", "values"):
            if key in whole and whole[key] not in ("record", "error", "enum", "fixed", "array", "map"):
                whole[key] = self.of(whole[key], namespace, depth + 1)
        if isinstance(whole.get("fields"), list):
            whole["fields"] = [self.of(field, namespace, depth + 1) for field in whole["fields"]]
        return whole

    def _named(self, name: str, namespace: str, depth: int) -> Any:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        wanted = full if full in self._schemas else name
        if wanted in self._defined or wanted not in self._schemas:
            return name
        # A schema that stands alone has no namespace of the one around it.
        schema = self.of(self._schemas[wanted], "", depth + 1)
        return {"namespace": "", **schema} if isinstance(schema, dict) and namespace else schema


def _full(node: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    """Return the namespace inside a named type, and its full name."""
    name = str(node.get("name", ""))
    if "." in name:
        return name.rpartition(".")[0], name
    inner = str(node.get("namespace", namespace))
    return inner, f"{inner}.{name}" if inner else name
