"""Python source that writes payloads of plain types: the usual case of a signature, without a call for each value."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from afl.core.limits import LONG_MAX, LONG_MIN
from afl_stream.wire.avro.primitives import write_long

#: Parameters of one facet whose code is written out.
_MOST_INLINE: Final = 50
_PACK_DOUBLE: Final = struct.Struct("<d").pack

#: Appends the string whose bytes are in `b`.
APPEND_STRING: Final = """\
n = len(b)
if n < 64:
    out.append(n << 1)
elif n < 8192:
    out.append(n << 1 & 127 | 128)
    out.append(n >> 6)
else:
    write_long(out, n)
out += b"""
#: Appends the integer of 64 bits in `v`.
APPEND_LONG: Final = """\
n = (v << 1) ^ (v >> 63)
if n < 128:
    out.append(n)
elif n < 16384:
    out.append(n & 127 | 128)
    out.append(n >> 7)
else:
    write_long(out, v)"""

_LONG: Final = (f"type({{v}}) is int and {LONG_MIN} <= {{v}} <= {LONG_MAX}", "v = {v}\n" + APPEND_LONG)
#: By type: the condition under which a value is plain, and the code that appends it.
_PLAIN: Final[Mapping[str, tuple[str, str]]] = {
    "String": ("type({v}) is str", "b = {v}\n" + APPEND_STRING),
    "Int": _LONG,
    "Long": _LONG,
    "Double": ("type({v}) is float and {v} - {v} == 0.0", "out += pack_double({v})"),
    "Boolean": ("type({v}) is bool", "out.append({v})"),
}


def plain_payload_code(params: Sequence[Mapping[str, Any]]) -> tuple[list[str], dict[str, Any]] | None:
    """Return lines that append the payload `v`, and the values that they use by name; None: its types are not plain.

    A payload that is not plain all through (a parameter is missing, null, of another type, or undeclared) goes to
    `write_payload(out, v, 0)`, which knows all cases and explains what does not fit. Nothing is appended before that is
    known. Only positions go into the source, no names of a program.
    """
    types = [param["type"] for param in params]
    if not 0 < len(params) <= _MOST_INLINE or not all(isinstance(t, str) and t in _PLAIN for t in types):
        return None
    variables = [f"p{index}" for index in range(len(params))]
    conditions = [_PLAIN[t][0].format(v=variable) for t, variable in zip(types, variables, strict=True)]
    texts = [variable for t, variable in zip(types, variables, strict=True) if t == "String"]
    lines = [
        "payload = v",
        "try:",
        *(f"    {variable} = payload[name{index}]" for index, variable in enumerate(variables)),
        f"    plain = type(payload) is dict and len(payload) == {len(params)} and {' and '.join(conditions)}",
        "    if plain:",
        *(f"        {variable} = {variable}.encode()" for variable in texts),
        "        pass",
        # KeyError: it is absent; TypeError: this is no map; UnicodeEncodeError: half of a surrogate pair.
        "except (KeyError, TypeError, UnicodeEncodeError):",
        "    plain = False",
        "if plain:",
    ]
    for t, variable in zip(types, variables, strict=True):
        lines.append("    out.append(2)")
        lines += [f"    {line}" for line in _PLAIN[t][1].format(v=variable).splitlines()]
    lines += ["    out += nothing", "else:", "    write_payload(out, payload, 0)"]
    names: dict[str, Any] = {f"name{index}": param["name"] for index, param in enumerate(params)}
    # Neither undeclared entries nor absent names.
    return lines, names | {"pack_double": _PACK_DOUBLE, "write_long": write_long, "nothing": bytes(2)}
