"""Who sees what inside a declaration: steps, foreach variables, and the scopes behind `$`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from afl.ast import SourceLocation
from afl.validation.symbols import Signature, Slot
from afl.validation.value_types import ValueType


class Step(NamedTuple):
    """A step that may be referred to; callee None where it is unknown, `written` is what the call says."""

    name: str
    written: str
    callee: Signature | None
    place: SourceLocation | None


@dataclass(slots=True)
class Variable:
    """A foreach variable; type None where it is unknown."""

    name: str
    type: ValueType | None


@dataclass(slots=True)
class Scope:
    """One block: the body of a declaration, or with `owner` the body of that step."""

    declaration: Signature
    outer: Scope | None = None
    owner: Step | None = None
    variable: Variable | None = None
    #: Steps above the current statement.
    steps: dict[str, Step] = field(default_factory=dict)
    #: Places of all steps of the block.
    own_names: dict[str, SourceLocation | None] = field(default_factory=dict)
    #: Steps of the clauses beside this one.
    sibling_names: frozenset[str] = frozenset()

    def outwards(self) -> Iterator[Scope]:
        """Return this scope and those around it, up to the declaration."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def step(self, name: str) -> Step | None:
        """Return the visible step of that name, the innermost first."""
        for scope in self.outwards():
            if name in scope.steps:
                return scope.steps[name]
            if scope.owner is not None and scope.owner.name == name:
                return scope.owner
        return None

    def foreach_variable(self, name: str) -> Variable | None:
        for scope in self.outwards():
            if scope.variable is not None and scope.variable.name == name:
                return scope.variable
        return None

    def later_step(self, name: str) -> SourceLocation | None:
        """Return the place of a step that is defined, but further down; None if there is none."""
        return next((scope.own_names[name] for scope in self.outwards() if name in scope.own_names), None)

    def is_sibling(self, name: str) -> bool:
        return any(name in scope.sibling_names for scope in self.outwards())

    def visible_steps(self) -> list[str]:
        names: dict[str, None] = {}
        for scope in self.outwards():
            names.update(dict.fromkeys(scope.steps))
            if scope.owner is not None:
                names[scope.owner.name] = None
        return list(names)

    def input(self, name: str) -> Slot | None:
        """Return what `$.name` is. A step whose callee is unknown may have it, so then its type is unknown too."""
        for scope in self.outwards():
            if scope.variable is not None and scope.variable.name == name:
                return Slot(scope.variable.type)
            if scope.owner is not None:
                callee = scope.owner.callee
                if callee is None:
                    return Slot(None)
                slot = callee.returns.get(name) or callee.params.get(name)
                if slot is not None:
                    return slot
        return self.declaration.params.get(name)

    def input_names(self) -> list[str]:
        names: dict[str, None] = {}
        for scope in self.outwards():
            if scope.variable is not None:
                names[scope.variable.name] = None
            if scope.owner is not None and scope.owner.callee is not None:
                names.update(dict.fromkeys(scope.owner.callee.attributes()))
        names.update(dict.fromkeys(self.declaration.params))
        return list(names)
