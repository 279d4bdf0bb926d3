"""The schema of a facet's events, made from the facet's AFL signature: a typed record in the place of `payload`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from afl.core.declared_returns import DeclaredReturns
from afl.core.types import BUILTIN_TYPES, SCALAR_TYPES, AflType
from afl_stream.errors import TypeUnknown
from afl_stream.limits import MAX_DESCRIBED_RETURNS
from afl_stream.resources import schema_text
from afl_stream.wire.avro.afl_types import TypeScope

PAYLOAD_NAMESPACE: Final = "afl.payload"
SCHEMA_NAMESPACE: Final = "afl.schema"
RESULT_NAMESPACE: Final = "afl.result"
VALUE_NAME: Final = "afl.v1.Value"
EXTRA_FIELD: Final = "_extra"
ABSENT_FIELD: Final = "_absent"
#: Prefixes of an event's fields without bytes that tell an agent which returns its result must hold, and which it may
#: hold.
REQUIRED_RETURN: Final = "_returns_"
OPTIONAL_RETURN: Final = "_may_return_"

_PRIMITIVES: Final = {name: BUILTIN_TYPES[name].avro for name in SCALAR_TYPES}
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_]|^[0-9]")
#: An underscore that would read as the start of an escape once the name is written.
_LOOKS_ESCAPED: Final = re.compile(r"_(?=x[0-9a-f]+(?:_|[^A-Za-z0-9_]))")
_ESCAPE: Final = re.compile(r"_x([0-9a-f]{1,5}|10[0-9a-f]{4})_")


def avro_name(name: str) -> str:
    """Return a name that Avro takes. Names that the compiler accepts stay as they are; `read_name` is the inverse."""
    if name.isidentifier() and name.isascii() and "_x" not in name:
        return name
    guarded = _LOOKS_ESCAPED.sub("_x5f_", name)
    return _ILLEGAL.sub(lambda match: f"_x{ord(match.group()):x}_", guarded)


def read_name(name: str) -> str:
    """Return the AFL name that became this Avro name."""
    return _ESCAPE.sub(lambda match: chr(int(match.group(1), 16)), name) if "_x" in name else name


def full_name(namespace: str, qualified: str) -> str:
    """Return the Avro full name of a qualified AFL name inside one of our namespaces."""
    return ".".join([namespace, *(avro_name(part) for part in qualified.split("."))])


def free_name(wanted: str, taken: Sequence[str]) -> str:
    """Return the wanted name with as many underscores as it takes to be unique."""
    while wanted in taken:
        wanted += "_"
    return wanted


def event_schema_text(
    facet: str, params: Sequence[Mapping[str, Any]], scope: TypeScope, returns: DeclaredReturns | None = None
) -> str:
    """Return the writer schema of a facet's events as JSON text: the same signature gives the same text.

    `params` are [{"name", "type"}] with qualified type names, resolved in `scope`. Raises TypeUnknown.
    """
    envelope = json.loads(schema_text("facet_event"))
    payload = next(entry for entry in envelope["fields"] if entry["name"] == "payload")
    value_record, absent_field = _parts_of_untyped(payload["type"])
    types = _TypeSchemas(scope, value_record, absent_field)
    names = [avro_name(param["name"]) for param in params]
    fields = [types.field(param, f"parameter {param['name']}", "Parameter") for param in params]
    extra = {
        "name": free_name(EXTRA_FIELD, names),
        "type": {"type": "map", "values": types.value()},
        "doc": "Entries that the signature does not declare: mixin arguments and script results.",
        "default": {},
    }
    payload["type"] = {
        "type": "record",
        "name": full_name(PAYLOAD_NAMESPACE, facet),
        "doc": f"Parameters of {facet}.",
        "fields": [*fields, extra, {**absent_field, "name": free_name(ABSENT_FIELD, names)}],
    }
    if returns is not None and len(returns.required) + len(returns.optional) <= MAX_DESCRIBED_RETURNS:
        envelope["fields"] += _return_fields(returns)
    return json.dumps(envelope, ensure_ascii=False, separators=(",", ":"))


def payload_record_of(event: Mapping[str, Any]) -> Any:
    """Return the record of an event's payload, which stands alone."""
    return next(field["type"] for field in event["fields"] if field["name"] == "payload")


def facet_of(event: Any) -> str | None:
    """Return the facet whose events a schema describes; None for any other schema."""
    if not isinstance(event, Mapping) or event.get("name") != "afl.v1.Event":
        return None
    name = str(payload_record_of(event)["name"])
    if not name.startswith(f"{PAYLOAD_NAMESPACE}.") or name == f"{PAYLOAD_NAMESPACE}.Untyped":
        return None
    return ".".join(map(read_name, name.removeprefix(f"{PAYLOAD_NAMESPACE}.").split(".")))


