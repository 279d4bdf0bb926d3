"""Payloads and results as classes: what `afl codegen --lang python` writes stands on these.

A class of a payload, a result or a schema is a `Record`: a frozen dataclass whose annotations are its types. A `Facet`
turns a function of a payload's class to a result's class into a handler, which an agent can register.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from afl.core.handlers.calling import Deferred, Handler, call_shape
from afl.core.handlers.context import HandlerContext
from afl.core.values import (
    Refused,
    check_boolean,
    check_double,
    check_entries,
    check_integer,
    check_json,
    check_string,
    describe_value,
    entries_of,
    refuse_depth,
    segment,
)

#: Any AFL value: null, a Boolean, a number, a text, a list, or a map with texts as keys.
Json: TypeAlias = Any
#: The key of a field's metadata that holds its name in AFL, where Python cannot use that.
AFL_NAME: Final = "afl"

_Read: TypeAlias = Callable[[Any, int], Any]
_CHECKS: Final[Mapping[object, _Read]] = {
    str: check_string,
    int: check_integer,
    float: check_double,
    bool: check_boolean,
    Any: check_json,
}


class Record:
    """A payload, a result, or a value of a schema.

    Subclasses are frozen dataclasses. A field that is null and whose default is null is left out of the JSON.
    """

    __slots__ = ()

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Return the record of a map; entries that it has no field for are left out.

        Raises ValueRefused, which names the first value that is missing or of another type.
        """
        try:
            return _read(cls, value, 0)
        except Refused as refused:
            raise refused.at(cls.__name__) from None

    def to_json(self) -> dict[str, Any]:
        """Return the record as a map, by the names of AFL."""
        written: dict[str, Any] = {}
        for field in _fields_of(type(self)):
            value = getattr(self, field.attribute)
            if value is not None or field.default is not None:
                written[field.name] = _plain(value)
        return written


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    """A field of a record: its names in Python and in AFL, and how its values are read."""

    attribute: str
    name: str
    afl_type: str
    read: _Read
    #: MISSING: the field has none.
    default: object


#: The fields of each class of records that was used.
_KNOWN: Final[dict[type[Record], tuple[_Field, ...]]] = {}


def _fields_of(record: type[Record]) -> tuple[_Field, ...]:
    known = _KNOWN.get(record)
    if known is None:
        known = _KNOWN[record] = _inspected(record)
    return known


def _inspected(record: type[Record]) -> tuple[_Field, ...]:
    hints = get_type_hints(record)
    found: list[_Field] = []
    for field in dataclasses.fields(record):  # type: ignore[arg-type]  # every subclass is a dataclass
        read, afl_type = _reader(hints[field.name])
        found.append(_Field(field.name, field.metadata.get(AFL_NAME, field.name), afl_type, read, field.default))
    return tuple(found)


def _reader(hint: Any) -> tuple[_Read, str]:
    """Return the function that reads values of an annotation, and the type as AFL calls it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        read, afl_type = _reader(next(one for one in arguments if one is not type(None)))
        return (lambda value, depth: None if value is None else read(value, depth)), afl_type
    if origin is list:
        return _list_reader(arguments[0])
    if origin is dict:
        return check_entries, "map"
    if isinstance(hint, type) and issubclass(hint, Record):
        return (lambda value, depth: _read(hint, value, depth)), hint.__name__
    names = {str: "String", int: "Long", float: "Double", bool: "Boolean", Any: "Json"}
    return _CHECKS[hint], names[hint]


def _list_reader(element: Any) -> tuple[_Read, str]:
    read, element_type = _reader(element)
    afl_type = f"[{element_type}]"

    def read_list(value: Any, depth: int) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise Refused(afl_type, describe_value(value))
        refuse_depth(depth, afl_type)
        items: list[Any] = []
        try:
            for item in value:
                items.append(read(item, depth + 1))
        except Refused as refused:
            raise refused.inside(f"[{len(items)}]") from None
        return items

    return read_list, afl_type


_R = TypeVar("_R", bound=Record)


def _read(record: type[_R], value: object, depth: int) -> _R:
    entries = entries_of(value, record.__name__)
    refuse_depth(depth, record.__name__)
    given: dict[str, Any] = {}
    name = ""
    try:
        for field in _fields_of(record):
            name = field.name
            if name in entries:
                given[field.attribute] = field.read(entries[name], depth + 1)
            elif field.default is dataclasses.MISSING:
                raise Refused(field.afl_type, "nothing")
    except Refused as refused:
        raise refused.inside(segment(name)) from None
    return record(**given)


def _plain(value: Any) -> Any:
    """Return a value with the records in it as maps."""
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


PayloadT = TypeVar("PayloadT", bound=Record)
ResultT = TypeVar("ResultT", bound="Record | None")


@dataclasses.dataclass(frozen=True, slots=True)
class Facet(Generic[PayloadT, ResultT]):
    """An event facet: its full name, and the class of its payload."""

    name: str
    payload: type[PayloadT]

    def handler(
        self,
        function: Callable[[PayloadT], ResultT | Deferred | Awaitable[ResultT | Deferred]]
        | Callable[[PayloadT, HandlerContext], ResultT | Deferred | Awaitable[ResultT | Deferred]],
    ) -> Handler:
        """Return a handler that calls a function, or coroutine function, with the payload as its class.

        A payload that does not fit fails the step as ValueRefused.
        """
        shape = call_shape(function)
        read, call = self.payload.from_json, _with_context(function, shape.takes_context)

        def handle(payload: dict[str, Any], context: HandlerContext) -> object:
            return _answer(call(read(payload), context))

        async def handle_async(payload: dict[str, Any], context: HandlerContext) -> object:
            return _answer(await call(read(payload), context))

        wrapped: Handler = handle_async if shape.is_async else handle
        # What logs and refusals name is the function, not this module.
        wrapped.__module__ = getattr(function, "__module__", __name__)
        wrapped.__qualname__ = wrapped.__name__ = getattr(function, "__name__", "handle")
        return wrapped


def _with_context(function: Callable[..., Any], takes_context: bool) -> Callable[..., Any]:
    return function if takes_context else lambda payload, _context: function(payload)


def _answer(result: object) -> object:
    return result.to_json() if isinstance(result, Record) else result
