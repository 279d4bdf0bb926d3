"""AFL values that carry no declared type: their checks, the words for them in errors, and their bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from afl_stream.avro_primitives import write_double, write_long, write_string
from afl_stream.errors import Reason, ValueRefused
from afl_stream.limits import LONG_MAX, LONG_MIN, MAX_VALUE_DEPTH

#: Returns the value, coerced; raises Refused. The number is the depth.
Check: TypeAlias = Callable[[Any, int], Any]
#: Appends the bytes of a value that may be anything; raises Refused.
Write: TypeAlias = Callable[[bytearray, Any, int], None]


class Refused(Exception):  # internal: becomes ValueRefused once the path is known
    """A value does not fit; `segments` grows from the inside out."""

    def __init__(self, afl_type: str, found: str, reason: Reason = Reason.WRONG_TYPE) -> None:
        super().__init__(afl_type, found)
        self.afl_type = afl_type
        self.found = found
        self.reason = reason
        self.segments: list[str] = []

    def inside(self, segment: str) -> Refused:
        """Add the place that the refused value was met in."""
        self.segments.append(segment)
        return self

    def at(self, path: str) -> ValueRefused:
        """Return the error to raise, with the whole path."""
        return ValueRefused(path + "".join(reversed(self.segments)), self.afl_type, self.found)


def describe_value(value: object) -> str:
    """Say for an error what a value is, in AFL's words and at a bounded length."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"the Boolean {'true' if value else 'false'}"
    if isinstance(value, str):
        return f"the String {shorten(repr(value))}"
    if isinstance(value, int):
        # Python refuses to print integers of many thousand digits.
        shown = str(value) if value.bit_length() < 1_000 else f"of {value.bit_length()} bits"
        return f"the integer {shorten(shown)}" + ("" if LONG_MIN <= value <= LONG_MAX else ", beyond 64 bits")
    if isinstance(value, float):
        return f"the Double {value!r}"
    if isinstance(value, Mapping):
        return f"a map with {len(value)} entries"
    if isinstance(value, list | tuple):
        return f"an array of {len(value)}"
    return f"a value of Python type {type(value).__name__}"


def check_string(value: Any, depth: int = 0) -> str:
    """Check a String."""
    if not isinstance(value, str):
        raise Refused("String", describe_value(value))
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise Refused("String", f"a lone surrogate at index {error.start}", Reason.BAD_UTF8) from error
    return value


def check_integer(value: Any, depth: int = 0, name: str = "Long") -> int:
    """Check an Int or a Long."""
    if type(value) is not int and (not isinstance(value, int) or isinstance(value, bool)):
        raise Refused(name, describe_value(value))
    if not LONG_MIN <= value <= LONG_MAX:
        raise Refused(name, describe_value(value), Reason.NUMBER_OUT_OF_RANGE)
    return value


def check_double(value: Any, depth: int = 0) -> float:
    """Check a Double; an integer that a Double holds exactly becomes one."""
    if isinstance(value, float):
        if value - value != 0.0:  # NaN and the infinities, and nothing else.
            raise Refused("Double", describe_value(value))
        return value
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refused("Double", describe_value(value))
    try:
        exact = float(value)
    except OverflowError:
        raise Refused("Double", describe_value(value)) from None
    if int(exact) != value:
        raise Refused("Double", f"{describe_value(value)}, which no Double holds exactly")
    return exact


def check_boolean(value: Any, depth: int = 0) -> bool:
    """Check a Boolean."""
    if value is True or value is False:
        return bool(value)
    raise Refused("Boolean", describe_value(value))


def check_json(value: Any, depth: int = 0) -> Any:
    """Check any AFL value; containers are copied."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return check_string(value)
    if isinstance(value, int):
        return check_integer(value, 0, "Json")
    if isinstance(value, float):
        if value - value != 0.0:
            raise Refused("Json", describe_value(value), Reason.NUMBER_OUT_OF_RANGE)
        return value
    if isinstance(value, Mapping):
        return check_entries(value, depth)
    if isinstance(value, list | tuple):
        refuse_depth(depth, "Json")
        items: list[Any] = []
        try:
            for item in value:
                items.append(check_json(item, depth + 1))
        except Refused as refused:
            raise refused.inside(f"[{len(items)}]") from None
        return items
    raise Refused("Json", describe_value(value))


def check_entries(value: Any, depth: int = 0, name: str = "Json") -> dict[str, Any]:
    """Check a map of any AFL values."""
    if type(value) is not dict and not isinstance(value, Mapping):
        raise Refused(name, describe_value(value))
    refuse_depth(depth, name)
    entries: dict[str, Any] = {}
    key: Any = None
    try:
        for key, item in value.items():
            check_key(key, name)
            entries[key] = check_json(item, depth + 1)
    except Refused as refused:
        raise refused.inside(segment(key)) from None
    return entries


def check_key(key: Any, name: str) -> str:
    """Check the key of a map."""
    if not isinstance(key, str):
        raise Refused(name, f"a map key that is {describe_value(key)}")
    return check_string(key)


def write_json(out: bytearray, value: Any, depth: int = 0) -> None:
    """Append any AFL value as the record afl.v1.Value."""
    if value is None:
        out.append(0)
    elif isinstance(value, str):
        out.append(8)
        write_string(out, check_string(value))
    elif value is True or value is False:
        out += b"\x02\x01" if value else b"\x02\x00"
    elif isinstance(value, int):
        check_integer(value, 0, "Json")
        out.append(4)
        write_long(out, value)
    elif isinstance(value, float):
        if value - value != 0.0:
            raise Refused("Json", describe_value(value), Reason.NUMBER_OUT_OF_RANGE)
        out.append(6)
        write_double(out, value)
    elif type(value) is dict or isinstance(value, Mapping):
        out.append(12)
        write_entries(out, value, depth)
    elif isinstance(value, list | tuple):
        out.append(10)
        write_items(out, value, depth, "Json", write_json)
    else:
        raise Refused("Json", describe_value(value))


def write_entries(out: bytearray, value: Any, depth: int = 0, name: str = "Json") -> None:
    """Append a map of any AFL values."""
    if type(value) is not dict and not isinstance(value, Mapping):
        raise Refused(name, describe_value(value))
    refuse_depth(depth, name)
    if value:
        write_long(out, len(value))
        key: Any = None
        try:
            for key, item in value.items():
                write_string(out, check_key(key, name))
                write_json(out, item, depth + 1)
        except Refused as refused:
            raise refused.inside(segment(key)) from None
    out.append(0)


def write_items(out: bytearray, value: Any, depth: int, name: str, write: Write) -> None:
    refuse_depth(depth, name)
    if value:
        write_long(out, len(value))
        index = 0
        try:
            for index, item in enumerate(value):  # noqa: B007 - the index is read when an item is refused
                write(out, item, depth + 1)
        except Refused as refused:
            raise refused.inside(f"[{index}]") from None
    out.append(0)


def refuse_depth(depth: int, name: str) -> None:
    if depth >= MAX_VALUE_DEPTH:
        raise Refused(name, f"a value nested deeper than {MAX_VALUE_DEPTH} levels", Reason.TOO_DEEP)


def segment(key: object) -> str:
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{shorten(repr(key))}]"


def shorten(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
