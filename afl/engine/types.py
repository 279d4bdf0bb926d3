"""Identifiers, values and attributes: the basic types of the runtime."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from secrets import randbits
from typing import Final, NewType, TypeAlias, cast

from afl.core.ids import time_ordered_id
from afl.core.types import TYPE_OF_KIND
from afl.core.versions import RUNTIME_VERSION, STEP_SCHEMA_VERSION, WORKFLOW_VERSION

StepId = NewType("StepId", str)
BlockId = NewType("BlockId", str)
EventId = NewType("EventId", str)
WorkflowId = NewType("WorkflowId", str)
StatementId = NewType("StatementId", str)

#: The results of AFL expressions, which attributes, inputs and results consist of.
Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"

#: The type hint of an attribute without a declared type.
ANY_TYPE: Final = "Any"


def generate_id() -> str:
    """Generate a random identifier: the text of a UUIDv4."""
    return str(uuid.uuid4())


def step_id() -> StepId:
    """Generate a fresh step id."""
    return StepId(generate_id())


def block_id() -> BlockId:
    """Generate a fresh block id."""
    return BlockId(generate_id())


def event_id() -> EventId:
    """Generate a fresh event id."""
    return EventId(generate_id())


def workflow_id() -> WorkflowId:
    """Generate a fresh workflow id. `workflow_id_v7` is better for stores that keep workflows by key."""
    return WorkflowId(generate_id())


def workflow_id_v7(now_ms: int, random_bits: Callable[[int], int] = randbits) -> WorkflowId:
    """Draw a workflow id that sorts by its time; see `afl.core.ids.time_ordered_id`."""
    return WorkflowId(time_ordered_id(now_ms, random_bits))


class ObjectType:
    """The kind of a step. Values are stored: never change one."""

    VARIABLE_ASSIGNMENT: Final = "VariableAssignment"
    YIELD_ASSIGNMENT: Final = "YieldAssignment"
    WORKFLOW: Final = "Workflow"
    FACET: Final = "Facet"
    SCHEMA_INSTANTIATION: Final = "SchemaInstantiation"
    AND_THEN: Final = "AndThen"
    AND_MAP: Final = "AndMap"
    AND_MATCH: Final = "AndMatch"
    BLOCK: Final = "Block"
    SYS_LOG: Final = "SysLog"
    SYS_ASSERT: Final = "SysAssert"
    BEFORE: Final = "Before"
    AFTER: Final = "After"

    _BLOCKS: Final = frozenset({AND_THEN, AND_MAP, AND_MATCH, BLOCK})
    _STATEMENTS: Final = frozenset({VARIABLE_ASSIGNMENT, YIELD_ASSIGNMENT})

    @classmethod
    def is_block(cls, object_type: str) -> bool:
        """Say whether steps of this type run the statements of a block."""
        return object_type in cls._BLOCKS

    @classmethod
    def is_statement(cls, object_type: str) -> bool:
        """Say whether steps of this type are a call or a yield."""
        return object_type in cls._STATEMENTS


#: Statements of `sys` by the type of their node: their name in programs, and the type of their steps.
SYSTEM_STATEMENTS: Final[dict[str, tuple[str, str]]] = {
    "SysLogStmt": ("sys.log", ObjectType.SYS_LOG),
    "SysAssertStmt": ("sys.assert", ObjectType.SYS_ASSERT),
}


@dataclass
class VersionInfo:
    """The versions under which an artifact was written."""

    workflow_version: str = WORKFLOW_VERSION
    step_schema_version: str = STEP_SCHEMA_VERSION
    runtime_version: str = RUNTIME_VERSION


#: AFL's name for each kind of value. Keyed by exact class, so that a Boolean is never taken for a number.
_TYPE_HINTS: Final[dict[type, str]] = {**TYPE_OF_KIND, list: "List", dict: "Map"}

#: Kinds of values that copies may share.
_IMMUTABLE: Final = frozenset({bool, int, float, str, type(None)})


def infer_type_hint(value: object) -> str:
    """Name the AFL type of a value; "Any" for null and for objects without a name in AFL."""
    hint = _TYPE_HINTS.get(type(value))
    if hint is not None:
        return hint
    # Subclasses (an IntEnum, an OrderedDict) are rare, and looked up one by one.
    return next((name for kind, name in _TYPE_HINTS.items() if isinstance(value, kind)), ANY_TYPE)


def copy_value(value: object) -> object:
    """Return a value that shares no list or map with this one."""
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind is list:
        return [copy_value(element) for element in value]  # type: ignore[attr-defined]  # `kind` says it is a list
    if kind is dict:
        return {key: copy_value(entry) for key, entry in value.items()}  # type: ignore[attr-defined]  # a dict, as said
    return copy.deepcopy(value)


def copy_values(values: Mapping[str, Value]) -> dict[str, Value]:
    """Return a map that shares no list or map with this one."""
    return {name: cast(Value, copy_value(value)) for name, value in values.items()}


@dataclass
class AttributeValue:
    """A named value of a step, with the name of its AFL type.

    A hint of "Any" is replaced by the inferred one. The value and the hint are also readable as items
    (`attribute["value"]`, `attribute["type_hint"]`): stored attributes have always been read that way, too.
    """

    name: str
    value: object
    type_hint: str = ANY_TYPE

    def __post_init__(self) -> None:
        if self.type_hint == ANY_TYPE:
            self.type_hint = infer_type_hint(self.value)

    def __getitem__(self, key: str) -> object:
        """Return the part named "name", "value" or "type_hint"; raises KeyError for any other key."""
        if key not in ("name", "value", "type_hint"):
            raise KeyError(key)
        return getattr(self, key)


@dataclass
class FacetAttributes:
    """The two maps of a step: its inputs (params) and its results (returns)."""

    params: dict[str, AttributeValue] = field(default_factory=dict)
    returns: dict[str, AttributeValue] = field(default_factory=dict)

    def get_param(self, name: str) -> object:
        """Return the value of a param; None when it is absent, and when it is null."""
        attribute = self.params.get(name)
        return None if attribute is None else attribute.value

    def get_return(self, name: str) -> object:
        """Return the value of a return; None when it is absent, and when it is null."""
        attribute = self.returns.get(name)
        return None if attribute is None else attribute.value

    def set_param(self, name: str, value: object, type_hint: str = ANY_TYPE) -> None:
        """Set a param, replacing an earlier one of that name."""
        self.params[name] = AttributeValue(name, value, type_hint)

    def set_return(self, name: str, value: object, type_hint: str = ANY_TYPE) -> None:
        """Set a return, replacing an earlier one of that name."""
        self.returns[name] = AttributeValue(name, value, type_hint)

    def merge(self, other: FacetAttributes) -> None:
        """Take over another's attributes: its params where they are missing here, its returns always."""
        for name, attribute in other.params.items():
            self.params.setdefault(name, attribute)
        self.returns.update(other.returns)
