"""AFL values: their definition, their check, and the error messages about other objects.

All data from outside (inputs, answers, results of handlers and scripts, rows edited by hand) goes through `plain_value`
once, where it comes in. So the engine passes on, stores, sends and prints only plain data: null, Booleans, finite
numbers, texts that UTF-8 can encode, lists, and maps with texts as keys.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, cast

from afl.core.errors import AFLError
from afl.core.limits import EXACT_IN_DOUBLE, LONG_MAX, LONG_MIN, MAX_VALUE_DEPTH
from afl.core.text.exception_text import class_name
from afl.core.text.printable import printable

#: Bits of an integer of a type. Those that an expression makes on the way may have more.
LONG_BITS: Final = 63

_TOO_DEEP: Final = f"a value nested deeper than {MAX_VALUE_DEPTH} levels"

#: Characters that a message shows of a value, and of a key in a path.
_MAX_SHOWN_CHARS: Final = 80
#: The most parts of a path that a message shows.
_MAX_SEGMENTS: Final = 12
#: The most entries taken from a map that is not a dict: it may be endless.
_MAX_FOREIGN_ENTRIES: Final = 1_000_000

#: What people hand in that is no value, and what would be one: module, classes, words. The first that fits is told.
_INSTEAD: Final[tuple[tuple[str, tuple[str, ...], str], ...]] = (
    ("builtins", ("set", "frozenset"), "a list would fit"),
    ("builtins", ("bytes", "bytearray", "memoryview"), "text would fit, for instance base64"),
    ("decimal", ("Decimal",), "a Double would fit, or text where every digit counts"),
    ("fractions", ("Fraction",), "a Double would fit, or text where every digit counts"),
    ("datetime", ("date", "time"), "text would fit, for instance isoformat()"),
    ("datetime", ("timedelta",), "a number would fit, for instance total_seconds()"),
    ("uuid", ("UUID",), "text would fit, str() of it"),
)


class Flaw(StrEnum):
    """The way in which an object fails to be a value, or to be of its type."""

    WRONG_TYPE = "wrong_type"
    NUMBER_OUT_OF_RANGE = "number_out_of_range"
    BAD_TEXT = "bad_text"
    TOO_DEEP = "too_deep"


class ValueRefused(AFLError, ValueError):
    """An object is not an AFL value, or does not fit the declared AFL type.

    `path` leads to it (`inputs.items[3]`), `afl_type` is the expected type, `found` describes the object.
    """

    def __init__(self, path: str, afl_type: str, found: str) -> None:
        shown = f"{printable(path)}: {_wanted(afl_type)} was expected, found {printable(found)}"
        super().__init__(shown)
        self.path = path
        self.afl_type = afl_type
        self.found = found

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.afl_type, self.found)


class Refused(Exception):  # internal: becomes ValueRefused once the path is known
    """A value does not fit; `segments` grows from the inside out."""

    def __init__(self, afl_type: str, found: str, flaw: Flaw = Flaw.WRONG_TYPE) -> None:
        super().__init__(afl_type, found)
        self.afl_type = afl_type
        self.found = found
        self.flaw = flaw
        self.segments: list[str] = []

    def inside(self, segment: str) -> Refused:
        """Add the place inside which the refused value was found."""
        self.segments.append(segment)
        return self

    def path_from(self, path: str) -> str:
        """Return the path to the refused value: all of it, or only its beginning when it is too long."""
        segments = self.segments[::-1]
        if len(segments) > _MAX_SEGMENTS:
            segments[_MAX_SEGMENTS:] = ["..."]
        return path + "".join(segments)

    def at(self, path: str) -> ValueRefused:
        """Return the error to raise, with the whole path."""
        return ValueRefused(self.path_from(path), self.afl_type, self.found)


# --- words --------------------------------------------------------------------------------------------------------


def describe_value(value: object) -> str:
    """Describe a value for an error, in AFL's words and at a bounded length. Runs none of the value's own code."""
    kind = type(value)
    if value is None:
        return "null"
    if kind is bool:
        return f"the Boolean {'true' if value else 'false'}"
    if issubclass(kind, str):
        return f"the String {shorten(repr(str.__str__(cast(str, value))[: _MAX_SHOWN_CHARS + 1]))}"
    if issubclass(kind, int):
        number = int.__int__(cast(int, value))
        # Python refuses to print integers of many thousand digits.
        shown = str(number) if number.bit_length() < 1_000 else f"of {number.bit_length()} bits"
        return f"the integer {shorten(shown)}" + ("" if LONG_MIN <= number <= LONG_MAX else ", beyond 64 bits")
    if issubclass(kind, float):
        double = float.__float__(cast(float, value))
        return f"the Double {double!r}" + ("" if double - double == 0.0 else ", which is not a finite number")
    if issubclass(kind, dict):
        return f"a map with {dict.__len__(cast('dict[object, object]', value))} entries"
    if issubclass(kind, list | tuple):
        return f"an array of {list.__len__(value) if issubclass(kind, list) else tuple.__len__(value)}"  # type: ignore[arg-type]  # as said
    if issubclass(kind, Mapping):
        return "a map"
    return f"a value of Python type {class_name(kind)}{_instead(kind)}"


def _instead(kind: type) -> str:
    """Return what would be a value in the place of one of this class, where we know."""
    for module, names, text in _INSTEAD:
        # A module that is not loaded has no instances, and costs the start of no command.
        loaded = sys.modules.get(module)
        if loaded is not None and issubclass(kind, tuple(getattr(loaded, name) for name in names)):
            return f"; {text}"
    return ""


def segment(key: object) -> str:
    """Return the part of a path for a key."""
    if type(key) is _Key:
        key = key.key
    kind = type(key)
    if issubclass(kind, str):
        text = str.__str__(cast(str, key))
        return f".{text}" if text.isidentifier() else f"[{shorten(repr(text[: _MAX_SHOWN_CHARS + 1]))}]"
    return f"[{key}]" if kind is int and abs(cast(int, key)) < LONG_MAX else f"[{describe_value(key)}]"


def shorten(text: str) -> str:
    """Return a text, cut if it is too long for a message."""
    return text if len(text) <= _MAX_SHOWN_CHARS else text[: _MAX_SHOWN_CHARS - 3] + "..."


def _wanted(afl_type: str) -> str:
    # Json is also the type of values without a declared type.
    if afl_type == "Json":
        return "a JSON value"
    return f"{'an' if afl_type[:1] in 'AEIOUaeiou' else 'a'} {printable(afl_type)}"


# --- checks of one kind of value each; `depth` is how many lists and maps the value stands in ----------------------


def check_string(value: Any, _depth: int = 0) -> str:
    """Check a String."""
    if not isinstance(value, str):
        raise Refused("String", describe_value(value))
    if not value.isascii():
        _check_text(value, "String")
    return value


def _check_text(value: str, name: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Refused(name, f"a lone surrogate at index {error.start}", Flaw.BAD_TEXT) from None


def check_integer(value: Any, _depth: int = 0, name: str = "Long") -> int:
    """Check an Int or a Long."""
    if type(value) is not int and (not isinstance(value, int) or isinstance(value, bool)):
        raise Refused(name, describe_value(value))
    if not LONG_MIN <= value <= LONG_MAX:
        raise Refused(name, describe_value(value), Flaw.NUMBER_OUT_OF_RANGE)
    return value


def check_double(value: Any, _depth: int = 0) -> float:
    """Check a Double; an integer that a Double holds exactly is converted."""
    if isinstance(value, float):
        if value - value != 0.0:  # NaN and the infinities only.
            raise Refused("Double", describe_value(value), Flaw.NUMBER_OUT_OF_RANGE)
        return value
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refused("Double", describe_value(value))
    if not -EXACT_IN_DOUBLE <= value <= EXACT_IN_DOUBLE:
        refuse_inexact(value)
    return float(value)


def refuse_inexact(value: int) -> None:
    """Raise Refused for an integer that a Double cannot hold exactly."""
    try:
        if int(float(value)) == value:
            return
    except OverflowError:
        pass
    raise Refused("Double", f"{describe_value(value)}, which no Double holds exactly", Flaw.NUMBER_OUT_OF_RANGE)


def check_boolean(value: Any, _depth: int = 0) -> bool:
    """Check a Boolean."""
    if value is True or value is False:
        return bool(value)
    raise Refused("Boolean", describe_value(value))


def check_json(value: Any, depth: int = 0, bits: int = LONG_BITS) -> Any:
    """Check any AFL value and return it as plain data: containers copied, subclasses as their base classes.

    Runs no code of the value's own class, except for maps that are not dicts. `bits` bounds an integer.
    """
    kind = type(value)
    if kind is str:
        if not value.isascii():
            _check_text(value, "String")
        return value
    if value is None or kind is bool:
        return value
    if kind is int:
        if not LONG_MIN <= value <= LONG_MAX and value.bit_length() > bits:
            raise Refused("Json", describe_value(value), Flaw.NUMBER_OUT_OF_RANGE)
        return value
    if kind is float:
        if value - value != 0.0:
            raise Refused("Json", describe_value(value), Flaw.NUMBER_OUT_OF_RANGE)
        return value
    if kind is list:
        return _plain_items(value, depth, bits)
    if kind is dict:
        return check_entries(value, depth, "Json", bits)
    return _check_subclass(value, kind, depth, bits)


def _check_subclass(value: Any, kind: type, depth: int, bits: int) -> Any:
    """Check an object of a subclass, reading its content only by the methods of the base class."""
    if issubclass(kind, str):
        return check_json(str.__str__(value), depth)
    if issubclass(kind, int):
        return check_json(int.__int__(value), depth, bits)
    if issubclass(kind, float):
        return check_json(float.__float__(value), depth)
    if issubclass(kind, list):
        return _plain_items(list.__iter__(value), depth, bits)
    if issubclass(kind, tuple):
        return _plain_items(tuple.__iter__(value), depth, bits)
    if issubclass(kind, Mapping):
        return check_entries(value, depth, "Json", bits)
    raise Refused("Json", describe_value(value))


def _plain_items(elements: Any, depth: int, bits: int) -> list[Any]:
    refuse_depth(depth, "Json")
    items: list[Any] = []
    try:
        for item in elements:
            items.append(check_json(item, depth + 1, bits))
    except Refused as refused:
        raise refused.inside(f"[{len(items)}]") from None
    return items


def check_entries(value: Any, depth: int = 0, name: str = "Json", bits: int = LONG_BITS) -> dict[str, Any]:
    """Check a map of any AFL values."""
    refuse_depth(depth, name)
    given = entries_of(value, name)
    entries: dict[str, Any] = {}
    key: Any = None
    try:
        for key, item in given.items():
            key = check_key(key, name)
            entries[key] = check_json(item, depth + 1, bits)
    except Refused as refused:
        raise refused.inside(segment(key)) from None
    return entries


def entries_of(value: Any, name: str = "Json") -> dict[Any, Any]:
    """Return the entries of a map, by `dict`'s own methods where it is one. Raises Refused for other objects."""
    kind = type(value)
    if kind is dict:
        return cast("dict[Any, Any]", value)
    if issubclass(kind, dict):
        return dict(dict.items(value))
    if not issubclass(kind, Mapping):
        raise Refused(name, describe_value(value))
    entries: dict[Any, Any] = {}
    for key, item in value.items():
        if len(entries) >= _MAX_FOREIGN_ENTRIES:
            raise Refused(name, f"a {class_name(kind)} with more than {_MAX_FOREIGN_ENTRIES:,} entries", Flaw.TOO_DEEP)
        # A key's own `__hash__` and `__eq__` are not called.
        entries[str.__str__(key) if issubclass(type(key), str) else _Key(key)] = item
    return entries


