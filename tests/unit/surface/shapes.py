"""Signatures and fields as people write them, compared with what there is."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from typing import Any

#: In a written signature: there is a default, whichever.
SOME: Any = ...


def written(text: str) -> list[inspect.Parameter]:
    """Return the parameters of a signature such as `a, b=1, *, c=None`."""
    # An expression of the test's own; it stands for what would be a stub of each function.
    return list(inspect.signature(eval(f"lambda {text}: None", {"SOME": SOME})).parameters.values())


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    found = list(inspect.signature(function).parameters.values())
    return found[1:] if found and found[0].name == "self" else found


def signature_differences(function: Callable[..., Any], text: str) -> Iterator[str]:
    """Say where a function does not take these parameters, in their order, with these defaults.

    What else it takes must have a default.
    """
    called = f"{function.__module__}.{function.__qualname__}"
    actual = parameters_of(function)
    by_name = {parameter.name: parameter for parameter in actual}
    for index, wanted in enumerate(written(text)):
        found = by_name.get(wanted.name)
        if found is None:
            yield f"{called} takes no {wanted.name}: {actual}"
            continue
        if wanted.kind is not inspect.Parameter.KEYWORD_ONLY:
            if index >= len(actual) or actual[index].name != wanted.name:
                yield f"{wanted.name} of {called} is not number {index}"
            if found.kind not in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
                yield f"{wanted.name} of {called} cannot be given by its position"
        yield from default_differences(called, wanted, found.default)
    known = {wanted.name for wanted in written(text)}
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    for parameter in actual:
        if parameter.name not in known and parameter.default is parameter.empty and parameter.kind not in variable:
            yield f"{called} wants {parameter.name} too"


def default_differences(called: str, wanted: inspect.Parameter, found: object) -> Iterator[str]:
    has_none = found is inspect.Parameter.empty
    if wanted.default is SOME:
        if has_none:
            yield f"{wanted.name} of {called} has no default"
    elif wanted.default is wanted.empty:
        if not has_none:
            yield f"{wanted.name} of {called} has a default: {found!r}"
    elif found != wanted.default or not isinstance(found, type(wanted.default)):
        yield f"{wanted.name} of {called} is {found!r} by default, not {wanted.default!r}"


def field_differences(cls: Any, text: str) -> Iterator[str]:
    """Say where a dataclass does not have these fields first, in their order, with these defaults.

    Those after them must have a default.
    """
    if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
        yield f"{cls} is no dataclass"
        return
    fields = [field for field in dataclasses.fields(cls) if field.init]
    wanted = written(text)
    first = [field.name for field in fields[: len(wanted)]]
    if first != [parameter.name for parameter in wanted]:
        yield f"{cls.__name__} has the fields {first}, not {text}"
        return
    for parameter, field in zip(wanted, fields, strict=False):
        yield from default_differences(cls.__name__, parameter, default_of(field))
    for field in fields[len(wanted) :]:
        if default_of(field) is inspect.Parameter.empty:
            yield f"{cls.__name__} wants {field.name} too"
    # The order of the constructor is that of the fields, whether it was written or generated.
    in_order = ", ".join(p.name if p.default is p.empty else f"{p.name}=SOME" for p in wanted)
    yield from signature_differences(cls, in_order)


def default_of(field: dataclasses.Field[Any]) -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return inspect.Parameter.empty


def constants(cls: type) -> dict[str, object]:
    """Return the public constants of a class."""
    return {name: value for name, value in vars(cls).items() if name.isupper()}
