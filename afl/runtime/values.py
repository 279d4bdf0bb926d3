"""Whether values fit declared types: what a workflow is started with, and what an agent answers."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from afl.core.declared_returns import DeclaredReturns
from afl.runtime.errors import InputTypeMismatch, MissingInput, UnknownInput
from afl.runtime.plan import FacetPlan
from afl.runtime.types import Value

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1


def describe_type(declared: object) -> str:
    """A declared type as AFL writes it: `Long`, `[shop.Item]`."""
    if isinstance(declared, Mapping):
        return f"[{describe_type(declared.get('elementType'))}]"
    return str(declared)


def describe_value(value: object) -> str:
    """A value's kind and a short look at it, for messages."""
    kinds = {
        bool: "Boolean",
        int: "Int",
        float: "Double",
        str: "String",
        list: "array",
        dict: "map",
        type(None): "null",
    }
    kind = kinds.get(type(value), type(value).__name__)
    text = repr(value)
    return kind if value is None else f"{kind} {text if len(text) <= 60 else text[:57] + '...'}"


def misfit(value: object, declared: object, schemas: Mapping[str, FacetPlan], path: str) -> str | None:
    """What keeps `value` from being of the declared type, as `path: wanted, found`; None when it fits.

    Null fits every type. An integer fits Double; nothing else is converted. Json takes what JSON can hold.
    """
    if value is None:
        return None
    if isinstance(declared, Mapping):
        if not isinstance(value, list):
            return _found(path, declared, value)
        for index, element in enumerate(value):
            problem = misfit(element, declared.get("elementType"), schemas, f"{path}[{index}]")
            if problem is not None:
                return problem
        return None
    return _misfit_named(value, declared, schemas, path)


def _misfit_named(value: object, declared: object, schemas: Mapping[str, FacetPlan], path: str) -> str | None:
    if declared in ("Int", "Long"):
        if type(value) is not int:
            return _found(path, declared, value)
        return None if _LONG_MIN <= value <= _LONG_MAX else f"{path}: {value} is beyond 64 bits"
    if declared == "Double":
        if type(value) not in (int, float):
            return _found(path, declared, value)
        return None if math.isfinite(value) else f"{path}: {value} is not a finite number"  # type: ignore[arg-type]
    if declared == "String":
        return None if isinstance(value, str) else _found(path, declared, value)
    if declared == "Boolean":
        return None if isinstance(value, bool) else _found(path, declared, value)
    schema = schemas.get(str(declared))
    if schema is None:
        return _misfit_json(value, path)
    if not isinstance(value, dict):
        return _found(path, declared, value)
    for name, field_value in value.items():
        if name not in schema.param_types:
            known = ", ".join(schema.param_types) or "no fields"
            return f"{path}.{name}: schema {schema.name} has {known}"
        problem = misfit(field_value, schema.param_types[name], schemas, f"{path}.{name}")
        if problem is not None:
            return problem
    return None


def _misfit_json(value: object, path: str) -> str | None:
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{path}: {value} is not a finite number"
    if isinstance(value, bool | int | str) or value is None:
        return None
    if isinstance(value, list):
        return next((p for i, v in enumerate(value) if (p := _misfit_json(v, f"{path}[{i}]"))), None)
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                return f"{path}: a key must be a String, found {describe_value(key)}"
        return next((p for k, v in value.items() if (p := _misfit_json(v, f"{path}.{k}"))), None)
    return f"{path}: {type(value).__name__} is not a value that JSON can hold"


def _found(path: str, declared: object, value: object) -> str:
    return f"{path}: {describe_type(declared)} wanted, found {describe_value(value)}"


def check_inputs(workflow: FacetPlan, schemas: Mapping[str, FacetPlan], inputs: Mapping[str, Value]) -> None:
    """Raise UnknownInput, MissingInput or InputTypeMismatch for the first input that cannot be used."""
    declared = workflow.param_types
    for name in inputs:
        if name not in declared:
            takes = tuple(f"{n}: {describe_type(t)}" for n, t in declared.items())
            raise UnknownInput(workflow=workflow.name, name=name, declared=takes)
    given = {name for name, _ in workflow.fills}
    for name, declared_type in declared.items():
        if name not in inputs:
            if name not in given:
                raise MissingInput(workflow=workflow.name, name=name, expected=describe_type(declared_type))
            continue
        problem = misfit(inputs[name], declared_type, schemas, name)
        if problem is not None:
            # Deep inside a value the path is what helps; at its top the input's name has said it.
            inside = not problem.startswith(f"{name}: {describe_type(declared_type)} wanted")
            found = f"value in which {problem}" if inside else describe_value(inputs[name])
            raise InputTypeMismatch(
                workflow=workflow.name, name=name, expected=describe_type(declared_type), found=found
            )


def check_result(
    facet: FacetPlan,
    schemas: Mapping[str, FacetPlan],
    result: Mapping[str, Value],
    required: tuple[str, ...] = (),
    told: Collection[str] = (),
    is_partial: bool = False,
) -> str | None:
    """What keeps an agent's result from fitting the facet's returns; None when it fits.

    `required` are the returns that it has to hold unless they are in `told`. A partial result may lack any, and hold
    news of its own. A facet that declares no returns takes what it is given.
    """
    declared = facet.return_types
    problem, names_differ = None, False
    for name, value in result.items():
        if name in declared:
            problem = misfit(value, declared[name], schemas, name)
        else:
            names_differ = True
            problem = misfit(value, "Json", schemas, name)
        if problem is not None:
            problem = f"{facet.name} returned {problem}"
            break
    if names_differ or len(result) < len(declared):
        for name in required:
            if name not in result:
                names_differ = True
    # Sentences are made of nothing but what is wrong: nearly every result is right.
    if is_partial or not declared or not (names_differ or problem):
        return problem
    optional = tuple(name for name in declared if name not in required)
    names = DeclaredReturns(required, optional).mismatch(facet.name, result, told)
    return "; ".join(each for each in (problem, names) if each is not None) or None