class _Key:
    """The key of a foreign map that is not a text, until it is refused."""

    def __init__(self, key: object) -> None:
        self.key = key


def check_key(key: Any, name: str) -> str:
    """Check the key of a map."""
    if type(key) is str and key.isascii():
        return key
    if type(key) is _Key:
        key = key.key
    if not issubclass(type(key), str):
        raise Refused(name, f"a map key that is {describe_value(key)}; keys are Strings")
    text = str.__str__(key)
    _check_text(text, "String")
    return text


def refuse_depth(depth: int, name: str) -> None:
    """Raise Refused where a list or map stands too deep."""
    if depth >= MAX_VALUE_DEPTH:
        raise Refused(name, _TOO_DEEP, Flaw.TOO_DEEP)


def too_deep(value: object, name: str = "Json") -> Refused:
    """Return the refusal of a value that nests too deep, or that contains itself."""
    place = place_in_itself(value)
    if place is None:
        return Refused(name, _TOO_DEEP, Flaw.TOO_DEEP)
    kind = "a map" if issubclass(type(place[1]), dict) else "an array"
    refused = Refused(name, f"{kind} that contains itself", Flaw.TOO_DEEP)
    refused.segments = place[0][::-1]
    return refused


def refused_in(refused: Refused, value: object) -> Refused:
    """Return the refusal of something inside `value`; when it is too deep because it contains itself, say so."""
    if refused.flaw is Flaw.TOO_DEEP and place_in_itself(value) is not None:
        return too_deep(value, refused.afl_type)
    return refused


