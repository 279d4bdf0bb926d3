"""Checks and copies of values by their declared types, prepared once when the program is planned.

A type without a Double needs no check, and agents get plain copies of values that fit their types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Final, TypeAlias, cast

from afl.core.limits import EXACT_IN_DOUBLE, LONG_MAX, LONG_MIN
from afl.core.types import BUILTIN_TYPES, FieldsOf
from afl.core.values import Refused, refuse_inexact, segment
from afl.engine.types import Value

#: Raises Refused for an integer that a Double cannot hold exactly, if the type has a Double; else does nothing.
Look: TypeAlias = Callable[[Value], None]
#: Returns a copy of a value for an agent: integers become Doubles where the type says so. Raises Unsure.
Fit: TypeAlias = Callable[[Value], Value]

DOUBLE: Final = "Double"
_ELEMENT: Final = "elementType"


class Unsure(Exception):
    """A value does not obviously fit its declared type."""


class DeclaredTypes:
    """The types of one program; `fields_of` gives the fields of its schemas."""

    def __init__(self, fields_of: FieldsOf) -> None:
        self._fields_of = fields_of
        #: By schema: its fields that hold Doubles, and the copy functions of all its fields.
        self._double_fields: dict[str, tuple[tuple[str, object], ...]] = {}
        self._fits: dict[str, dict[str, Fit]] = {}

    def looks(self, types: Mapping[str, object]) -> dict[str, Look]:
        """Return the checks for the values of names whose types hold a Double."""
        return {name: self._look(declared) for name, declared in types.items() if self._holds_double(declared, set())}

    def fits(self, types: Mapping[str, object]) -> dict[str, Fit]:
        """Return the copy functions for an agent's values, by name."""
        return {name: self._fit(declared) for name, declared in types.items()}

    def _holds_double(self, declared: object, seen: set[str]) -> bool:
        if type(declared) is not str:
            return isinstance(declared, Mapping) and self._holds_double(declared.get(_ELEMENT), seen)
        if declared in BUILTIN_TYPES or declared in seen:
            return declared == DOUBLE
        seen.add(declared)
        fields = self._fields_of(declared) or {}
        return any(self._holds_double(field, seen) for field in fields.values())

    def _look(self, declared: object) -> Look:
        return look_at_double if declared == DOUBLE else lambda value: self._look_into(value, declared)

    def _look_into(self, value: Value, declared: object) -> None:
        kind = type(value)
        if declared == DOUBLE:
            look_at_double(value)
        elif kind is list and isinstance(declared, Mapping):
            self._look_into_items(cast("list[Value]", value), declared.get(_ELEMENT))
        elif kind is dict and type(declared) is str:
            entries = cast("dict[str, Value]", value)
            for name, field in self._doubles_in(declared):
                try:
                    self._look_into(entries.get(name), field)
                except Refused as refused:
                    raise refused.inside(segment(name)) from None

    def _look_into_items(self, items: list[Value], element: object) -> None:
        index = 0
        try:
            if element == DOUBLE:
                for index, item in enumerate(items):  # noqa: B007 - the index is read when an item is refused
                    if type(item) is int and not -EXACT_IN_DOUBLE <= item <= EXACT_IN_DOUBLE:
                        refuse_inexact(item)
            else:
                for index, item in enumerate(items):  # noqa: B007 - as above
                    self._look_into(item, element)
        except Refused as refused:
            raise refused.inside(f"[{index}]") from None

    def _doubles_in(self, schema: str) -> tuple[tuple[str, object], ...]:
        fields = self._double_fields.get(schema)
        if fields is None:
            declared = (self._fields_of(schema) or {}).items()
            fields = tuple((name, field) for name, field in declared if self._holds_double(field, set()))
            self._double_fields[schema] = fields
        return fields

    def _fit(self, declared: object) -> Fit:
        if type(declared) is not str:
            if not isinstance(declared, Mapping):
                return _fit_nothing
            element = declared.get(_ELEMENT)
            return _array_fit(self._fit(element), _kind_of(element))
        if declared in _BUILTIN_FITS:
            return _BUILTIN_FITS[declared]
        fields = self._fields_of(declared)
        if fields is None:
            # A facet's name: a reference to a step.
            return _fit_map
        fits = self._fits.get(declared)
        if fits is None:
            # Registered before it is filled: a schema may hold values of its own type.
            fits = self._fits[declared] = {}
            fits.update(self.fits(fields))
        return _record_fit(fits)


