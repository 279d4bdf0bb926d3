"""Python source of record readers: one function per record, the common field types inline.

A call per field costs more than reading the field. Only positions and numbers made here go into the source; names and
classes of a schema are bound as values, never pasted into code.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from afl_stream.errors import Reason, Unreadable
from afl_stream.wire.avro.primitives import bad_boolean, count_entries, go_deeper, max_depth, read_long

_STRING: Final = """\
n = data[pos]; pos += 1
if n > 127:
    m = data[pos]
    if m < 128:
        n = n & 127 | m << 7; pos += 1
    else:
        n, pos = read_long(data, pos - 1); n <<= 1
if n & 1 or n < 0:
    raise bad_length(pos)
end = pos + (n >> 1)
if end > size:
    raise IndexError(end)
{v} = data[pos:end].decode(); pos = end"""

_LONG: Final = """\
n = data[pos]; pos += 1
if n < 128:
    {v} = (n >> 1) ^ -(n & 1)
else:
    {v}, pos = read_long(data, pos - 1)"""

_DOUBLE: Final = """\
end = pos + 8
if end > size:
    raise IndexError(end)
{v} = unpack_double(data, pos)[0]; pos = end"""

_BOOLEAN: Final = """\
n = data[pos]; pos += 1
if n > 1:
    raise bad_boolean(n, pos - 1)
{v} = n == 1"""

_INLINE: Final = {"string": _STRING, "long": _LONG, "int": _LONG, "double": _DOUBLE, "boolean": _BOOLEAN}


#: Fields of one record whose code is written out.
_MOST_INLINE: Final = 200
_UNPACK_DOUBLE: Final = struct.Struct("<d").unpack_from


class CodedField(NamedTuple):
    """A field to read: its Avro type, and the reader to call if the type has no inline code here."""

    avro_type: Any
    reader: Callable[[bytes, int, int], tuple[Any, int]]
    #: It makes an entry, and no byte of the value is read for it.
    is_weightless: bool = False


def compile_function(
    fields: Sequence[CodedField], finish: Sequence[str], bound: dict[str, Any]
) -> Callable[[bytes, int, int], tuple[Any, int]]:
    """Make `read(data, pos, depth)`: it reads the fields into v0, v1, ..., then runs the `finish` lines.

    `bound` gives the values that finish lines use by name. The reader counts itself as one level.
    """
    deeper = [f"depth = depth + 1 if depth < {max_depth()} else go_deeper(depth)"]
    read: Callable[[bytes, int, int], tuple[Any, int]] = _compiled(
        "data, pos, depth", [*deeper, *_fields_code(fields), *finish], fields, bound
    )
    return read


def compile_whole(
    fields: Sequence[CodedField], finish: Sequence[str], bound: dict[str, Any]
) -> Callable[[bytes, int], Any]:
    """Make `read(data, pos)`, the reader of a whole record: fields and `finish` lines as `compile_function` does.

    What goes wrong on the way is raised as `explain(error, data)` says, which is in `bound`.
    """
    lines = ["depth = 1", "try:", *(f"    {line}" for line in [*_fields_code(fields), *finish])]
    failing = [
        "except (IndexError, UnicodeDecodeError, RecursionError) as error:",
        "    raise explain(error, data) from None",
    ]
    read: Callable[[bytes, int], Any] = _compiled("data, pos", [*lines, *failing], fields, bound)
    return read


def _fields_code(fields: Sequence[CodedField]) -> list[str]:
    weightless = sum(field.is_weightless for field in fields)
    lines: list[str] = [f"count_entries(data, {weightless})"] if weightless else []
    for index, field in enumerate(fields):
        # Compiling thousands of fields inline takes seconds, and schemas come from any writer.
        avro_type = field.avro_type if len(fields) <= _MOST_INLINE else None
        lines += _field_code(f"v{index}", f"read{index}", avro_type)
    return lines


def _compiled(arguments: str, lines: Sequence[str], fields: Sequence[CodedField], bound: dict[str, Any]) -> Any:
    source = f"def read({arguments}):\n    size = len(data)\n" + "".join(f"    {line}\n" for line in lines)
    names: dict[str, Any] = {"read_long": read_long, "bad_length": bad_length, "bad_branch": bad_branch}
    names |= {"unpack_double": _UNPACK_DOUBLE, "count_entries": count_entries}
    names |= {"bad_boolean": bad_boolean, "go_deeper": go_deeper}
    names |= {f"read{index}": field.reader for index, field in enumerate(fields)}
    names.update(bound)
    exec(compile(source, "<record reader>", "exec"), names)
    return names["read"]


def bad_length(pos: int) -> Unreadable:
    """Return the error for a negative length."""
    return Unreadable(Reason.BAD_AVRO, f"a negative length before byte {pos}")


def bad_branch(branch: int, pos: int) -> Unreadable:
    """Return the error for a branch that its union does not have."""
    return Unreadable(Reason.BAD_AVRO, f"branch {branch >> 1} of a union of two before byte {pos}")


def _field_code(variable: str, reader: str, avro_type: Any) -> list[str]:
    if _has_code(avro_type):
        return _INLINE[avro_type].format(v=variable).splitlines()
    if isinstance(avro_type, list) and avro_type[:1] == ["null"] and len(avro_type) == 2 and _has_code(avro_type[1]):
        return [
            "b = data[pos]; pos += 1",
            "if b == 0:",
            f"    {variable} = None",
            "elif b == 2:",
            *(f"    {line}" for line in _INLINE[avro_type[1]].format(v=variable).splitlines()),
            "else:",
            "    raise bad_branch(b, pos)",
        ]
    return [f"{variable}, pos = {reader}(data, pos, depth)"]


def _has_code(avro_type: Any) -> bool:
    return isinstance(avro_type, str) and avro_type in _INLINE
