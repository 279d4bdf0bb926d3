"""JSON Schemas of what facets take and give: an event's payload, and an answer's result, as JSON writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from afl.core.declared_returns import DeclaredReturns
from afl.core.limits import LONG_MAX, LONG_MIN
from afl.core.types import BUILTIN_TYPES, AflType
from afl_stream.errors import TypeUnknown
from afl_stream.wire.avro.afl_types import TypeScope

#: The version of JSON Schema.
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_BOUNDS: Final = {"integer": {"minimum": LONG_MIN, "maximum": LONG_MAX}}


def payload_json_schema(facet: str, params: Sequence[Mapping[str, Any]], scope: TypeScope) -> dict[str, Any]:
    """Return the schema of the payload of a facet's events. `params` are [{"name", "type"}], resolved in `scope`.

    Every parameter may be null, and may be absent. Entries that the facet does not declare are arguments of mixins and
    results of scripts. Raises TypeUnknown.
    """
    return {
        "$schema": DIALECT,
        "title": f"{facet} payload",
        "description": f"The parameters of an event of {facet}.",
        **_Types(scope).record(params, "parameter"),
    }


def result_json_schema(
    facet: str, returns: Sequence[Mapping[str, Any]], declared: DeclaredReturns | None, scope: TypeScope
) -> dict[str, Any]:
    """Return the schema of the result of an answer to a facet's event. `returns` are [{"name", "type"}].

    `declared` says which of them a result must have; None: the facet declares none, and any object is a result. Raises
    TypeUnknown.
    """
    schema = {
        "$schema": DIALECT,
        "title": f"{facet} result",
        "description": f"The result of an answer to an event of {facet}.",
        **_Types(scope).record(returns, "return"),
    }
    if declared is not None:
        schema["required"] = list(declared.required)
        schema["additionalProperties"] = False
    return schema


class _Types:
    """JSON Schemas of the types of one signature. Schemas of AFL are definitions, which may refer to each other."""

    def __init__(self, scope: TypeScope) -> None:
        self._scope = scope
        self._definitions: dict[str, dict[str, Any]] = {}

    def record(self, fields: Sequence[Mapping[str, Any]], what: str) -> dict[str, Any]:
        """Return the schema of an object of these fields, with the definitions that it refers to."""
        properties = {field["name"]: self.of(field["type"], f"{what} {field['name']}") for field in fields}
        definitions = {"$defs": self._definitions} if self._definitions else {}
        return {"type": "object", "properties": properties, **definitions}

    def of(self, afl_type: AflType, path: str) -> dict[str, Any]:
        """Return the schema of a type; null is a value of each."""
        if isinstance(afl_type, str):
            builtin = BUILTIN_TYPES.get(afl_type)
            if builtin is not None:
                kind = builtin.json_schema.get("type")
                return {} if kind is None else {"type": [kind, "null"], **_BOUNDS.get(kind, {})}
            if afl_type in self._scope.schemas:
                return {"anyOf": [{"$ref": f"#/$defs/{self._defined(afl_type, path)}"}, {"type": "null"}]}
            if afl_type in self._scope.facets:
                return {"type": ["object", "null"]}
        elif isinstance(afl_type, Mapping) and afl_type.get("type") == "ArrayType":
            return {"type": ["array", "null"], "items": self.of(afl_type.get("elementType"), f"{path}[]")}
        raise TypeUnknown(path, afl_type)

    def _defined(self, name: str, path: str) -> str:
        if name not in self._definitions:
            # There before its fields are looked at: a schema may contain itself.
            definition: dict[str, Any] = {"title": name, "type": "object", "additionalProperties": False}
            self._definitions[name] = definition
            definition["properties"] = {
                field["name"]: self.of(field["type"], f"{path}.{field['name']}") for field in self._scope.schemas[name]
            }
        return name
