"""Frozen dataclasses that cost little at import, for the modules that every command of `afl` loads.

Generating the methods of one takes `dataclass` as long as checking twenty lines. So `dataclass` only collects fields
here, what the instances have in common is written once, and `__init__` alone is generated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import Any, NoReturn, TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[_T]) -> type[_T]:
    """Make a class a frozen dataclass with slots: equal to those of its class with equal fields, and hashed by them."""
    made = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    names = {
        "__init__": initializer(made),
        "__eq__": _equals,
        "__hash__": _hash,
        "__setattr__": refuse_setting,
        "__delattr__": refuse_deleting,
        "__setstate__": set_state,
    }
    for name, method in names.items():
        setattr(made, name, method)
    if "__repr__" not in vars(cls):
        made.__repr__ = _repr  # type: ignore[method-assign]  # a class of any kind
    return made


def initializer(cls: type, slots: Mapping[str, Any] | None = None) -> Callable[..., None]:
    """Return the `__init__` of a dataclass with slots: it sets them directly, past a `__setattr__` that refuses.

    `slots` are those that the class has something else in front of, by their names.
    """
    names: dict[str, object] = {}
    parameters: list[str] = []
    keywords: list[str] = []
    body: list[str] = []
    for item in fields(cls):
        value = item.name
        declared = value
        if item.default is not MISSING:
            names[f"default_{value}"] = item.default
            declared = f"{value}=default_{value}"
        elif item.default_factory is not MISSING:
            names[f"make_{value}"] = item.default_factory
            declared = f"{value}=MISSING"
            value = f"make_{value}() if {value} is MISSING else {value}"
        (keywords if item.kw_only else parameters).append(declared)
        slot = slots[item.name] if slots and item.name in slots else getattr(cls, item.name)
        names[f"set_{item.name}"] = slot.__set__
        body.append(f"    set_{item.name}(self, {value})\n")
    only = ["*", *keywords] if keywords else []
    source = f"def __init__(self, {', '.join([*parameters, *only])}):\n{''.join(body)}"
    scope: dict[str, Any] = {"MISSING": MISSING, **names}
    exec(source, scope)
    made: Callable[..., None] = scope["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def refuse_setting(_self: object, name: str, _value: object) -> NoReturn:
    """Refuse to set a field."""
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def refuse_deleting(_self: object, name: str) -> NoReturn:
    """Refuse to delete a field."""
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def set_state(self: object, state: tuple[None, dict[str, object]]) -> None:
    """Fill a copy or one read from a pickle, which are put together without `__init__`."""
    for name, value in state[1].items():
        object.__setattr__(self, name, value)


def _values(item: Any) -> tuple[object, ...]:
    return tuple([getattr(item, name) for name in type(item).__slots__])


def _equals(self: object, other: object) -> bool:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _hash(self: object) -> int:
    return hash(_values(self))


def _repr(self: Any) -> str:
    shown = ", ".join(f"{item.name}={getattr(self, item.name)!r}" for item in fields(self) if item.repr)
    return f"{type(self).__qualname__}({shown})"
