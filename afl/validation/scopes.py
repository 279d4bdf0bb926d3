"""The names that are visible inside a declaration: steps, foreach variables, and the scopes behind `$`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from afl.ast import SourceLocation, StepStmt
from afl.validation.references import cycle_from
from afl.validation.signatures import FAILURE, UNKNOWN, Signature, Slot
from afl.validation.value_types import ValueType


class Step(NamedTuple):
    """A step that may be referred to; callee None where it is unknown, `written` is the call's name."""

    name: str
    written: str
    callee: Signature | None
    place: SourceLocation | None
    #: The names that the mixins of the call add to the parameters.
    extras: Mapping[str, Slot] = MappingProxyType({})
    #: The step as its own catch sees it.
    is_failed: bool = False

    def attribute(self, name: str) -> Slot | None:
        """Return the slot of `step.name`: a return if there are any, else a parameter, or a name set by a script."""
        if self.is_failed and name in FAILURE:
            return FAILURE[name]
        callee = self.callee
        if callee is None:
            return UNKNOWN
        found = (callee.returns or callee.params).get(name) or callee.scripted.get(name)
        if found is None and not callee.returns:
            found = self.extras.get(name) or callee.extras.get(name)
        return UNKNOWN if found is None and callee.is_open else found

    def attribute_names(self) -> list[str]:
        names = list(FAILURE) if self.is_failed else []
        if self.callee is not None:
            names += self.callee.returns or [*self.callee.params, *self.callee.extras, *self.extras]
            names += self.callee.scripted
        return list(dict.fromkeys(names))

    def input(self, name: str) -> Slot | None:
        """Return the slot of `$.name` in the bodies of the step: parameters, and returns over them."""
        callee = self.callee
        if callee is None:
            return UNKNOWN
        return callee.returns.get(name) or self.extras.get(name) or callee.param(name)

    def input_names(self) -> list[str]:
        return [] if self.callee is None else [*self.callee.returns, *self.extras, *self.callee.param_names()]


class Variable(NamedTuple):
    """A foreach variable; type None where it is unknown."""

    name: str
    type: ValueType | None
    place: SourceLocation | None = None


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Scope:
    """One block: of a declaration, or with `owner` of that step; or the common part of a group of blocks."""

    declaration: Signature
    outer: Scope | None = None
    owner: Step | None = None
    variable: Variable | None = None
    #: Steps above the current statement.
    steps: dict[str, Step] = field(default_factory=dict)
    #: Places of all steps of the block.
    own_names: dict[str, SourceLocation | None] = field(default_factory=dict)
    #: The steps of the block themselves, in the order of the text.
    own_steps: Sequence[StepStmt] = ()
    #: Steps of neighbouring blocks, which are not visible.
    sibling_names: frozenset[str] = frozenset()
    #: Steps of the declaration that are invisible for another reason, with advice.
    unseen_names: frozenset[str] = frozenset()
    unseen_hint: str = ""
    #: True for the catch of the declaration.
    is_catch: bool = False
    #: True when only bound arguments count: the scope of the arguments of the signature's mixins.
    is_binding: bool = False

    def outwards(self) -> Iterator[Scope]:
        """Return this scope and the ones around it, up to the declaration."""
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
        """Return the place of a step that is defined further down; None without one."""
        return next((scope.own_names[name] for scope in self.outwards() if name in scope.own_names), None)

    def cycle_over(self, name: str) -> list[str]:
        """Return the steps of a cycle from the current one over a later one of its block; empty without a cycle."""
        for scope in self.outwards():
            if name in scope.own_names:
                current = next((step.name for step in scope.own_steps if step.name not in scope.steps), None)
                return [] if current is None else cycle_from(current, name, scope.own_steps)
        return []

    def is_sibling(self, name: str) -> bool:
        return any(name in scope.sibling_names for scope in self.outwards())

    def hint_for_unseen(self, name: str) -> str | None:
        return next((scope.unseen_hint for scope in self.outwards() if name in scope.unseen_names), None)

    def visible_steps(self) -> list[str]:
        names: dict[str, None] = {}
        for scope in self.outwards():
            names.update(dict.fromkeys(scope.steps))
            if scope.owner is not None:
                names[scope.owner.name] = None
        return list(names)

    def input(self, name: str) -> Slot | None:
        """Return the slot of `$.name`. A step with an unknown callee may have it, so then its type is unknown too."""
        for scope in self.outwards():
            if scope.variable is not None and scope.variable.name == name:
                return Slot(scope.variable.type, place=scope.variable.place)
            if scope.owner is not None:
                slot = scope.owner.input(name)
                if slot is not None:
                    return slot
            if scope.is_catch and name in FAILURE:
                return FAILURE[name]
            if scope.is_binding:
                return self.declaration.params.get(name)
        return self.declaration.param(name)

    def input_names(self) -> list[str]:
        names: dict[str, None] = {}
        for scope in self.outwards():
            if scope.variable is not None:
                names[scope.variable.name] = None
            if scope.owner is not None:
                names.update(dict.fromkeys(scope.owner.input_names()))
            if scope.is_catch:
                names.update(dict.fromkeys(FAILURE))
            if scope.is_binding:
                return list(self.declaration.params)
        names.update(dict.fromkeys(self.declaration.param_names()))
        return list(names)
