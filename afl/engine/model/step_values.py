"""Steps as values: the content of a parameter of a facet's type, and how attributes are read through it.

Such a value is plain data that names the step, so it is stored, sent and passed on like any other map; the step is
looked up when an attribute is read through it. Only programs that declare a parameter of a facet's type pay for that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from afl.core.ids import workflow_of
from afl.engine.errors import ReferenceError
from afl.engine.expressions.expression import walk_members
from afl.engine.types import Value

if TYPE_CHECKING:
    from afl.engine.model.records import StepRecord
    from afl.engine.model.step_rows import BoundStep, LateStep

#: The mark of a map that is a reference to a step. Agents see it, and stores keep it: never change it.
MARK = "_facet_ref"


class StepLookup(Protocol):
    """A finder of the steps that programs use as values."""

    def step_as_value(self, step_id: object) -> StepRecord | None:
        """Return the step of that id; None for one that no program text uses as a value."""


class LinkedParams(dict[str, Value]):
    """Parameters that may contain references, while defaults are evaluated that read through them."""

    __slots__ = ("lookup",)

    def __init__(self, params: Mapping[str, Value], lookup: StepLookup) -> None:
        super().__init__(params)
        self.lookup = lookup


def reference_to(step: StepRecord | BoundStep | LateStep, facet_name: str) -> Value:
    """Return the value that stands for a step."""
    return {MARK: True, "step_id": step.id, "workflow_id": workflow_of(step.id), "facet_name": facet_name}


def walk_through_steps(value: Value, names: Sequence[str], text: str, lookup: StepLookup | None) -> Value:
    """Follow names through maps and referenced steps. Raises ReferenceError as `walk_members`."""
    for name in names:
        if lookup is not None and isinstance(value, dict) and value.get(MARK) is True:
            step = lookup.step_as_value(value.get("step_id"))
            if step is not None:
                value = _attribute(step, name, text)
                continue
        value = walk_members(value, (name,), text)
    return value


def _attribute(step: StepRecord, name: str, text: str) -> Value:
    """Return the map of a mixin's alias, or else a return, or else a parameter."""
    is_alias = step.facet is not None and any(mixin.alias == name for mixin in step.facet.mixins)
    found = (step.params, step.returns) if is_alias else (step.returns, step.params)
    for attributes in found:
        if name in attributes:
            return attributes[name]
    known = ", ".join(dict.fromkeys([*step.returns, *step.params])) or "nothing"
    called = step.facet.name if step.facet is not None else step.id
    raise ReferenceError(text, f"attribute {name} not found, the {called} step has {known}")


def lookup_of(params: Mapping[str, Value]) -> StepLookup | None:
    """Return the finder of steps for defaults that read these parameters."""
    return params.lookup if isinstance(params, LinkedParams) else None