def _parts_of(value: Any) -> list[tuple[Any, object]]:
    """Return the content of a list, tuple or dict by index or key, read by the builtin class's methods."""
    kind = type(value)
    if issubclass(kind, dict):
        return list(dict.items(value))
    return list(enumerate(list.__iter__(value) if issubclass(kind, list) else tuple.__iter__(value)))


def place_in_itself(value: object) -> tuple[list[str], object] | None:
    """Return the place where a list or map contains itself, and that list or map; None when there is none.

    Each list and map is visited once, however often it occurs.
    """
    segments: list[str] = []
    around: list[object] = []
    finished: dict[int, object] = {}

    def search(current: object) -> object | None:
        kind = type(current)
        if not issubclass(kind, list | tuple | dict) or id(current) in finished:
            return None
        if any(current is other for other in around):
            return current
        if len(around) > 4 * MAX_VALUE_DEPTH:
            return None
        around.append(current)
        for key, part in _parts_of(current):
            segments.append(f"[{key}]" if type(key) is int else segment(key))
            found = search(part)
            if found is not None:
                return found
            segments.pop()
        around.pop()
        finished[id(current)] = current
        return None

    holder = search(value)
    return None if holder is None else (segments, holder)


# --- whole values from outside ------------------------------------------------------------------------------------