def look_at_double(value: Value) -> None:
    """Raise Refused for an integer that a Double cannot hold exactly."""
    if type(value) is int and not -EXACT_IN_DOUBLE <= value <= EXACT_IN_DOUBLE:
        refuse_inexact(value)


# --- fits: what is not plainly right is left to the full check ------------------------------------------------------


def _fit_double(value: Value) -> Value:
    kind = type(value)
    if kind is float:
        if value - value == 0.0:  # type: ignore[operator]  # a float
            return value
    elif kind is int:
        if -EXACT_IN_DOUBLE <= value <= EXACT_IN_DOUBLE:  # type: ignore[operator]  # an int
            return float(cast(int, value))
    elif value is None:
        return value
    raise Unsure


def _fit_integer(value: Value) -> Value:
    if value is None or (type(value) is int and LONG_MIN <= value <= LONG_MAX):
        return value
    raise Unsure


def _fit_string(value: Value) -> Value:
    if value is None or type(value) is str:
        return value
    raise Unsure


def _fit_boolean(value: Value) -> Value:
    if value is None or type(value) is bool:
        return value
    raise Unsure


def _fit_nothing(_value: Value) -> Value:
    raise Unsure


def _fit_map(value: Value) -> Value:
    if value is None or type(value) is dict:
        return fit_json(value)
    raise Unsure


def fit_json(value: Value) -> Value:
    """Return a copy of a value of any type. Raises Unsure."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return value
    if kind is int:
        return _fit_integer(value)
    if kind is float:
        return _fit_double(value)
    if kind is list:
        items = cast("list[Value]", value)
        return items[:] if _are_plain(items, None) else [fit_json(item) for item in items]
    if kind is dict:
        return {key: fit_json(item) for key, item in cast("dict[str, Value]", value).items()}
    raise Unsure


def _array_fit(fit: Fit, plain: type | None) -> Fit:
    def fit_array(value: Value) -> Value:
        if type(value) is list:
            return value[:] if plain is not None and _are_plain(value, plain) else [fit(item) for item in value]
        if value is None:
            return value
        raise Unsure

    return fit_array


def _record_fit(fits: Mapping[str, Fit]) -> Fit:
    def fit_record(value: Value) -> Value:
        if type(value) is dict:
            try:
                return {name: fits[name](item) for name, item in value.items()}
            except KeyError:
                raise Unsure from None
        if value is None:
            return value
        raise Unsure

    return fit_record


def _kind_of(element: object) -> type | None:
    """Return the class of an array's items that can be copied as they are."""
    row = BUILTIN_TYPES.get(element) if type(element) is str else None
    return None if row is None else row.kind


def _are_plain(items: list[Value], wanted: type | None) -> bool:
    """Say whether all items are texts, or numbers in range, of one type: of the wanted type, if it is given."""
    kinds = set(map(type, items))
    if len(kinds) != 1:
        return not kinds
    kind = kinds.pop()
    if wanted is not None and kind is not wanted:
        return False
    if kind is float:
        # The sum of finite numbers may be infinite: then they are checked one by one.
        return isfinite(sum(cast("list[float]", items)))
    if kind is int:
        integers = cast("list[int]", items)
        return min(integers) >= LONG_MIN and max(integers) <= LONG_MAX
    return kind is str or kind is bool


_FIT_OF_KIND: Final[Mapping[type | None, Fit]] = {
    str: _fit_string,
    int: _fit_integer,
    float: _fit_double,
    bool: _fit_boolean,
    None: fit_json,
}
_BUILTIN_FITS: Final[Mapping[str, Fit]] = {name: _FIT_OF_KIND[row.kind] for name, row in BUILTIN_TYPES.items()}
