"""Values in the form that stores keep: AFL values, whose integers may be as long as expressions make them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Final

from afl.core.values import plain_value, plain_values
from afl.engine.limits import MAX_INTEGER_BITS
from afl.engine.types import Value

#: The keys in the data of a task that requests a run of a workflow.
_INPUTS: Final = "inputs"
_WORKFLOW: Final = "workflow_name"


def check_entity(entity: object) -> None:
    """Raise ValueRefused for the first object in an entity, or in a nested one, that is not an AFL value."""
    _check_fields(entity, type(entity).__name__)


def kept_values(values: Mapping[str, object], path: str) -> dict[str, Value]:
    """Return named values in the stored form. Raises ValueRefused. Integers may be as long as expressions make them."""
    return plain_values(values, path, MAX_INTEGER_BITS)


def kept_value(value: object, path: str) -> Value:
    """Return a value in the stored form. Raises as `kept_values`."""
    plain: Value = plain_value(value, path, MAX_INTEGER_BITS)
    return plain


def _check_fields(value: object, path: str) -> None:
    if is_dataclass(value):
        for field in fields(value):
            _check_fields(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_fields(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        _check_named(value, path)
    elif value is not None and type(value) is not str:
        # Texts of entities are names and messages, not values.
        kept_value(value, path)


def _check_named(values: Mapping[str, object], path: str) -> None:
    """Check values by name, each with its own depth. A request of a run has the inputs one level deeper."""
    inputs = values.get(_INPUTS)
    if _WORKFLOW in values and isinstance(inputs, dict):
        kept_values(inputs, f"{path}.{_INPUTS}")
        values = {name: value for name, value in values.items() if name != _INPUTS}
    kept_values(values, path)