def plain_value(value: object, path: str, bits: int = LONG_BITS) -> Any:
    """Return an AFL value as plain data that shares no list or map with the given one. Raises ValueRefused."""
    try:
        return check_json(value, 0, bits)
    except Refused as refused:
        raise refused_in(refused, value).at(path) from None


def is_flat(value: dict[Any, Any]) -> bool:
    """Say whether a dict holds only plain scalars that are AFL values, as most results do."""
    try:
        for key, item in value.items():
            if type(key) is not str or not key.isascii():
                return False
            kind = type(item)
            if kind is str:
                if not item.isascii():
                    return False
            elif kind is int:
                if not LONG_MIN <= item <= LONG_MAX:
                    return False
            elif kind is float:
                if item - item != 0.0:
                    return False
            elif kind is not bool and item is not None:
                return False
    except RuntimeError:  # Other threads of the caller change it meanwhile.
        return False
    return True


def plain_values(values: Mapping[str, object], path: str, bits: int = LONG_BITS) -> dict[str, Any]:
    """Return values by name as plain data that shares no list or map with the given one. Raises ValueRefused.

    Each may be as deep as a value may be: they do not share one map.
    """
    if type(values) is dict and is_flat(values):
        return dict(values)
    plain: dict[str, Any] = {}
    name: Any = None
    value: object = None
    try:
        for name, value in entries_of(values, "map").items():
            plain[check_key(name, "Json")] = check_json(value, 0, bits)
    except Refused as refused:
        inside = "" if name is None else segment(name)
        raise refused_in(refused, value).inside(inside).at(path) from None
    return plain
