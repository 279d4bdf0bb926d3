"""AFL's operators on values: strict about kinds, exact on integers, deep on equality."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from afl.engine.limits import MAX_INTEGER_BITS
from afl.engine.types import Value
from afl.engine.values.rendering import render_text, type_name
from afl.engine.values.sizes import counting

#: An operator's computation on two values whose kinds were checked.
Operation = Callable[[Value, Value], Value]


class OperationError(Exception):
    """An operator cannot be applied to its operands. The message is for people; the caller knows the expression."""


#: Kinds that Python compares like AFL, as long as both sides are of the same one.
_PLAIN: Final = frozenset({bool, int, float, str, type(None)})
_NUMBERS: Final = frozenset({int, float})


def is_number(value: object) -> bool:
    """Say whether a value is an Int, Long or Double. A Boolean is not a number."""
    return type(value) in _NUMBERS or (isinstance(value, int | float) and not isinstance(value, bool))


def values_equal(left: object, right: object) -> bool:
    """Compare deeply: numbers by value, Booleans only with Booleans, other kinds only with their own."""
    if left is right:
        # Includes values that occur more than once inside: written out, these would take as long as their full size.
        return True
    if type(left) in _PLAIN and type(left) is type(right):
        return left == right
    if isinstance(left, list):
        if not isinstance(right, list) or len(left) != len(right):
            return False
        counting.entries_read += len(left)
        return all(map(values_equal, left, right))
    if isinstance(left, Mapping):
        if not isinstance(right, Mapping) or left.keys() != right.keys():
            return False
        counting.entries_read += len(left)
        return all(values_equal(entry, right[key]) for key, entry in left.items())
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if is_number(left):
        return is_number(right) and left == right
    return type(left) is type(right) and left == right


def _equals(left: Value, right: Value) -> bool:
    try:
        return values_equal(left, right)
    except RecursionError:
        raise OperationError("the values are nested too deeply to compare") from None


def _differs(left: Value, right: Value) -> bool:
    return not _equals(left, right)


def _arithmetic(symbol: str, operate: Operation) -> Operation:
    def apply(left: Value, right: Value) -> Value:
        if not (is_number(left) and is_number(right)):
            raise OperationError(
                f"type error: {symbol} needs two numbers, found {type_name(left)} and {type_name(right)}"
            )
        try:
            return _finite(operate(left, right))
        except ZeroDivisionError:
            raise OperationError("division by zero") from None
        except OverflowError:
            raise OperationError("the result is out of the range of a Double") from None

    return apply


def _finite(result: Value) -> Value:
    # Neither JSON nor an agent in another language can represent infinity, so it must not get into a step.
    if isinstance(result, float) and not math.isfinite(result):
        raise OperationError("the result is out of the range of a Double")
    if isinstance(result, int) and result.bit_length() > MAX_INTEGER_BITS:
        raise OperationError(f"the result is an integer of more than {MAX_INTEGER_BITS} bits")
    return result


def _ordering(symbol: str, operate: Operation) -> Operation:
    def apply(left: Value, right: Value) -> Value:
        if (is_number(left) and is_number(right)) or (isinstance(left, str) and isinstance(right, str)):
            return operate(left, right)
        raise OperationError(
            f"type error: {symbol} needs two numbers or two strings, found {type_name(left)} and {type_name(right)}"
        )

    return apply


def _look_in(symbol: str, element: Value, container: Value) -> bool:
    if isinstance(container, list):
        counting.entries_read += len(container)
        return any(_equals(element, candidate) for candidate in container)
    if isinstance(container, Mapping):
        return isinstance(element, str) and element in container
    if isinstance(container, str):
        if isinstance(element, str):
            counting.entries_read += len(container) >> 6
            return element in container
        raise OperationError(f"type error: {symbol} looks for strings in a String, found {type_name(element)}")
    raise OperationError(f"type error: {symbol} needs an Array, Map or String to look in, found {type_name(container)}")


def _on_strings(symbol: str, operate: Callable[[str, str], bool]) -> Operation:
    def apply(left: Value, right: Value) -> Value:
        if isinstance(left, str) and isinstance(right, str):
            return operate(left, right)
        raise OperationError(f"type error: {symbol} needs two strings, found {type_name(left)} and {type_name(right)}")

    return apply


#: The plain operations behind some of the operators: right for two values of one exact kind.
BARE_ARITHMETIC: Final[Mapping[str, Operation]] = {
    "+": cast(Operation, operator.add),
    "-": cast(Operation, operator.sub),
    "*": cast(Operation, operator.mul),
    "/": cast(Operation, operator.truediv),
    "%": cast(Operation, operator.mod),
}
BARE_ORDERING: Final[Mapping[str, Operation]] = {
    "<": cast(Operation, operator.lt),
    "<=": cast(Operation, operator.le),
    ">": cast(Operation, operator.gt),
    ">=": cast(Operation, operator.ge),
}
BARE_EQUALITY: Final[Mapping[str, Operation]] = {
    "==": cast(Operation, operator.eq),
    "!=": cast(Operation, operator.ne),
}

#: The operators on two values, without `&&` and `||`, which may not need their right side.
BINARY_OPERATORS: Final[Mapping[str, Operation]] = {
    **{symbol: _arithmetic(symbol, operate) for symbol, operate in BARE_ARITHMETIC.items()},
    **{symbol: _ordering(symbol, operate) for symbol, operate in BARE_ORDERING.items()},
    "==": _equals,
    "!=": _differs,
    "in": lambda left, right: _look_in("in", left, right),
    "not in": lambda left, right: not _look_in("not in", left, right),
    "contains": lambda left, right: _look_in("contains", right, left),
    "startsWith": _on_strings("startsWith", str.startswith),
    "endsWith": _on_strings("endsWith", str.endswith),
}


def negated(value: Value) -> Value:
    """Return the negative of a number."""
    if not is_number(value):
        raise OperationError(f"type error: - needs a number, found {type_name(value)}")
    # Cast to float, an Int would become a Double in code that mypyc compiles.
    return cast(Value, -cast(Any, value))


def inverted(value: Value) -> Value:
    """Return the other Boolean."""
    return not condition("!", value)


def condition(symbol: str, value: Value) -> bool:
    """Return a Boolean unchanged; raise for any other value."""
    if value is True:
        return True
    if value is False:
        return False
    raise OperationError(f"type error: {symbol} needs a Boolean, found {type_name(value)}")


def indexed(target: Value, index: Value) -> Value:
    """Return the element of an array, the entry of a map, or the character of a string."""
    if isinstance(target, Mapping) and isinstance(index, str):
        if index in target:
            return target[index]
        raise OperationError(f"index error: key {index!r} not found")
    if isinstance(target, list | str) and isinstance(index, int) and not isinstance(index, bool):
        if -len(target) <= index < len(target):
            return target[index]
        raise OperationError(f"index error: {index} is out of range, the {type_name(target)} has {len(target)}")
    raise OperationError(f"index error: {type_name(target)} can't be indexed by {type_name(index)}")


def rendered(value: Value) -> str:
    """Return the text of a value, as `++` writes it."""
    try:
        text = render_text(value)
        counting.entries_read += len(text) >> 4
        return text
    except (TypeError, ValueError, RecursionError) as error:
        raise OperationError(f"type error: ++ can't write a {type_name(value)}: {error}") from None


UNARY_OPERATORS: Final[Mapping[str, Callable[[Value], Value]]] = {"-": negated, "!": inverted}
