"""What `$.x` and `s.x` mean at a place in a program, compiled to reads of a running frame.

Which steps a reference sees, and what `$` is at every depth, are static (language reference, 4.5 and 6.3): the scope
is walked here once, and what is left for the run is a dictionary read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from afl.compiled import ProgramError
from afl.runtime.errors import ReferenceError
from afl.runtime.expression import walk_members
from afl.runtime.persistence import StepDocument
from afl.runtime.plan import Default, Expression, FacetPlan, OuterWait, StatementPlan
from afl.runtime.records import Frame, StepRecord
from afl.runtime.types import Value

_F = TypeVar("_F")


class BlockContext:
    """A block while it is planned: the scope that its expressions are read in."""

    def __init__(self, parent: BlockContext | None, facet: FacetPlan, statement: StatementPlan | None) -> None:
        #: The block that `statement` stands in, when this is a statement's own body.
        self.parent = parent
        #: The declaration that is being executed.
        self.facet = facet
        self.statement = statement
        self.variable: str | None = None
        self.names: dict[str, int] = {}

    def yield_depth(self, target: str) -> int | None:
        """How many blocks out the innermost step stands that a yield to `target` addresses; None: nobody."""
        depth = 0
        context = self
        while True:
            callee = context.facet if context.statement is None else context.statement.callee
            if callee is not None and target in (callee.name, callee.short_name):
                return depth
            if context.statement is None or context.parent is None:
                return None
            context, depth = context.parent, depth + 1


class StatementReferences:
    """References of one statement, yield or foreach source; notes which steps they wait for."""

    def __init__(self, context: BlockContext, where: str, own_index: int | None = None) -> None:
        self._context = context
        self._where = where
        self._own_index = own_index
        self._local: dict[int, None] = {}
        self._outer: dict[tuple[int, int], None] = {}

    def local_waits(self) -> tuple[int, ...]:
        return tuple(self._local)

    def outer_waits(self) -> tuple[OuterWait, ...]:
        return tuple(OuterWait(depth, index) for depth, index in self._outer)

    def input_reference(self, path: tuple[str, ...]) -> Expression:
        if not path:
            raise ProgramError(f"{self._where}: empty input reference")
        return _with_members(_input_reader(self._context, path[0]), path, f"$.{'.'.join(path)}")

    def step_reference(self, path: tuple[str, ...]) -> Expression:
        if not path:
            raise ProgramError(f"{self._where}: empty step reference")
        text = ".".join(path)
        found = self._find_step(path[0])
        if found is None:
            variable = _variable_reader(self._context, path[0])
            if variable is None:
                raise ProgramError(f"{self._where}: {text}: no step {path[0]} is visible here")
            return _with_members(variable, path, text)
        if len(path) < 2:
            raise ProgramError(f"{self._where}: {text}: a reference needs at least step.attribute")
        return _with_members(found(path[1], text), path[1:], text)

    def _find_step(self, name: str) -> Callable[[str, str], Expression] | None:
        """A reader of attributes of the step called `name`: of this block, of the step around it, and outwards."""
        context, depth = self._context, 0
        inner: StatementPlan | None = None
        while True:
            index = context.names.get(name)
            if index is not None:
                if depth == 0:
                    if index == self._own_index:
                        raise ProgramError(f"{self._where}: step {name} cannot refer to itself")
                    self._local[index] = None
                    return lambda attribute, text: _local_attribute(index, attribute, text)
                if inner is not None and inner.index == index:
                    # The step whose body this is: its event's result is in, it does not have to be complete.
                    return lambda attribute, text: _owner_attribute(depth - 1, attribute, text)
                self._outer[(depth, index)] = None
                return lambda attribute, text: _outer_attribute(depth, index, attribute, text)
            if context.statement is None or context.parent is None:
                return None
            inner, context, depth = context.statement, context.parent, depth + 1


class CalleeReferences:
    """References of a declaration's defaults: parameters of the same declaration, in the callee's own scope."""

    def __init__(self, facet: str) -> None:
        self._facet = facet

    def input_reference(self, path: tuple[str, ...]) -> Default:
        if not path:
            raise ProgramError(f"{self._facet}: empty input reference")
        return _with_members(_bound(path[0]), path, f"$.{'.'.join(path)}")

    def step_reference(self, path: tuple[str, ...]) -> Default:
        raise ProgramError(f"{self._facet}: a default cannot use the step {path[0]}")


def _bound(name: str) -> Default:
    def read(params: Mapping[str, Value]) -> Value:
        try:
            return params[name]
        except KeyError:
            raise _missing_input(name) from None

    return read


def _with_members(read: Callable[[_F], Value], path: Sequence[str], text: str) -> Callable[[_F], Value]:
    parts = tuple(path[1:])
    if not parts:
        return read
    return lambda frame: walk_members(read(frame), parts, text)


def _input_reader(context: BlockContext, name: str) -> Expression:
    """The chain of `$`, inside out: loop variables, attributes of the steps around, the declaration's parameters."""
    depth = 0
    around: list[int] = []
    while True:
        if context.variable == name:
            return _after_attributes(around, name, _loop_value(depth))
        if context.statement is None or context.parent is None:
            return _after_attributes(around, name, _parameter(depth, name))
        around.append(depth)
        context, depth = context.parent, depth + 1


