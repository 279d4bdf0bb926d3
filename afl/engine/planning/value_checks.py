"""The check of values against declared types: the inputs of a workflow, and the answers of agents."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from afl.core.declared_returns import DeclaredReturns
from afl.core.types import BUILTIN_CHECKS, check_typed, type_name
from afl.core.values import Refused, refused_in
from afl.engine.errors import InputTypeMismatch, MissingInput, UnknownInput
from afl.engine.model.plan import FacetPlan
from afl.engine.types import Value

#: The first part of paths to the inputs of a workflow.
INPUTS: Final = "inputs"


def fitted(value: object, declared: object, schemas: Mapping[str, FacetPlan]) -> Value:
    """Return a copy of the value as the declared type takes it: an integer becomes a Double there. Raises Refused."""

    def fields_of(name: str) -> Mapping[str, object] | None:
        schema = schemas.get(name)
        return None if schema is None else schema.param_types

    try:
        plain: Value = check_typed(value, declared, fields_of)
    except Refused as refused:
        raise refused_in(refused, value) from None
    return plain


def misfit(value: object, declared: object, schemas: Mapping[str, FacetPlan]) -> Refused | None:
    """Return why `value` is not of the declared type; None when it fits.

    Null fits every type. An integer fits a Double that holds it exactly; no other value is converted.
    """
    check = BUILTIN_CHECKS.get(declared) if type(declared) is str else None
    try:
        if check is None:
            fitted(value, declared, schemas)
        elif value is not None:
            # Nearly always: the check through schemas costs as much again.
            check(value, 0)
    except Refused as refused:
        return refused
    return None


def check_inputs(workflow: FacetPlan, schemas: Mapping[str, FacetPlan], inputs: Mapping[str, Value]) -> None:
    """Raise UnknownInput, MissingInput or InputTypeMismatch for the first unusable input."""
    declared = workflow.param_types
    for name in inputs:
        if name not in declared:
            takes = tuple(f"{n}: {type_name(t)}" for n, t in declared.items())
            raise UnknownInput(workflow=workflow.name, name=name, declared=takes)
    given = {name for name, _ in workflow.parameter_defaults}
    for name, declared_type in declared.items():
        if name not in inputs:
            if name not in given:
                raise MissingInput(workflow=workflow.name, name=name, expected=type_name(declared_type))
            continue
        refused = misfit(inputs[name], declared_type, schemas)
        if refused is not None:
            # Deep inside a value the path helps; at its top the input's name is enough.
            inside = str(refused.at(name)) if refused.segments else ""
            expected = type_name(declared_type)
            raise InputTypeMismatch(
                workflow=workflow.name, name=name, expected=expected, found=refused.found, inside=inside
            )


def check_result(
    facet: FacetPlan,
    schemas: Mapping[str, FacetPlan],
    result: Mapping[str, Value],
    required: tuple[str, ...] = (),
    reported: Collection[str] = (),
    is_partial: bool = False,
) -> str | None:
    """Return why an agent's result does not fit the facet's returns; None when it fits. Its values are plain.

    `required` are the returns that it must have unless they are in `told`. A partial result may lack any, and have
    further keys. A facet that declares no returns accepts any result.
    """
    declared = facet.return_types
    problem, names_differ = None, False
    for name, value in result.items():
        expected = declared.get(name)
        if expected is None:
            names_differ = True
        elif expected != "Json":  # as every plain value is
            refused = misfit(value, expected, schemas)
            if refused is not None:
                problem = f"{facet.name} returned {refused.at(name)}"
                break
    if names_differ or len(result) < len(declared):
        for name in required:
            if name not in result:
                names_differ = True
    # Sentences are built only from faults: nearly every result has none.
    if is_partial or not declared or not (names_differ or problem):
        return problem
    optional = tuple(name for name in declared if name not in required)
    names = DeclaredReturns(required, optional).mismatch(facet.name, result, reported)
    return "; ".join(each for each in (problem, names) if each is not None) or None
