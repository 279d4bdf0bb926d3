"""Signatures and fields as people write them, compared with what there is."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
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


def assert_takes(function: Callable[..., Any], text: str) -> None:
    """Check that a function takes these parameters, in order, with these defaults; others have one."""
    actual = parameters_of(function)
    by_name = {parameter.name: parameter for parameter in actual}
    for index, wanted in enumerate(written(text)):
        found = by_name.get(wanted.name)
        assert found is not None, f"{function} takes no {wanted.name}: {actual}"
        if wanted.kind is not inspect.Parameter.KEYWORD_ONLY:
            assert actual[index].name == wanted.name, f"{wanted.name} of {function} is not number {index}"
            assert found.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        assert_default(function, wanted, found.default)
    known = {wanted.name for wanted in written(text)}
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    more = [p.name for p in actual if p.name not in known and p.default is p.empty and p.kind not in variable]
    assert more == [], f"{function} wants {more} too"


def assert_default(thing: object, wanted: inspect.Parameter, found: object) -> None:
    if wanted.default is SOME:
        assert found is not inspect.Parameter.empty, f"{wanted.name} of {thing} has no default"
    elif wanted.default is not wanted.empty:
        assert found == wanted.default, f"{wanted.name} of {thing} is {found!r} by default, not {wanted.default!r}"
        assert type(found) is type(wanted.default) or isinstance(found, type(wanted.default))
    else:
        assert found is inspect.Parameter.empty, f"{wanted.name} of {thing} has a default"


def assert_fields(cls: Any, text: str) -> None:
    """Check that a dataclass has these fields first, in order, with these defaults; later ones have one."""
    assert isinstance(cls, type), cls
    assert dataclasses.is_dataclass(cls), cls
    fields = [field for field in dataclasses.fields(cls) if field.init]
    wanted = written(text)
    names = [parameter.name for parameter in wanted]
    assert [field.name for field in fields[: len(wanted)]] == names, cls
    for parameter, field in zip(wanted, fields, strict=False):
        assert_default(cls, parameter, default_of(field))
    assert all(default_of(field) is not inspect.Parameter.empty for field in fields[len(wanted) :]), cls
    # The order of the constructor is that of the fields, whether it was written or generated.
    assert_takes(cls, ", ".join(p.name if p.default is p.empty else f"{p.name}=SOME" for p in wanted))


def default_of(field: dataclasses.Field[Any]) -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return inspect.Parameter.empty


def constants(cls: type) -> dict[str, object]:
    """Return the public constants of a class."""
    return {name: value for name, value in vars(cls).items() if name.isupper()}
