"""The type of a value as far as it is known at compile time."""

from __future__ import annotations

from typing import NamedTuple

from afl import ast
from afl.core.types import NUMBER_TYPES, SCALAR_TYPES
from afl.core.values import Refused, check_double

ARITHMETIC = frozenset({"+", "-", "*", "/", "%"})


class ValueType(NamedTuple):
    """A known type: a builtin's name, `Null`, `Array`, `Map`, `schema` with the schema's qualified name, or `step`.

    `facet` is the qualified name of the facet of a `step`, or of the mixin whose attributes a `Map` holds. An unknown
    type (Json, values of unknown facets) is None instead.
    """

    name: str
    element: ValueType | None = None
    schema: str = ""
    facet: str = ""

    @property
    def is_object(self) -> bool:
        """Return whether it is a schema's value or a reference to a step: only equality takes those."""
        return bool(self.schema) or self.name == "step"

    def __str__(self) -> str:
        if self.name == "Array":
            return f"[{self.element}]" if self.element else "array"
        if self.name == "step":
            return f"{self.facet} step"
        return self.schema or {"Map": "map", "Null": "null"}.get(self.name, self.name)


BY_NAME = {name: ValueType(name) for name in SCALAR_TYPES}
STRING, BOOLEAN = BY_NAME["String"], BY_NAME["Boolean"]
INT, LONG, DOUBLE = BY_NAME["Int"], BY_NAME["Long"], BY_NAME["Double"]
NULL = ValueType("Null")
MAP = ValueType("Map")
BY_LITERAL_KIND = {"string": STRING, "integer": INT, "double": DOUBLE, "boolean": BOOLEAN, "null": NULL}


def arithmetic_result(operator: str, left: ValueType | None, right: ValueType | None) -> ValueType | None:
    """Return the type of `left operator right` for numbers; None as soon as one side is not known to be one."""
    if left is None or right is None or left.name not in NUMBER_TYPES or right.name not in NUMBER_TYPES:
        return None
    if operator == "/" or "Double" in (left.name, right.name):
        return DOUBLE
    return LONG if "Long" in (left.name, right.name) else INT


def mismatch(declared: ValueType | None, value: ast.Expression) -> tuple[ast.Expression, ValueType, ValueType] | None:
    """Return the constant that contradicts a declared type, its type and the wanted type; None if it fits.

    Only constants are checked: a computed value shows its type at run time.
    """
    if declared is None or declared.schema:
        return None
    found = _constant_type(value)
    if found is None or found is NULL or (declared.name == "step" and found is MAP):
        return None
    if declared.name == "Array":
        if isinstance(value, ast.ArrayLiteral):
            return next((wrong for item in value.elements if (wrong := mismatch(declared.element, item))), None)
        return value, found, declared
    if found.name == declared.name or (found is INT and declared.name in NUMBER_TYPES):
        return None
    return value, found, declared


def inexact_integer(declared: ValueType | None, value: ast.Expression) -> ast.Expression | None:
    """Return the constant integer that is given to a Double and that a Double cannot hold exactly; None without one."""
    if declared is None:
        return None
    if declared.name == "Array" and isinstance(value, ast.ArrayLiteral):
        return next((wrong for item in value.elements if (wrong := inexact_integer(declared.element, item))), None)
    if declared.name != "Double":
        return None
    literal = value.operand if isinstance(value, ast.UnaryExpr) and value.operator == "-" else value
    if isinstance(literal, ast.Literal) and literal.kind == "integer":
        try:
            check_double(literal.value)
        except Refused:
            return value
    return None


def _constant_type(value: ast.Expression) -> ValueType | None:
    if isinstance(value, ast.Reference):
        return None  # most values take this path
    if isinstance(value, ast.Literal):
        return BY_LITERAL_KIND[value.kind]
    if isinstance(value, ast.UnaryExpr) and value.operator == "-":
        inner = _constant_type(value.operand)
        return inner if inner is not None and inner.name in NUMBER_TYPES else None
    if isinstance(value, ast.ArrayLiteral):
        return ValueType("Array")
    return MAP if isinstance(value, ast.MapLiteral) else None