def _variable_reader(context: BlockContext, name: str) -> Expression | None:
    depth = 0
    while True:
        if context.variable == name:
            return _loop_value(depth)
        if context.statement is None or context.parent is None:
            return None
        context, depth = context.parent, depth + 1


def _frame_at(frame: Frame, depth: int) -> Frame:
    while depth:
        assert frame.parent is not None
        frame, depth = frame.parent, depth - 1
    return frame


def _loop_value(depth: int) -> Expression:
    if depth == 0:
        return lambda frame: frame.value
    return lambda frame: _frame_at(frame, depth).value


def _parameter(depth: int, name: str) -> Expression:
    def here(frame: Frame) -> Value:
        try:
            return frame.owner.params[name]
        except KeyError:
            raise _missing_input(name) from None

    def outside(frame: Frame) -> Value:
        return here(_frame_at(frame, depth))

    return outside if depth else here


def _after_attributes(around: list[int], name: str, outermost: Expression) -> Expression:
    """Look at attributes of the steps whose bodies this is inside, innermost first, returns over params."""
    if not around:
        return outermost
    depths = tuple(around)

    def read(frame: Frame) -> Value:
        for depth in depths:
            owner = _frame_at(frame, depth).owner
            if name in owner.returns:
                return owner.returns[name]
            if name in owner.params:
                return owner.params[name]
        return outermost(frame)

    return read


def _attribute(step: StepRecord | StepDocument, attribute: str, text: str) -> Value:
    if attribute in step.returns:
        return step.returns[attribute]
    try:
        return step.params[attribute]
    except KeyError:
        known = ", ".join(dict.fromkeys([*step.returns, *step.params])) or "nothing"
        raise ReferenceError(reference=text, message=f"attribute {attribute} not found, the step has {known}") from None


def _local_attribute(index: int, attribute: str, text: str) -> Expression:
    def read(frame: Frame) -> Value:
        step: StepRecord | StepDocument = frame.env[index]  # type: ignore[assignment]  # complete, or not asked for
        returns = step.returns
        if attribute in returns:
            return returns[attribute]
        params = step.params
        if attribute in params:
            return params[attribute]
        return _attribute(step, attribute, text)

    return read


def _outer_attribute(depth: int, index: int, attribute: str, text: str) -> Expression:
    def read(frame: Frame) -> Value:
        step = _frame_at(frame, depth).env[index]
        assert step is not None
        return _attribute(step, attribute, text)

    return read


def _owner_attribute(depth: int, attribute: str, text: str) -> Expression:
    return lambda frame: _attribute(_frame_at(frame, depth).owner, attribute, text)


def _missing_input(name: str) -> ReferenceError:
    return ReferenceError(reference=f"$.{name}", message=f"input {name} not found")
