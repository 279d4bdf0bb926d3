"""Writing of a record's body: fixed fields by the shipped schema, payloads by their facet's signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from afl.core.values import (
    Refused,
    check_boolean,
    check_integer,
    check_string,
    describe_value,
    refuse_depth,
    refused_in,
)
from afl_stream.wire.avro.afl_types import Fitting, TypeCompiler, TypeScope, write_fields
from afl_stream.wire.avro.afl_values import Write, value_refused, write_entries, write_json
from afl_stream.wire.avro.primitives import write_bytes, write_long, write_string
from afl_stream.wire.messages import FailureReason, Message
from afl_stream.wire.payload_code import APPEND_STRING, plain_payload_code
from afl_stream.wire.shapes import FieldShape, shape_of

#: Appends the body of a record; raises ValueRefused naming the place in the record.
BodyWriter: TypeAlias = Callable[[bytearray, Message], None]


def compile_body_writer(name: str) -> BodyWriter:
    """Make the writer of a record type by its short name. An Event's payload is written without a signature."""
    return _body_writer(name, _write_untyped)


def compile_event_writer(params: Sequence[Mapping[str, Any]], scope: TypeScope) -> BodyWriter:
    """Make the writer of a facet's events. Raises TypeUnknown for a type that the scope does not explain."""
    types = TypeCompiler(scope)
    fields = {param["name"]: types.compile(param["type"], f"parameter {param['name']}") for param in params}
    return _body_writer("Event", _payload_writer(fields), plain_payload_code(params))


def _body_writer(
    name: str, write_payload: Write, payload_code: tuple[list[str], dict[str, Any]] | None = None
) -> BodyWriter:
    """Make one function for the whole record, its strings inline: a call per field costs more than writing it."""
    fields = shape_of(name).fields
    writers = [write_payload if field.name == "payload" else _field_writer(field) for field in fields]
    # An event's own fields need no prefix in errors: its author can look for "payload.items[2].price".
    prefix = "" if name == "Event" else f"{name}."

    def explain(error: Exception, message: Message, index: int) -> Exception:
        field = fields[index].name
        value = getattr(message, field)
        return value_refused(refused_in(_explained(error, value), value), f"{prefix}{field}")

    lines: list[str] = []
    for index, field in enumerate(fields):
        code = payload_code[0] if payload_code is not None and field.name == "payload" else _field_code(field, index)
        lines += [f"index = {index}", f"v = message.{field.name}", *code]
    body = "".join(f"        {line}\n" for line in lines)
    source = (
        f"def write(out, message):\n    index = 0\n    try:\n{body}"
        "    except (Refused, AttributeError, UnicodeEncodeError) as error:\n"
        "        raise explain(error, message, index) from None\n"
    )
    names: dict[str, Any] = {"write_long": write_long, "Refused": Refused, "explain": explain, "coded": _Coded()}
    names |= {"write_payload": write_payload, "coded_times": _CodedTimes()}
    names |= payload_code[1] if payload_code is not None else {}
    names |= {f"write{index}": write for index, write in enumerate(writers)}
    names |= {f"whole{index}": _write_long for index, field in enumerate(fields) if field.kind == "long"}
    exec(compile(source, "<record writer>", "exec"), names)
    write_record: BodyWriter = names["write"]
    return write_record


def _field_code(field: FieldShape, index: int) -> list[str]:
    """Return the lines that append `v`. Only names of our own schemas go into the source."""
    if field.kind == "long":
        plain = ["out += coded_times[v]"] if field.name in _TIMES else _plain_long(index)
        code = ["if type(v) is int:", *(f"    {line}" for line in plain), "else:", f"    write{index}(out, v, 0)"]
        if field.nullable:
            # The writer of another type of value writes the branch itself.
            code = ["if type(v) is int:", "    out.append(2)", *(f"    {line}" for line in plain), *code[-2:]]
            code[-2:] = ["elif v is None:", "    out.append(0)", *code[-2:]]
        return code
    if field.kind != "string":
        return [f"write{index}(out, v, {field.depth})"]
    code = ["out += coded[v]"] if field.name in _REPEATED else ["b = v.encode()", *APPEND_STRING.splitlines()]
    if not field.nullable:
        return code
    return ["if v is None:", "    out.append(0)", "else:", "    out.append(2)", *(f"    {line}" for line in code)]


def _plain_long(index: int) -> list[str]:
    """Return the lines that append an integer: most are small, and an attempt is below 64."""
    return ["if 0 <= v < 64:", "    out.append(v << 1)", "else:", f"    whole{index}(out, v, 0)"]


class _CodedTimes(dict[int, bytes]):
    """A cache of encoded times: all records of one batch are of the same moment."""

    def __missing__(self, value: int) -> bytes:
        out = bytearray()
        _write_long(out, value, 0)
        if len(self) >= _MAX_REMEMBERED:
            self.clear()
        self[value] = bytes(out)
        return self[value]


class _Coded(dict[str, bytes]):
    """A cache of encoded strings, for fields that have the same value in most records."""

    def __missing__(self, value: str) -> bytes:
        out = bytearray()
        write_string(out, value)
        if len(self) < _MAX_REMEMBERED and len(out) < _MAX_REMEMBERED:
            self[value] = bytes(out)
        return bytes(out)


def _explained(error: Exception, value: object) -> Refused:
    """Turn an error of a plain string writer into a message; strings are not checked before they are written."""
    if isinstance(error, Refused):
        return error
    try:
        check_string(value)
    except Refused as refused:
        return refused
    raise error


def _field_writer(field: FieldShape) -> Write:
    write = _WRITERS[field.kind]
    if not field.nullable or field.kind == "any":
        return write

    def write_optional(out: bytearray, value: Any, depth: int) -> None:
        if value is None:
            out.append(0)
        else:
            out.append(2)
            write(out, value, depth)

    return write_optional


def _payload_writer(fields: Mapping[str, Fitting]) -> Write:
    def write(out: bytearray, value: Any, depth: int) -> None:
        if type(value) is not dict and not isinstance(value, Mapping):
            raise Refused("map of parameters", describe_value(value))
        refuse_depth(depth, "map of parameters")
        write_fields(fields, out, value, depth, extras=True)

    return write


def _write_long(out: bytearray, value: Any, _depth: int) -> None:
    write_long(out, check_integer(value))


def _write_boolean(out: bytearray, value: Any, _depth: int) -> None:
    out.append(1 if check_boolean(value) else 0)


def _write_bytes(out: bytearray, value: Any, _depth: int) -> None:
    if not isinstance(value, bytes):
        raise Refused("byte string", describe_value(value))
    write_bytes(out, value)


def _write_failure(out: bytearray, value: Any, _depth: int) -> None:
    if not isinstance(value, FailureReason):
        raise Refused("FailureReason", describe_value(value))
    write_string(out, check_string(value.type))
    write_string(out, check_string(value.message))


#: Fields that are the same in many records, and not small.
_TIMES: Final = frozenset({"created_at", "deadline", "at"})
#: Fields with few values; how many are remembered, and of how many bytes each.
_REPEATED: Final = frozenset({
    "event_type", "state", "workflow_version", "step_schema_version", "runtime_version", "agent", "group",
    "kind", "topic", "publisher", "publisher_type",
})  # fmt: skip
_MAX_REMEMBERED: Final = 1_000

_write_untyped: Final = _payload_writer({})
_WRITERS: Final[Mapping[str, Write]] = {
    "string": write_string,
    "long": _write_long,
    "boolean": _write_boolean,
    "bytes": _write_bytes,
    "entries": write_entries,
    "failure": _write_failure,
    "any": write_json,
}
