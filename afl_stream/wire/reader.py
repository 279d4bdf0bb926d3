"""Reading of a record's body by its writer's schema, from any writer, in one pass of compiled readers."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from afl_stream.errors import NewerFormat, Reason, Unreadable
from afl_stream.limits import RECORD_FORMAT
from afl_stream.wire.avro.binary import ReaderCompiler
from afl_stream.wire.avro.primitives import (
    CountedBytes,
    Reader,
    go_deeper,
    max_depth,
    read_block_count,
    read_double,
    read_long,
    read_string,
)
from afl_stream.wire.avro.record_code import compile_function, compile_whole
from afl_stream.wire.avro.schema import WriterSchema, branches_of, kind_of
from afl_stream.wire.messages import (
    Event,
    FailureReason,
    Message,
    StepContinue,
    StepFailed,
    StepUpdate,
    match_step_id,
)
from afl_stream.wire.payload_schema import (
    ABSENT_FIELD,
    EXTRA_FIELD,
    PAYLOAD_NAMESPACE,
    SCHEMA_NAMESPACE,
    read_name,
    tells_return,
)
from afl_stream.wire.shapes import RECORD_TYPES, FieldShape, MessageShape, build_message, check_ids, shape_of
from afl_stream.wire.versions import CURRENT, SUPPORTED

#: Reads a body that starts at this position; raises Unreadable or NewerFormat, and nothing else.
BodyReader: TypeAlias = Callable[[bytes, int], Message]

_MAX_DEPTH: Final = max_depth()
_UNPACK_DOUBLE: Final = struct.Struct("<d").unpack_from
_RECORD_NAME: Final = re.compile(r"afl\.v([1-9][0-9]{0,8})\.([A-Za-z0-9_]+)\Z")
_VALUE_BRANCHES: Final = [
    "null",
    "boolean",
    "long",
    "double",
    "string",
    {"type": "array", "items": "afl.v1.Value"},
    {"type": "map", "values": "afl.v1.Value"},
]


def compile_body_reader(schema: WriterSchema) -> BodyReader:
    """Make the reader of all records that one schema wrote.

    Raises NewerFormat for a record namespace above `afl.v1`, Unreadable (UNKNOWN_TYPE) for a foreign one.
    """
    shape = _shape_for(schema)
    compiler = ReaderCompiler(schema, _special, {read_value: read_entries})
    read = _message_reader(shape, schema, compiler)
    return (lambda data, pos: read(CountedBytes.of(data), pos)) if compiler.counts_entries else read


def _explained(shape: MessageShape) -> Callable[[Exception, bytes], Unreadable]:
    """Return what turns an error of a reader into the one to raise."""

    def explain(error: Exception, data: bytes) -> Unreadable:
        if isinstance(error, UnicodeDecodeError):
            return Unreadable(Reason.BAD_UTF8, f"in {shape.name}: {error}")
        if isinstance(error, RecursionError):
            return Unreadable(Reason.TOO_DEEP, f"values of {shape.name} nest too deep")
        return Unreadable(Reason.TRUNCATED, f"the {len(data)} bytes end inside {shape.name}")

    return explain


def _message_reader(shape: MessageShape, schema: WriterSchema, compiler: ReaderCompiler) -> BodyReader:
    """Return the reader of a record: of its fields if the schema guarantees them, else of a dict to be checked."""
    explain = _explained(shape)

    def trailing(data: bytes, end: int) -> Unreadable:
        return Unreadable(Reason.TRAILING_BYTES, f"{len(data) - end} bytes after the end of {shape.name}")

    root = schema.root
    if shape.message_class is Event:
        # The schema says what these fields say; a record has no bytes of them.
        root = {**root, "fields": [entry for entry in root["fields"] if not tells_return(entry)]}
    written = {entry["name"]: index for index, entry in enumerate(root["fields"])}
    types = [entry["type"] for entry in root["fields"]]
    #: The place of each field in the writer's record; None: it is left out.
    places = [next((written[name] for name in field.names if name in written), None) for field in shape.fields]
    trusted = all(
        not field.required if place is None else _conforms(field, types[place], schema.named)
        for field, place in zip(shape.fields, places, strict=True)
    )
    if not trusted:
        return _checking_reader(shape, compiler.compile(schema.root), explain, trailing)
    bound: dict[str, Any] = {"explain": explain, "trailing": trailing, "failure": _failure}
    lines = ["if pos != size: raise trailing(data, pos)", "message = draft()"]
    values: dict[str, str] = {}
    for number, (field, place) in enumerate(zip(shape.fields, places, strict=True)):
        if place is None:
            bound[f"default{number}"] = field.default
            values[field.name] = f"default{number}()"
        elif field.kind == "failure":
            values[field.name] = f"failure(v{place})"
        else:
            values[field.name] = f"v{place}"
        lines.append(f"message.{field.name} = {values[field.name]}")
    bound |= {"draft": draft_of(shape.message_class), "of_class": shape.message_class, "check_ids": check_ids}
    lines.append("message.__class__ = of_class")
    if (usual := _usual_ids(shape, values, bound)) is not None:
        lines += [f"if {usual}:", "    return message"]
    return compile_whole(compiler.fields(root), [*lines, "return check_ids(message)"], bound)


def draft_of(message_class: type[Message]) -> type:
    """Return a class of records that are being read: it becomes the record's own class when all fields are set.

    The constructor of a frozen class costs more than reading all of its fields, and so does setting them past it.
    """
    return type(f"{message_class.__name__}Draft", (), {"__slots__": message_class.__slots__})


def _usual_ids(shape: MessageShape, values: Mapping[str, str], bound: dict[str, Any]) -> str | None:
    """Return the condition under which `check_ids` need not be called; None: there is no short one."""
    message_class = shape.message_class
    if message_class is Event:
        bound["current"] = CURRENT
        return f"({', '.join(values[component] for component in SUPPORTED)}) == current"
    if message_class in (StepContinue, StepFailed, StepUpdate):
        bound["match"] = match_step_id
        step_id, workflow_id = values["step_id"], values["workflow_id"]
        # A local name keeps the match: it is asked for its workflow only if the record names one.
        return f"(found := match({step_id})) is not None and (message.workflow_id is None or found[1] == {workflow_id})"
    return None


def _checking_reader(
    shape: MessageShape,
    read_entries: Reader,
    explain: Callable[[Exception, bytes], Unreadable],
    trailing: Callable[[bytes, int], Unreadable],
) -> BodyReader:
    def read(data: bytes, pos: int) -> Message:
        try:
            entries, end = read_entries(data, pos, 1)
        except (IndexError, UnicodeDecodeError, RecursionError) as error:
            raise explain(error, data) from None
        if end != len(data):
            raise trailing(data, end)
        return build_message(shape, entries)

    return read


def _failure(entries: dict[str, Any] | None) -> FailureReason | None:
    return None if entries is None else FailureReason(type=entries["type"], message=entries["message"])


def _shape_for(schema: WriterSchema) -> MessageShape:
    root = schema.root
    name = root["name"] if kind_of(root) == "record" else str(kind_of(root))
    match = _RECORD_NAME.match(name)
    if match is not None and int(match.group(1)) > RECORD_FORMAT:
        raise NewerFormat(name, f"afl.v{RECORD_FORMAT}")
    if match is None or int(match.group(1)) < RECORD_FORMAT - 1 or match.group(2) not in RECORD_TYPES:
        raise Unreadable(Reason.UNKNOWN_TYPE, f"the schema describes {name}, which is not a record type of AFL")
    return shape_of(match.group(2))


def _conforms(field: FieldShape, avro_type: Any, named: dict[str, Any]) -> bool:
    """Return whether values of this type need no further check. Any other is checked record by record."""
    branches = branches_of(avro_type)
    if "null" in branches and not field.nullable:
        return False
    for branch in branches:
        kind = kind_of(branch)
        if kind == "null":
            continue
        definition = named.get(kind, branch)
        kind = kind_of(definition)
        if not {
            "string": kind in ("string", "enum"),
            "long": kind in ("int", "long"),
            "boolean": kind == "boolean",
            "bytes": kind == "bytes",
            "entries": kind in ("map", "record") and not _is_value(definition) and _is_afl(branch, named, set()),
            "any": _is_afl(branch, named, set()),
            "failure": kind == "record" and _is_failure(definition),
        }[field.kind]:
            return False
    return True


def _is_failure(record: Any) -> bool:
    types = {entry["name"]: entry["type"] for entry in record["fields"]}
    return types.get("type") == "string" and types.get("message") == "string"


def _is_value(schema: Any) -> bool:
    """Return whether this is the record of any AFL value. Its own reader is one function instead of five."""
    if kind_of(schema) != "record" or schema["name"] != "afl.v1.Value" or len(schema["fields"]) != 1:
        return False
    return bool(schema["fields"][0]["name"] == "value" and schema["fields"][0]["type"] == _VALUE_BRANCHES)


def _is_afl(schema: Any, named: dict[str, Any], seen: set[str]) -> bool:
    """Return whether everything that this type reads is an AFL value as it is: no bytes anywhere."""
    kind = kind_of(schema)
    if kind in named:
        if kind in seen:
            return True
        seen.add(kind)
        schema = named[kind]
        kind = kind_of(schema)
    if kind == "union":
        return all(_is_afl(branch, named, seen) for branch in schema)
    if kind == "array":
        return _is_afl(schema["items"], named, seen)
    if kind == "map":
        return _is_afl(schema["values"], named, seen)
    if kind in ("record", "error"):
        seen.add(schema["name"])
        return all(_is_afl(entry["type"], named, seen) for entry in schema["fields"])
    return kind not in ("bytes", "fixed")


def _special(compiler: ReaderCompiler, record: Any) -> Reader | None:
    if _is_value(record):
        return read_value
    namespace = record["name"].rpartition(".")[0] + "."
    if namespace.startswith((f"{PAYLOAD_NAMESPACE}.", f"{SCHEMA_NAMESPACE}.")):
        return _generated_reader(compiler, record, namespace.startswith(f"{PAYLOAD_NAMESPACE}."))
    return None


def _generated_reader(compiler: ReaderCompiler, record: Any, with_extras: bool) -> Reader | None:
    """Return the reader of a record made from a signature.

    Such records name absent fields in their last field; payloads have undeclared entries before it.
    """
    bookkeeping = record["fields"][-2 if with_extras else -1 :]
    wanted = [EXTRA_FIELD, ABSENT_FIELD] if with_extras else [ABSENT_FIELD]
    if [entry["name"].rstrip("_") for entry in bookkeeping] != wanted:
        return None
    if bookkeeping[-1]["type"] != {"type": "array", "items": "string"} or (
        with_extras and kind_of(bookkeeping[0]["type"]) != "map"
    ):
        return None
    names = [read_name(entry["name"]) for entry in record["fields"][: -len(bookkeeping)]]
    bound: dict[str, Any] = {f"name{index}": name for index, name in enumerate(names)}
    pairs = ", ".join(f"name{index}: v{index}" for index in range(len(names)))
    fields = compiler.fields(record)
    # A single zero byte means none, which nearly every record has in both places.
    lines = [f"entries = {{{pairs}}}"]
    for name, effect in (("absent", "for name in found: entries.pop(name, None)"), ("extras", "entries.update(found)")):
        if name == "absent" or with_extras:
            bound[f"read_{name}"] = fields.pop().reader
            lines[1:1] = [
                "if data[pos] == 0:",
                "    pos += 1",
                "else:",
                f"    found, pos = read_{name}(data, pos, depth)",
                f"    {effect}",
            ]
    return compile_function(fields, [*lines, "return entries, pos"], bound)


def read_entries(data: bytes, pos: int, depth: int) -> tuple[dict[str, Any], int]:
    """Read a map of afl.v1.Value: what most entries are, without a call for each."""
    depth = depth + 1 if depth < _MAX_DEPTH else go_deeper(depth)
    size = len(data)
    entries: dict[str, Any] = {}
    coded = data[pos]
    if coded < 128 and not coded & 1 and coded >> 1 < size - pos:
        # The count of one short block, as nearly all maps have.
        count, pos = coded >> 1, pos + 1
    else:
        count, pos = read_block_count(data, pos)
    while count:
        for _ in range(count):
            length = data[pos]
            if length < 128 and not length & 1 and pos + (length >> 1) < size:
                start = pos + 1
                pos = start + (length >> 1)
                key = data[start:pos].decode()
            else:
                key, pos = read_string(data, pos, depth)
            branch = data[pos]
            if branch == 8:
                length = data[pos + 1]
                if length < 128 and not length & 1 and pos + 1 + (length >> 1) < size:
                    start = pos + 2
                    pos = start + (length >> 1)
                    entries[key] = data[start:pos].decode()
                    continue
            elif branch == 4:
                coded = data[pos + 1]
                if coded < 128:
                    entries[key] = (coded >> 1) ^ -(coded & 1)
                    pos += 2
                    continue
            elif branch == 6 and pos + 9 <= size:
                entries[key] = _UNPACK_DOUBLE(data, pos + 1)[0]
                pos += 9
                continue
            entries[key], pos = read_value(data, pos, depth)
        if data[pos] == 0:
            return entries, pos + 1
        count, pos = read_block_count(data, pos)
    return entries, pos


def read_value(data: bytes, pos: int, depth: int) -> tuple[Any, int]:
    """Read the record afl.v1.Value as the plain value in it."""
    branch = data[pos]
    pos += 1
    if branch == 8:
        length = data[pos]
        if length < 128 and not length & 1 and pos + (length >> 1) < len(data):
            end = pos + 1 + (length >> 1)
            return data[pos + 1 : end].decode(), end
        return read_string(data, pos, depth)
    if branch == 0:
        return None, pos
    if branch == 4:
        return read_long(data, pos)
    if branch == 6:
        return read_double(data, pos, depth)
    if branch == 2:
        byte = data[pos]
        if byte > 1:
            raise Unreadable(Reason.BAD_AVRO, f"byte {byte} at {pos} is not a Boolean")
        return byte == 1, pos + 1
    if branch == 10:
        depth = go_deeper(depth)
        items: list[Any] = []
        count, pos = read_block_count(data, pos)
        while count:
            for _ in range(count):
                item, pos = read_value(data, pos, depth)
                items.append(item)
            count, pos = read_block_count(data, pos)
        return items, pos
    if branch == 12:
        depth = go_deeper(depth)
        entries: dict[str, Any] = {}
        count, pos = read_block_count(data, pos)
        while count:
            for _ in range(count):
                key, pos = read_string(data, pos, depth)
                entries[key], pos = read_value(data, pos, depth)
            count, pos = read_block_count(data, pos)
        return entries, pos
    raise Unreadable(Reason.BAD_AVRO, f"a value of branch {branch} before byte {pos}")