def result_record(facet: str, returns: Sequence[Mapping[str, Any]], scope: TypeScope) -> dict[str, Any]:
    """Return a typed record of a facet's returns, [{"name", "type"}], in the form of a payload's.

    No record on a topic has it: an answer carries its result as a map of values. Raises TypeUnknown.
    """
    untyped = next(entry for entry in json.loads(schema_text("facet_event"))["fields"] if entry["name"] == "payload")
    value_record, absent_field = _parts_of_untyped(untyped["type"])
    types = _TypeSchemas(scope, value_record, absent_field)
    names = [avro_name(entry["name"]) for entry in returns]
    return {
        "type": "record",
        "name": full_name(RESULT_NAMESPACE, facet),
        "doc": f"Returns of {facet}.",
        "fields": [
            *(types.field(entry, f"return {entry['name']}", "Return") for entry in returns),
            {**absent_field, "name": free_name(ABSENT_FIELD, names)},
        ],
    }


def returns_of(event: Mapping[str, Any]) -> DeclaredReturns | None:
    """Return what an event's record says about the facet's returns by its fields; None when it says nothing."""
    return_fields = [field["name"] for field in event["fields"] if tells_return(field)]
    if not return_fields:
        return None
    return DeclaredReturns(
        tuple(read_name(name[len(REQUIRED_RETURN) :]) for name in return_fields if name.startswith(REQUIRED_RETURN)),
        tuple(read_name(name[len(OPTIONAL_RETURN) :]) for name in return_fields if name.startswith(OPTIONAL_RETURN)),
    )


def tells_return(field: Mapping[str, Any]) -> bool:
    """Return whether a field of an event's record only exists to name a return."""
    return bool(field["type"] == "null" and field["name"].startswith((REQUIRED_RETURN, OPTIONAL_RETURN)))


def _return_fields(returns: DeclaredReturns) -> list[dict[str, Any]]:
    reported = [
        *((REQUIRED_RETURN, name, "A result has to hold") for name in returns.required),
        *((OPTIONAL_RETURN, name, "A result may hold") for name in returns.optional),
    ]
    return [
        {"name": prefix + avro_name(name), "type": "null", "doc": f"{doc} {name}.", "default": None}
        for prefix, name, doc in reported
    ]


def _parts_of_untyped(untyped: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    extra, absent = untyped["fields"]
    return extra["type"]["values"], absent


class _TypeSchemas:
    """Avro types of one signature; each record is defined at its first use, and referred to by name later."""

    def __init__(self, scope: TypeScope, value_record: dict[str, Any], absent_field: dict[str, Any]) -> None:
        self._scope = scope
        self._value_record = value_record
        self._absent_field = absent_field
        self._defined: set[str] = set()

    def field(self, declared: Mapping[str, Any], path: str, what: str) -> dict[str, Any]:
        return {
            "name": avro_name(declared["name"]),
            "type": ["null", self.type(declared["type"], path)],
            "doc": f"{what} {declared['name']}. Null here may also mean absent: see _absent.",
            "default": None,
        }

    def value(self) -> Any:
        if VALUE_NAME in self._defined:
            return VALUE_NAME
        self._defined.add(VALUE_NAME)
        return self._value_record

    def type(self, afl_type: AflType, path: str) -> Any:
        if isinstance(afl_type, str):
            if afl_type in _PRIMITIVES:
                return _PRIMITIVES[afl_type]
            if afl_type == "Json":
                return self.value()
            if afl_type in self._scope.schemas:
                return self._record(afl_type, path)
            if afl_type in self._scope.facets:
                return {"type": "map", "values": self.value()}
        elif isinstance(afl_type, Mapping) and afl_type.get("type") == "ArrayType":
            return {"type": "array", "items": ["null", self.type(afl_type.get("elementType"), f"{path}[]")]}
        raise TypeUnknown(path, afl_type)

    def _record(self, name: str, path: str) -> Any:
        avro = full_name(SCHEMA_NAMESPACE, name)
        if avro in self._defined:
            return avro
        self._defined.add(avro)
        declared = self._scope.schemas[name]
        names = [avro_name(entry["name"]) for entry in declared]
        return {
            "type": "record",
            "name": avro,
            "doc": f"Schema {name}.",
            "fields": [
                *(self.field(entry, f"{path}.{entry['name']}", "Field") for entry in declared),
                {**self._absent_field, "name": free_name(ABSENT_FIELD, names)},
            ],
        }
