"""Writes the body of a record: fixed fields by the shipped schema, payloads by their facet's signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, TypeAlias

from afl_stream.afl_types import Fitting, TypeCompiler, TypeScope, write_fields
from afl_stream.afl_values import (
    Refused,
    Write,
    check_integer,
    check_string,
    describe_value,
    refuse_depth,
    write_entries,
    write_json,
)
from afl_stream.avro_primitives import write_bytes, write_long, write_string
from afl_stream.message_shapes import FieldShape, shape_of
from afl_stream.messages import FailureReason, Message

#: Appends the body of a record; raises ValueRefused naming the place in the record.
BodyWriter: TypeAlias = Callable[[bytearray, Message], None]


def compile_body_writer(name: str) -> BodyWriter:
    """Make the writer of a record type by its short name. An Event's payload is written as of an unknown signature."""
    return _body_writer(name, _write_untyped)


def compile_event_writer(params: Sequence[Mapping[str, Any]], scope: TypeScope) -> BodyWriter:
    """Make the writer of a facet's events. Raises TypeUnknown for a type that the scope does not explain."""
    types = TypeCompiler(scope)
    fields = {param["name"]: types.compile(param["type"], f"parameter {param['name']}") for param in params}
    return _body_writer("Event", _payload_writer(fields))


def _body_writer(name: str, write_payload: Write) -> BodyWriter:
    fields = shape_of(name).fields
    values_of = attrgetter(*(field.name for field in fields))
    writers = [write_payload if field.name == "payload" else _field_writer(field) for field in fields]
    # An event's own fields need no prefix in errors: "payload.items[2].price" is what its author can look for.
    prefix = "" if name == "Event" else f"{name}."

    def write(out: bytearray, message: Message) -> None:
        index = 0
        try:
            for index, value in enumerate(values_of(message)):
                writers[index](out, value, 0)
        except (Refused, AttributeError, UnicodeEncodeError) as error:
            raise _explained(error, values_of(message)[index]).at(f"{prefix}{fields[index].name}") from None

    return write


def _explained(error: Exception, value: object) -> Refused:
    """Turn what a plain string writer stumbled over into words; strings are not checked before they are written."""
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
        if not isinstance(value, Mapping):
            raise Refused("map of parameters", describe_value(value))
        refuse_depth(depth, "map of parameters")
        write_fields(fields, out, value, depth, extras=True)

    return write


def _write_long(out: bytearray, value: Any, depth: int) -> None:
    write_long(out, check_integer(value))


def _write_bytes(out: bytearray, value: Any, depth: int) -> None:
    if not isinstance(value, bytes):
        raise Refused("byte string", describe_value(value))
    write_bytes(out, value)


def _write_failure(out: bytearray, value: Any, depth: int) -> None:
    if not isinstance(value, FailureReason):
        raise Refused("FailureReason", describe_value(value))
    write_string(out, check_string(value.type))
    write_string(out, check_string(value.message))


_write_untyped: Final = _payload_writer({})
_WRITERS: Final[Mapping[str, Write]] = {
    "string": write_string,
    "long": _write_long,
    "bytes": _write_bytes,
    "entries": write_entries,
    "failure": _write_failure,
    "any": write_json,
}
